#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# replay_test MATCH_BENCH MBX JOB - a program's recording is replayed with the recorded
# answers; a truncated or modified file is refused.
set -eu
match_bench=$1 mbx=$2 job=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    printf '%s\n' "replay_test: $*" >&2
    exit 1
}

MBX_TRACE=$folder "$mbx" run -n 3 "$job" >/dev/null
set -- "$folder"/*.trace
[ $# = 3 ] || fail "three ranks left $# recordings"
for file; do
    "$match_bench" --quick --replay "$file" >"$folder/lines"
    grep -q "^about=replay .* operations=[1-9]" "$folder/lines" || fail "nothing was replayed"
    [ "$(grep -c '^bench=replay engine=' "$folder/lines")" -ge 3 ] || fail "an engine is missing"
    [ "$(sed -n 's/.*checksum=//p' "$folder/lines" | sort -u | wc -l)" = 1 ] ||
        fail "the engines gave different answers"
done

head -c 1000 "$1" >"$folder/cut"
if "$match_bench" --quick --replay "$folder/cut" 2>/dev/null >&2; then
    fail "a recording that was cut was taken for a whole one"
fi

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# same_test.sh SIM [OTHER] - the same seeds give the same lines: twice, or in two builds.
set -eu

first=$(mktemp "${TMPDIR:-/tmp}/matchbox-same.XXXXXX")
second=$(mktemp "${TMPDIR:-/tmp}/matchbox-same.XXXXXX")
trap 'rm -f "$first" "$second"' EXIT

# lines_of SIM: the lines of jobs, and of jobs that are replayed.
lines_of() {
    "$1" --count 150 --lines
    "$1" --replays --count 100 --lines
}

lines_of "$1" >"$first"
lines_of "${2:-$1}" >"$second"
[ "$(grep -c '^seed ' "$first")" = 250 ] || {
    echo "same_test: 250 jobs were expected:"
    tail -n 3 "$first"
    exit 1
}
cmp "$first" "$second" || {
    diff "$first" "$second" | head -n 6
    exit 1
}

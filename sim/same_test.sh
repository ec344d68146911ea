#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# same_test.sh SIM [OTHER] - the same seeds give the same lines: twice, or in two builds.
set -eu

first=$(mktemp "${TMPDIR:-/tmp}/matchbox-same.XXXXXX")
second=$(mktemp "${TMPDIR:-/tmp}/matchbox-same.XXXXXX")
trap 'rm -f "$first" "$second"' EXIT

"$1" --count 150 --lines >"$first"
"${2:-$1}" --count 150 --lines >"$second"
[ "$(wc -l <"$first")" = 151 ] || {
    echo "same_test: 151 lines were expected:"
    tail -n 3 "$first"
    exit 1
}
cmp "$first" "$second" || {
    diff "$first" "$second" | head -n 6
    exit 1
}

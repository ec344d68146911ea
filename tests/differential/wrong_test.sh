#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# wrong_test.sh DIFFERENTIAL - does the differential driver find engines that are wrong on purpose,
# and print the shortest history?
set -u
differential=$(realpath "$1")
failed=0
folder=$(mktemp -d "${TMPDIR:-/tmp}/differential-wrong.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# expect FAULT ANSWERS LINE...: the driver finds that wrong:FAULT is wrong, and prints a history of
# exactly these lines and these answers at its end, each a pattern for the whole line.
expect() {
    fault=$1
    answers=$2
    shift 2
    out=$("$differential" --engine "wrong:$fault" --seeds 500)
    code=$?
    history=$(printf '%s\n' "$out" | sed -n 's/^  \([0-9]\)/\1/p')
    found=$(printf '%s\n' "$history" | wc -l)
    ok=yes
    [ "$code" = 1 ] || ok=no
    [ "$found" = $# ] || ok=no
    printf '%s\n' "$out" | grep -qxE "# wrong:$fault $answers" || ok=no
    for line; do
        printf '%s\n' "$history" | grep -qxE "$line" || ok=no
    done
    if [ "$ok" = no ]; then
        failed=1
        printf '%s\n' "wrong_test: $fault: exit code $code, expected 1, and $# lines:" "$@" \
            "# wrong:$fault $answers" 'got:' "$out"
    fi
}

# The posted receives fit the message; otherwise three operations would not be enough.
expect any-source '1, rules 0' \
    '0 post +ctx . src any .*' '1 post +ctx . src [0-2] .*' '2 arrive ctx . src [0-2] .*'
expect cancel '(0, rules nobody|nobody, rules 1|0, rules 1)' \
    '0 post .*' '1 post .*' '2 cancel 0' '3 arrive .*'
expect dies 'dies \(signal 11, .*\), rules taken' \
    '0 post +ctx . src [0-2] .*' '1 cancel 0'
# The engine stalls at the operation after eight messages.
expect stalls 'does not end, rules (nobody|[0-7])' \
    '0 arrive .*' '1 arrive .*' '2 arrive .*' '3 arrive .*' '4 arrive .*' '5 arrive .*' \
    '6 arrive .*' '7 arrive .*' '8 (arrive|post) .*'

# the driver can read its own output
"$differential" --engine wrong:any-source | grep -v ^engine= >found
"$differential" --engine match found >/dev/null || failed=1
"$differential" --engine wrong:any-source found >/dev/null
[ $? = 1 ] || failed=1
rm -f found

"$differential" --engine none >/dev/null 2>&1
[ $? = 2 ] || { echo 'wrong_test: an unknown engine is no usage error' && failed=1; }
"$differential" --engine match --seeds x >/dev/null 2>&1
[ $? = 2 ] || { echo 'wrong_test: --seeds x is no usage error' && failed=1; }

# an engine that crashes leaves no file
[ -z "$(ls)" ] || { printf '%s\n' 'wrong_test: files are left:' "$(ls)" && failed=1; }
exit $failed

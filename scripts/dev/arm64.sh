# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# The tests of the engine that need no library of their own, its histories and two examples.

! wants_help "$@" || explain

make_arm64_test() {
    aarch64-linux-gnu-gcc -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude -Isrc \
        "src/match/$1.c" src/match/history.c src/match/history_random.c \
        src/match/history_text.c src/match/oracle.c build-test/arm64/libmatchbox_internal.a \
        -pthread -o "build-test/arm64/$1"
}

emulate_arm64() {
    say "emulating $*"
    program=$1
    shift
    qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=build-test/arm64 \
        "build-test/arm64/$program" "$@"
}

prepare
for program in exhaustive_test growth_test replay; do
    run "building $program" make_arm64_test "$program"
done
emulate_arm64 exhaustive_test 5
emulate_arm64 growth_test 2
emulate_arm64 replay tests/histories/*.txt
emulate_arm64 examples/match_embed
emulate_arm64 examples/job

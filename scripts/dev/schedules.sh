# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# Against the oracle, in a build that is optimised and has asserts: COUNT schedules (1000000), from
# seed FIRST (1) on.  With --verbs: COUNT random histories (20000) of an endpoint whose receives the software
# adapter holds, which works when the seed says so; each is done twice, and 20 have one seed.
! wants_help "$@" || explain
over=
if [ "${1-}" = --verbs ]; then
    over=verbs
    # shellcheck disable=SC2034 # for prepare
    needs="gcc tests/verbs/verbs_order_test adapter/libmbx-adapter.so adapter/mbx-adapter"
    shift
fi
for number; do
    case $number in
    '' | *[!0-9]*) refuse "schedules takes a number of schedules and a seed, got '$number'" ;;
    esac
done
prepare
if [ "$over" = verbs ]; then
    export MBX_VERBS_LIBRARY="$PWD/build-test/gcc/adapter/libmbx-adapter.so"
    exec build-test/gcc/tests/verbs/verbs_order_test --held --progress \
        --count $(((${1-20000} + 19) / 20)) --seed "${2-1}"
fi
exec build-test/schedules/schedule_test --progress "${1-1000000}" "${2-1}"

# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# Against the oracle, in a build that is optimised and has asserts: COUNT schedules (1000000), from
# seed FIRST (1) on.
! wants_help "$@" || explain
for number; do
    case $number in
    '' | *[!0-9]*) refuse "schedules takes a number of schedules and a seed, got '$number'" ;;
    esac
done
prepare
exec build-test/schedules/schedule_test --progress "${1-1000000}" "${2-1}"

# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# A process dies at each point that has a name, in each scene that comes by it; with --network over a
# network, in one scene each, as each of them takes a second or two there.
prepare
case " $* " in
*' --network '*) ;;
*) set -- --all "$@" ;;
esac
exec build-test/gcc/tests/death_test "$@"

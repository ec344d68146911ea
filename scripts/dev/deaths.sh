# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# A process dies at each point that has a name, in each scene that comes by it.  With --network this is
# over a network, in one scene each, as each of them takes a second or two there.  With --verbs it is
# over the software adapter, and then while this adapter matches, where the adapter also dies.
case " $* " in
*' --verbs '*)
    # shellcheck disable=SC2034 # for prepare
    needs="gcc tests/death_test tests/verbs/verbs_killed_test adapter/libmbx-adapter.so adapter/mbx-adapter"
    prepare
    export MBX_VERBS_LIBRARY="$PWD/build-test/gcc/adapter/libmbx-adapter.so"
    build-test/gcc/tests/death_test --quick "$@" read # verbs does not pass the points of all scenes
    exec build-test/gcc/tests/verbs/verbs_killed_test
    ;;
esac
prepare
case " $* " in
*' --network '*) ;;
*) set -- --all "$@" ;;
esac
exec build-test/gcc/tests/death_test "$@"

# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
#   wire     an endpoint is fed what no correct peer sends (the default)
#   hello    a network endpoint is fed what no correct peer says in a handshake
#   match    the matching engine plays histories against its oracle
#   trace    mbx trace is fed files that no endpoint has written
#   core     mbx queues is fed core files, and memory of ranks, in which numbers are others
#   python   mbx doctor is fed the memory of a Python program in which numbers are others
#   snapshot mbx doctor is fed what no mbx on another host answers
#   ucp      libucp is fed addresses, keys and active messages that no correct peer sends
#
# Runs for 60 SECONDS.  New inputs stay in build-test/fuzz/found/, where the next run starts.
! wants_help "$@" || explain
target=wire most=512
case ${1-} in
wire | hello | match | trace | order | core | python | snapshot | ucp)
    target=$1
    shift
    ;;
*[!0-9]*) refuse "fuzz: there are wire, hello, match, trace, order, core, python, snapshot and ucp, no '$1'" ;;
esac
[ "$target" != match ] || most=128 # bytes; few are enough for a long history
[ $# -le 1 ] || refuse "fuzz takes a target and a number of seconds, got '$2'"
seconds=${1-60}
case $seconds in
*[!0-9]* | '') refuse "fuzz: SECONDS is a number, got '$seconds'" ;;
esac
# shellcheck disable=SC2034 # for prepare
needs="fuzz fuzz/${target}_fuzz"
prepare
mkdir -p "build-test/fuzz/found/$target"
say "fuzzing for $seconds s; an input that fails is left in build-test/fuzz/"
"build-test/fuzz/fuzz/${target}_fuzz" -max_total_time="$seconds" -max_len="$most" -verbosity=0 \
    -entropic=0 -len_control=20 -print_final_stats=1 -artifact_prefix=build-test/fuzz/ \
    "build-test/fuzz/found/$target" "fuzz/corpus/$target"

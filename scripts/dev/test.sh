# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
#   (no argument)         what to run before each commit, in 4 minutes: the build of gcc, its tests in their short forms and in
#                         few configurations, and the checks of the source.  Its last lines say what it leaves out
#   TEST                  this test (its name, or the name and what follows a _) in the build of gcc, in its long form
#   FILE                  the tests of this source file: its row in tests/by-file, or the tests that are built from it
#   all                   gcc, clang, asan, tsan and static: what continuous integration runs, in 25 minutes
#   release               all, and after it what is to be run before a release: lists, network, hosts, verbs, all
#                         mutants, 40 minutes of simulation, 10 minutes of each fuzzer, other MPIs: hours
#   gcc clang asan tsan   all tests in this build (gcc; clang; gcc with the sanitizers for addresses and
#                         undefined behaviour; gcc with the one for threads); clang and tsan without the tests
#                         of the tools and of MPI programs, in which another compiler shows nothing, and
#                         which have one thread
#   static                checks of the source alone: layers, pages, format, models, these commands
#   lists                 the behaviour tests with every driver of a device and every length of its list
#   network               the behaviour tests and most of the provider's over a network, with every provider
#                         of libfabric that they know, and over shared memory and a network at once
#   hosts                 as network, with each endpoint of a test on a host of its own; then the
#                         demonstration's programs on three hosts, and faults of a network
#   verbs                 the behaviour tests over verbs and the software adapter
#
# docs/contributing/testing.md says what the tests are.
! wants_help "$@" || explain

: "${ASAN_OPTIONS=}" "${TSAN_OPTIONS=}" "${UBSAN_OPTIONS=}"
passed=0
failed=0

# The build of a test: lists, network, hosts and verbs use the build of gcc.
build_of() {
    case $1 in
    clang | asan | tsan) echo "$1" ;;
    *) echo gcc ;;
    esac
}

# All jobs of a user under Open MPI 4.1 have their folders in one parent folder.  mpiexec creates it if it does not
# exist and removes it with the last job.  Two that start at once may both try to create it, and one of them fails.
# A file in the parent folder keeps it from being removed.
sessions="${TMPDIR:-/tmp}/ompi.$(uname -n).$(id -u)"

keep_sessions() {
    (umask 077 && mkdir -p "$sessions/matchbox-dev.$$")
}

leave_sessions() {
    rmdir "$sessions/matchbox-dev.$$" "$sessions" 2>/dev/null || true
}

make_configuration() {
    configure_once "$1" && ninja -C "build-test/$1"
}

# Programs under ThreadSanitizer need a predictable address space.
plain_addresses() {
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        setarch "$(uname -m)" -R "$@"
    else
        "$@"
    fi
}

run_tests() {
    name=$1
    build=$(build_of "$1")
    setup=
    case $name in
    clang) setup='--no-suite tools --no-suite strangers --no-suite mpi' && set -- ;;
    tsan) setup='--no-suite tools --no-suite strangers --no-suite mpi' && set -- plain_addresses ;;
    lists | verbs) setup="--setup $name --suite behaviour --no-suite fixed" && set -- ;;
    hosts) setup="--setup $name --suite behaviour" && set -- ;;
    network) setup="--setup $name --suite behaviour --suite over_network --no-suite fixed" && set -- ;;
    quick) setup="--setup quick" && set -- ;;
    named) setup=$named && set -- ;;
    *) set -- ;;
    esac
    # shellcheck disable=SC2086 # options
    # the library must handle a failed allocation, so the sanitizer must not abort
    ASAN_OPTIONS="halt_on_error=1:abort_on_error=1:allocator_may_return_null=1:$ASAN_OPTIONS" \
        TSAN_OPTIONS="halt_on_error=1:allocator_may_return_null=1:$TSAN_OPTIONS" \
        UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:$UBSAN_OPTIONS" \
        "$@" meson test -C "build-test/$build" --no-rebuild --no-stdsplit $setup
}

# As run, but reports each test that has ended: these take long, and may be stopped.
run_shown() {
    say "$1: testing"
    log=$(mktemp "${TMPDIR:-/tmp}/matchbox-dev.XXXXXX")
    { run_tests "$1" 2>&1 || echo failed >"$log.failed"; } | tee "$log" |
        sed -un 's/^ *\([0-9]*\/[0-9]* .*[^ ]\) *$/dev: \1/p'
    failure=0
    if [ -e "$log.failed" ]; then
        tail -n 60 "$log" >&2
        printf '%s\n' "dev: failed: $1: testing" >&2
        failure=1
    fi
    rm -f "$log" "$log.failed"
    return "$failure"
}

# Tests often wait: for time, for each other, for a program with one thread.  Meanwhile idle cores build the next
# configurations, with the lowest priority.  This only saves time: a build counts as made or failed only when its turn
# comes.  The models are also checked in parallel with the first tests (static_models).
ahead=

# Builds the configurations after the first.
build_ahead() {
    shift
    building=
    trap '[ -z "$building" ] || { kill "$building"; wait "$building"; } || true; exit 0' TERM
    for name; do
        case $name in
        clang | asan | tsan) ;;
        *) continue ;;
        esac
        configure_once "$name"
        nice -n 19 ninja -C "build-test/$name" -j "$(nproc)" &
        building=$!
        wait "$building" || exit 0
        building=
    done
}

# Is the process a child of this shell?  The id of one that has ended may be reused.
is_child() {
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    # shellcheck disable=SC2086 # fields
    set -- ${stat##*) }
    [ "$2" = "$$" ]
}

# Stops the build ahead.  A build that ninja itself interrupts leaves no partial file.
leave_ahead() {
    if [ -n "$ahead" ]; then
        ! is_child "$ahead" || kill "$ahead" 2>/dev/null || true
        wait "$ahead" || true
        ahead=
    fi
}

# Adds the result of the first of these configurations to passed and failed.
test_configuration() {
    started=$(date +%s)
    case $1 in
    quick | lists | network | hosts | verbs) log_file=build-test/gcc/meson-logs/testlog-$1.json ;;
    named) log_file=build-test/$(build_of named)/meson-logs/testlog.json ;;
    *) log_file=build-test/$1/meson-logs/testlog.json ;;
    esac
    rm -f "$log_file"
    leave_ahead
    if ! run "$1: building" make_configuration "$(build_of "$1")"; then
        failed=$((failed + 1))
        return
    fi
    build_ahead "$@" >/dev/null 2>&1 &
    ahead=$!
    case " $* " in
    *' static '*) begin_lane static_models --jobs 1 ;;
    esac
    status=0
    case $1 in
    lists | network | hosts | verbs | named) run_shown "$1" || status=1 ;;
    *) run "$1: testing" run_tests "$1" || status=1 ;;
    esac
    counts=$(python3 scripts/check/count-tests "$log_file" $status) ||
        counts='0 1 0'
    # shellcheck disable=SC2086
    set -- "$1" $counts
    passed=$((passed + $2))
    failed=$((failed + $3))
    say "$1: $2 passed, $3 failed, $4 skipped ($(($(date +%s) - started)) s)"
}

# The additional tests on hosts, in their long form.
test_hosts() {
    checks=hosts
    make_hosts=0
    scripts/hosts/netns-hosts -n 1 true 2>/dev/null || make_hosts=$?
    if [ "$make_hosts" = 77 ]; then
        say 'hosts: cannot be made here: skipped'
        return
    fi
    install build mpi demo
    check tests/launch/start_test.py build-test/gcc --long demo_on_hosts hosts hosts_talk mpi_on_hosts
    check tests/faults/faults_test.py build-test/gcc --long
}

check() {
    if run "$checks: $*" "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}

# Two halves, for two cores: most checks have one thread.
static_of_code() {
    check scripts/check/layers
    check scripts/check/owners
    check scripts/check/names
    if [ -d build-test/gcc/libmatchbox_internal.a.p ]; then
        check scripts/check/calls build-test/gcc
    fi
    if [ -x build-test/gcc/tools/mbx ]; then
        check scripts/check/params
        check scripts/dev/tests_of.py --check build-test/gcc
    fi
    check scripts/check/header
    check scripts/check/wire
    check scripts/check/statistics
    check scripts/check/messages
    check scripts/check/walk
    check scripts/check/provider
}

static_of_pages() {
    check scripts/check/format
    check scripts/check/docs
    check scripts/check/glossary
    check scripts/check/prose
    check scripts/check/tests
}

static_of_the_rest() {
    static_of_pages
    check scripts/check/series
    check scripts/check/commands
    check scripts/check/mutants --places
    check scripts/check/reuse
    if [ -x build-test/gcc/sim/sim ] && [ -x build-test/clang/sim/sim ]; then
        check sim/same_test.sh build-test/gcc/sim/sim build-test/clang/sim/sim
    fi
}

# The longest check: several programs at a time.
static_models() {
    check nice -n 19 scripts/model/check "$@"
}

# Ends a process and its descendants.  The process comes first, so that it starts no more.
end_tree() {
    children=
    { read -r children <"/proc/$1/task/$1/children"; } 2>/dev/null || true # the line has no newline
    kill "$1" 2>/dev/null || true
    for child in $children; do
        end_tree "$child"
    done
}

# Static checks that run in parallel: "PID:FUNCTION" of each.  They ignore an interrupt, as all background processes
# of a shell do.
lanes=
results=

# Runs a check in a subshell.
run_lane() {
    trap 'rm -f "$log"' EXIT
    trap 'exit 130' TERM
    checks=static passed=0 failed=0
    "$@" && echo "$passed $failed" >"$results/$1"
}

# begin_lane FUNCTION [ARGUMENT...]: starts it in the background, unless it was started before.
begin_lane() {
    case $lanes in
    *":$1 "*) return ;;
    esac
    [ -n "$results" ] || results=$(mktemp -d "${TMPDIR:-/tmp}/matchbox-dev.XXXXXX")
    run_lane "$@" &
    lanes="$lanes$!:$1 "
}

# Waits for all lanes, and adds their results.
end_lanes() {
    for lane in $lanes; do
        wait "${lane%%:*}" || true
        read -r lane_passed lane_failed <"$results/${lane#*:}" || lane_passed=0 lane_failed=1
        passed=$((passed + lane_passed))
        failed=$((failed + lane_failed))
    done
    lanes=
}

leave_static() {
    for lane in $lanes; do
        ! is_child "${lane%%:*}" || end_tree "${lane%%:*}"
        wait "${lane%%:*}" || true # it removes its log
    done
    [ -z "$results" ] || rm -rf "$results"
}

test_static() {
    begin_lane static_models
    begin_lane static_of_code
    begin_lane static_of_the_rest
    end_lanes
}

# ---- before each commit ----------------------------------------------------------

test_quick() {
    test_configuration quick
    begin_lane static_of_code
    begin_lane static_of_pages
    end_lanes
    say 'left out: clang, the sanitizers, programs of MPI, commands of mbx, networks, adapters, counts of'
    say 'instructions, models, mutants, most configurations (./dev test all); and what ./dev test release adds'
}

# ---- tests by name, or of a file -------------------------------------------------

# Sets named to the tests that meson must run.
find_named() {
    run 'gcc: building' make_configuration gcc || exit 1
    named=$(python3 scripts/dev/tests_of.py build-test/gcc "$@") || exit 2
    say "tests: $named"
}

# ---- before a release ------------------------------------------------------------

test_release() {
    checks=release
    test_builds gcc clang asan tsan static lists network hosts verbs
    check ./dev mutants
    check ./dev sim --campaign 30m
    check ./dev sim --replays --campaign 10m
    check ./dev model --full
    for what in wire hello match trace core snapshot ucp; do
        check ./dev fuzz "$what" 600
    done
    check ./dev deaths
    check ./dev modes
    check ./dev mpis mpich
    check ./dev mpis openmpi5
    check ./dev slurm
    check ./dev valgrind
    say 'left out: ./dev libfabric --fabtests SOURCE, which needs the source of a libfabric'
}

# Runs the builds in this order.
test_builds() {
    while [ $# -gt 0 ]; do
        case $1 in
        static) test_static ;;
        *) test_configuration "$@" ;;
        esac
        [ "$1" != hosts ] || test_hosts
        shift
    done
}

# ----------------------------------------------------------------------------------

is_build() {
    case $1 in
    gcc | clang | asan | tsan | static | lists | network | hosts | verbs) ;;
    *) return 1 ;;
    esac
}

# Does a meson.build contain a test with this name, or this beginning?  Only a build, which takes minutes, knows
# exactly.
may_be_test() {
    beginning=$1
    until grep -rqF --include=meson.build --exclude-dir='build*' "'$beginning" .; do
        case $beginning in
        *_*) beginning=${beginning%_*} ;;
        *-*) beginning=${beginning%-*} ;;
        *) return 1 ;;
        esac
    done
}

names_builds=yes
for word; do
    is_build "$word" && continue
    names_builds=
    [ "$word" = all ] || [ "$word" = release ] || [ -f "$word" ] || may_be_test "$word" ||
        refuse "test: there is no test, file or build '$word'"
done
case "$*" in
all | release) packages="$packages programs" ;; # gcc's tests run these programs
*' all'* | 'all '* | *' release'* | 'release '*) refuse "test: '$*': all and release stand alone" ;;
*) case " $* " in *' gcc '*) packages="$packages programs" ;; esac ;;
esac
prepare
mkdir -p build-test
trap 'leave_ahead; leave_static; leave_sessions; rm -f "$log"' EXIT
keep_sessions
case "$*" in
'') test_quick ;;
all) test_builds gcc clang asan tsan static ;;
release) test_release ;;
*)
    if [ -n "$names_builds" ]; then
        test_builds "$@"
    else
        find_named "$@"
        test_configuration named
    fi
    ;;
esac
printf '%s\n' "$passed passed, $failed failed"
[ "$failed" = 0 ]

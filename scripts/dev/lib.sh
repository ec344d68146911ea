# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# lib.sh - functions of ./dev and its commands: messages, packages, builds.  Sourced by ./dev, in
# the root of the tree.

say() {
    printf '%s\n' "dev: $*"
}

# Reports wrong arguments.
refuse() {
    printf '%s\n' "dev: $*" >&2
    exit 2
}

wants_help() {
    for word; do
        case $word in
        -h | --help) return 0 ;;
        esac
    done
    return 1
}

# run WHAT COMMAND...: runs it quietly; if it fails, shows the end of its output.
log=
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM HUP

run() {
    what=$1
    shift
    say "$what"
    log=$(mktemp "${TMPDIR:-/tmp}/matchbox-dev.XXXXXX")
    failure=0
    "$@" >"$log" 2>&1 || failure=1
    if [ "$failure" = 1 ]; then
        tail -n 60 "$log" >&2
        printf '%s\n' "dev: failed: $what" >&2
    fi
    rm -f "$log"
    return "$failure"
}

# ---- packages --------------------------------------------------------------------

# packages_of WORD...: each is a group of scripts/dev/packages, or a package.
packages_of() {
    for word; do
        group=$(sed -n "s/^$word: //p" scripts/dev/packages)
        # shellcheck disable=SC2086 # a list of words
        printf '%s ' ${group:-"$word"}
    done
}

missing_packages() {
    for package; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
            printf ' %s' "$package"
    done
}

apt_install() {
    $as_root apt-get install -y --no-install-recommends "$@"
}

# The package list may be old or missing: if the install fails, updates the list and tries again.
apt_install_updated() {
    apt_install "$@" || { $as_root apt-get update && apt_install "$@"; }
}

# install WORD...: installs groups and packages.
install() {
    # shellcheck disable=SC2046 # a list of words
    set -- $(packages_of "$@")
    [ $# -gt 0 ] || return 0
    if ! command -v dpkg-query >/dev/null; then
        say "this is not Debian; what is needed is called there: $*"
        return 0
    fi
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ]; then
        as_root='env DEBIAN_FRONTEND=noninteractive'
    elif command -v sudo >/dev/null; then
        as_root='sudo env DEBIAN_FRONTEND=noninteractive'
    else
        printf '%s\n' "dev: packages are missing; as root, run:" >&2
        printf '%s\n' "apt-get update && apt-get install -y --no-install-recommends$missing" >&2
        exit 1
    fi
    # shellcheck disable=SC2086 # a list of words
    run "installing$missing" apt_install_updated $missing
}

# ---- builds ----------------------------------------------------------------------

# The folder of a build.
place_of() {
    case $1 in
    release) echo build ;;
    *) echo "build-test/$1" ;;
    esac
}

# configure BUILD: its compiler and options.  Asserts stay on in the optimised builds.  In the
# tests' builds with sanitizers, gcc takes twice as long for -O2 as for -O1, and the sanitizers find
# the same; debug information is limited to line numbers.
# shellcheck disable=SC2086 # lists of words
configure() {
    place=$(place_of "$1")
    compiler=${CC-}
    optimised='--buildtype=release -Db_lto=true -Db_ndebug=false'
    tested='-Ddebug=true -Dc_args=-g1 -Dwerror=true'
    case $1 in
    release) set -- $optimised -Dtests=false ;;
    schedules) set -- $optimised -Dprovider=disabled -Ducp=disabled ;;
    gcc) compiler=gcc && set -- $tested -Doptimization=2 ;;
    clang) compiler=clang && set -- $tested -Doptimization=2 ;;
    asan) compiler=gcc && set -- $tested -Doptimization=1 -Db_sanitize=address,undefined ;;
    tsan) compiler=gcc && set -- $tested -Doptimization=1 -Db_sanitize=thread ;;
    fuzz)
        compiler=clang
        set -- -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false -Dprovider=disabled
        ;;
    # without a provider: Debian's libfabric for arm64 would be a second system
    arm64) set -- --cross-file scripts/build/arm64.ini -Dwerror=true -Dtests=false -Dprovider=disabled -Ducp=disabled ;;
    *) refuse "there is no build '$1'" ;;
    esac
    mkdir -p build-test
    env ${compiler:+CC="$compiler"} meson setup "$place" "$@"
}

configure_once() {
    [ -f "$(place_of "$1")/build.ninja" ] || configure "$1"
}

# A build that was configured before UCX or MPICH was installed lacks their programs.
know_peers() {
    [ -f build/build.ninja ] || return 0
    if ! grep -q HAVE_UCX build/build.ninja || ! grep -q mpi_match_mpich build/build.ninja; then
        run 'configuring build/ again' meson setup --reconfigure build
    fi
}

# make_build BUILD [TARGET...]
make_build() {
    if [ "$1" = release-with-peers ]; then
        know_peers
        shift
        set -- release "$@"
    fi
    place=$(place_of "$1")
    [ -f "$place/build.ninja" ] || run "configuring $place/" configure "$1"
    shift
    run "building $place/${*:+: $*}" ninja -C "$place" "$@"
}

# Installs the packages in the row of this command, then builds its needs.
prepare() {
    # shellcheck disable=SC2086,SC2154 # lists of words, of row()
    install $packages
    # shellcheck disable=SC2086
    [ -z "$needs" ] || make_build $needs
}

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# install_test.sh BUILD SOURCE COMPILER... - the files that `meson install` installs can be used,
# and export no internal name.
set -eu

build=$1
source=$2
shift 2

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 1' INT TERM HUP

fail() {
    printf '%s\n' "install_test: $*" >&2
    exit 1
}

one() {
    found=$(find "$root" -path "*/$1" | head -n 1)
    [ -n "$found" ] || fail "$1 is not installed"
    printf '%s' "$found"
}

# only_symbols FILE PATTERN NM-OPTION: all defined global symbols match.
only_symbols() {
    # version names are absolute symbols (A)
    names=$(nm "$3" --defined-only "$1" | awk 'NF == 3 && $2 != "A" { print $3 }' |
        sed 's/@.*//')
    [ -n "$names" ] || fail "$1 exports nothing"
    others=$(printf '%s\n' "$names" | grep -vE "$2" || :)
    [ -z "$others" ] || fail "$1 exports $others"
}

meson install -C "$build" --no-rebuild --quiet --destdir "$root" >"$root/log" 2>&1 ||
    { cat "$root/log" >&2; fail "meson install"; }

library=$(one libmatchbox.so.0)
archive=$(one libmatchbox.a)
mbx=$(one bin/mbx)
pkgconfig=$(dirname "$(one matchbox.pc)")
one matchbox.h >/dev/null
one match.h >/dev/null

only_symbols "$library" '^mbx_' -D
only_symbols "$archive" '^mbx_' -g
# Libraries that may be missing on a machine are loaded only when they are used.  Debian's C library depends on libgcc_s.
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc\.so|libm\.so|ld-linux|libgcc_s\.so)' || :)
[ -z "$needed" ] || fail "libmatchbox.so needs $needed"
engine=$(one libmatchbox-match.so.0)
only_symbols "$engine" '^mbx_match_' -D
only_symbols "$(one libmatchbox-match.a)" '^mbx_match_' -g
one matchbox-match.pc >/dev/null
# The libraries export the symbols in debian/, which a release has to keep.
for file in "$library" "$engine"; do
    soname=$(readelf -d "$file" | sed -n 's/.*(SONAME).*\[\(.*\)\.so\.\(.*\)\]/\1\2/p')
    nm -D --defined-only "$file" | awk '$2 != "A" { print $3 }' | sed 's/@@*/@/' | sort >"$root/exported"
    sed -n 's/^ \(mbx_[^ ]*\) .*/\1/p' "$source/debian/$soname.symbols" | sort >"$root/named"
    differ=$(diff "$root/named" "$root/exported" | sed -n 's/^[<>] //p' | tr '\n' ' ')
    [ -z "$differ" ] || fail "debian/$soname.symbols and the library differ in $differ"
done
if [ -e "$build/src/provider/libmatchbox-fi.so" ]; then
    only_symbols "$(one libmatchbox-fi.so)" '^(fi_prov_ini|mbx_see_root)$' -D
    "$mbx" exec --print --through=provider | grep -q "^export FI_PROVIDER_PATH='$root/" ||
        fail "the installed mbx exec does not find the installed provider"
fi
if [ -e "$build/src/native/libmatchbox-native.so" ]; then
    only_symbols "$(one libmatchbox-native.so)" '^mbx_' -D
    "$mbx" exec --verbose --record "$root/native" true 2>&1 | grep -q "LD_PRELOAD=$root/[^:]*/libmatchbox-native.so" ||
        fail "the installed mbx exec does not find the installed library for records of programs without MPI"
fi
if [ -e "$build/src/pml/mca_pml_matchbox.so" ]; then
    only_symbols "$(one mca_pml_matchbox.so)" '^(mca_pml_matchbox_(component|series)|mbx_see_root)$' -D
    only_symbols "$(one libmatchbox-preload.so)" '^(P?MPI_Request_get_status|mbx_choice|mbx_preload)$' -D
    if "$build/tools/mbx" exec --print --through=pml >/dev/null 2>&1; then
        "$mbx" exec --print --through=pml | grep -q "^export OMPI_MCA_mca_base_component_path='$root/" ||
            fail "the installed mbx exec does not find the installed component"
        "$mbx" exec --verbose --record "$root/records" true 2>&1 | grep -q "LD_PRELOAD=$root/.*/libmatchbox-preload.so" ||
            fail "the installed mbx exec does not find the installed library for records"
    fi
fi

# The files for debuggers, which mbx exec names to them.
only_symbols "$(one libmatchbox-msgq.so)" '^mqs_' -D
one share/matchbox/matchbox-gdb.py >/dev/null
if [ -e "$build/src/provider/libmatchbox-fi.so" ]; then
    "$mbx" exec --print --through=provider | grep -q "^export ALLINEA_QUEUE_DLL='$root/.*/libmatchbox-msgq.so'" ||
        fail "the installed mbx exec does not find the installed library for debuggers"
fi

for file in bash-completion/completions/mbx zsh/site-functions/_mbx fish/vendor_completions.d/mbx.fish; do
    grep -q overlap "$(one "$file")" || fail "$file completes nothing"
done

for file in doc/matchbox/LICENSE doc/matchbox/README.md doc/matchbox/docs/library.md doc/matchbox/examples/job.c; do
    one "$file" >/dev/null
done
# The files that README.md links to are installed; its links to sources are for readers of the repository.
for link in $(grep -o '](\(docs\|evidence/runs\)/[^)#]*' "$(one doc/matchbox/README.md)"); do
    one "doc/matchbox/${link#??}" >/dev/null
done
for file in mbx mbx-run mbx-exec mbx-info mbx-perf mbx-trace mbx-queues mbx-doctor mbx-adapter-test; do
    page=$(one "man1/$file.1")
    grep -q '^.SH DESCRIPTION' "$page" || fail "$page is no manual page"
    # the local formatter of manual pages prints no warning
    if command -v man >/dev/null; then
        said=$(LC_ALL=C MANROFFSEQ='' man --warnings=all -l -Tascii "$page" 2>&1 >/dev/null)
        [ -z "$said" ] || fail "$page: $said"
    fi
done
# Each call has a page, also the second of two calls that share a comment.
for file in matchbox mbx_send mbx_job_size mbx_match mbx_match_post; do
    one "man3/$file.3" >/dev/null
done
grep -q 'FI_MATCHBOX_EAGER_LIMIT' "$(one man7/fi_matchbox.7)" || fail "fi_matchbox(7) lacks a parameter"
[ -z "$(find "$root" -name libucp.so.0)" ] || one man7/libucp_matchbox.7 >/dev/null
grep -q -- '--timeout\|timeout SECONDS' "$(one man1/mbx-run.1)" || fail "mbx-run(1) lacks an option"

# The installed files have nothing of testing/: no transport, no parameter, no failpoint.
for file in "$library" "$archive" "$mbx" $(find "$root" -name libmatchbox-fi.so) $(find "$root" -name matchbox-device); do
    found=$(strings -a "$file" | grep -E 'FAULT_|LOOP_DEPTH|ADVERT_SIZE|SPLIT_COPY_SIZE|transport_(loop|sim|fault)|failpoint_(reach|die)$' || :)
    [ -z "$found" ] || fail "$file has $found"
done
names=$("$mbx" info --transports | awk 'NR > 1 { print $1 }' | tr '\n' ' ')
[ "$names" = "shm ofi verbs shm+ofi shm+verbs " ] || fail "mbx info lists the transports $names"
! MBX_TRANSPORT=loop "$mbx" info --window >"$root/said" 2>&1 || fail "MBX_TRANSPORT=loop is accepted"
! MBX_FAULT_PERCENT=1 "$mbx" info --window >"$root/said" 2>&1 || fail "MBX_FAULT_PERCENT is accepted"
! MBX_SENDTABLE=no "$mbx" info --window >"$root/said" 2>&1 || fail "MBX_SENDTABLE is accepted"

# flags OPTION... - of the package that PKG names
PKG=matchbox
flags() {
    PKG_CONFIG_PATH=$pkgconfig PKG_CONFIG_SYSROOT_DIR=$root pkg-config "$@" "$PKG"
}

[ "$(flags --modversion)" = "$("$mbx" version | sed -n 's,^matchbox ,,p')" ] ||
    fail "matchbox.pc and the library disagree about the version"

program=$source/tests/launch/install_program.c
# shellcheck disable=SC2046 # a list of flags
"$@" -Wall -Wextra -Werror "$program" -o "$root/shared" $(flags --cflags --libs)
# shellcheck disable=SC2046
"$@" -Wall -Wextra -Werror -static "$program" -o "$root/static" $(flags --static --cflags --libs)

# Without an installation, the build's own folder of .pc files leads to the headers and the libraries.
for PKG in matchbox matchbox-match; do
    embedded=$program
    [ $PKG = matchbox ] || embedded=$source/examples/match_embed.c
    # shellcheck disable=SC2046
    "$@" -Wall -Wextra -Werror "$embedded" -o "$root/uninstalled" \
        $(PKG_CONFIG_PATH=$build/meson-uninstalled pkg-config --cflags --libs $PKG) ||
        fail "$PKG of meson-uninstalled cannot be used"
done
PKG=matchbox

# A program may use old or likely names of the engine for its own functions.
# shellcheck disable=SC2046
"$@" -Wall -Wextra -Werror -static "$source/tests/launch/install_names.c" -o "$root/names" \
    $(flags --static --cflags --libs) || fail "names of the inside collide with a program's"
"$root/names" || fail "a function of the program was called in place of the library's"

# The engine's own library needs only the C library, and no threads, I/O or environment.
needed=$(readelf -d "$engine" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc\.so|ld-linux)' || :)
[ -z "$needed" ] || fail "libmatchbox-match.so needs $needed"
calls='malloc|calloc|realloc|free|posix_memalign|malloc_usable_size|madvise|mem(cpy|move|set|cmp)'
others=$(nm -D --undefined-only "$engine" | awk '$1 == "U" { print $2 }' | sed 's/@.*//' |
    grep -vE "^($calls|__errno_location|__assert_fail|__stack_chk_fail)\$" || :)
[ -z "$others" ] || fail "libmatchbox-match.so calls $others"
embed=$source/examples/match_embed.c
PKG=matchbox-match
# shellcheck disable=SC2046
"$@" -Wall -Wextra -Werror "$embed" -o "$root/embed" $(flags --cflags --libs)
# shellcheck disable=SC2046
"$@" -Wall -Wextra -Werror -static "$embed" -o "$root/embed_static" $(flags --static --cflags --libs)

LD_LIBRARY_PATH=$(dirname "$library")
export LD_LIBRARY_PATH
for name in shared static; do
    "$root/$name" || fail "the $name program alone"
    "$mbx" run -n 3 "$root/$name" || fail "the $name program under mbx run"
done
for name in embed embed_static; do
    "$root/$name" >"$root/said" || fail "the $name program"
    grep -q '^first gets "42" from 7$' "$root/said" || fail "the $name program said $(cat "$root/said")"
done
ldd "$root/shared" | grep -q "$library" || fail "the shared program uses another library"

# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# Without a name: match, device, inspect and replay, of which ./dev test tries a part, and races, directory, sim and native.  backlog, advert and bounce run tests of
# the whole library; the first two take some minutes each.
! wants_help "$@" || explain
prepare
# lists the parts of the library
[ -f build-test/gcc/build.ninja ] || run 'configuring build-test/gcc/' configure gcc
[ $# -gt 0 ] || set -- match device inspect replay races directory sim native
for module; do
    say "mutants of $module"
    scripts/check/mutants --of "$module"
done

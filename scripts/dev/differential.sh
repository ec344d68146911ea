# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# Other matchers, where they are installed, beside the oracle.
prepare
FI_PROVIDER_PATH=$PWD/build-test/gcc/src/provider exec build-test/gcc/tests/differential/differential "$@"

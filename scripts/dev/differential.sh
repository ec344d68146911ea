# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# Compares other matchers, if they are installed, with the oracle.
prepare
FI_PROVIDER_PATH=$PWD/build-test/gcc/src/provider exec build-test/gcc/tests/differential/differential "$@"

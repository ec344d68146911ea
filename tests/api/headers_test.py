#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""headers_test.py SOURCE - the public headers compile cleanly in every language that may use them.

Each header alone, all of them together, and a few lines that use their declarations; by gcc and
clang, in C99 to C23 and C++11 to C++20, with as many warnings as possible, each an error.  A
compiler that is not installed is named and left out; without any the test is skipped.
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys

SOURCE = os.path.abspath(sys.argv[1])
SKIPPED = 77
HEADERS = sorted(name for name in os.listdir(f"{SOURCE}/include/matchbox") if name.endswith(".h"))

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-pedantic-errors", "-Wconversion", "-Wsign-conversion", "-Wshadow",
            "-Wundef", "-Wcast-qual", "-Wcast-align", "-Wwrite-strings", "-Wredundant-decls",
            "-Wmissing-declarations", "-Wfloat-equal", "-Wformat=2"]
C_WARNINGS = ["-Wstrict-prototypes", "-Wmissing-prototypes", "-Wold-style-definition", "-Wc++-compat"]
CXX_WARNINGS = ["-Wold-style-cast", "-Wzero-as-null-pointer-constant", "-Wnon-virtual-dtor", "-Wuseless-cast"]
# All warnings of clang that a header of C can avoid.
CLANG = ["-Weverything", "-Wno-padded", "-Wno-c++98-compat", "-Wno-c++98-compat-pedantic",
         "-Wno-declaration-after-statement", "-Wno-unused-macros", "-Wno-unsafe-buffer-usage",
         "-Wno-pre-c2x-compat", "-Wno-reserved-identifier", "-Wno-unknown-warning-option"]

C = [("gcc", WARNINGS + C_WARNINGS), ("clang", WARNINGS + CLANG)]
CXX = [("g++", WARNINGS + CXX_WARNINGS), ("clang++", WARNINGS + CLANG)]
LANGUAGES = [(*compiler, "c", standard) for compiler in C for standard in ("c99", "c11", "c17", "c2x")] + \
            [(*compiler, "c++", standard) for compiler in CXX for standard in ("c++11", "c++14", "c++17", "c++20")]

USE = """
int use(struct mbx_ep *ep, struct mbx_match *m);
int use(struct mbx_ep *ep, struct mbx_match *m)
{
    struct mbx_limits limits;
    struct mbx_options options;
    struct mbx_completion done;
    mbx_request request = 0;

    options.user = &limits;
    options.data = 0;
    options.flags = MBX_AT_ONCE | MBX_SILENT;
    if (mbx_limits_get(ep, &limits, sizeof limits) < 0)
        return MBX_PROTOCOLS;
    if (mbx_recv(ep, MBX_ANY_SOURCE, MBX_CONTEXT_MAX, 0, MBX_IGNORE_ALL, &limits, sizeof limits, &options,
                 &request) < 0 ||
        mbx_poll(ep, MBX_SENDS | MBX_RECVS, &done, 1) < 0)
        return MBX_VERSION_MAJOR;
    return mbx_match_is_valid(m) && done.kind == MBX_RECVS && done.status.source == MBX_MATCH_ANY_SOURCE;
}
"""


def text_of(what):
    if what in HEADERS:
        return f"#include <matchbox/{what}>\n#include <matchbox/{what}>\n"
    headers = HEADERS if what == "all" else HEADERS[::-1]
    return "".join(f"#include <matchbox/{name}>\n" for name in headers) + USE


def compile_one(job):
    """None, or the output of the compiler."""
    (compiler, flags, language, standard), what = job
    result = subprocess.run([compiler, f"-std={standard}", "-x", language, *flags, "-Werror", "-fsyntax-only",
                             f"-I{SOURCE}/include", "-"], input=text_of(what), text=True, capture_output=True)
    return f"{compiler} -std={standard}, {what}:\n{result.stderr}" if result.returncode != 0 else None


missing = sorted({language[0] for language in LANGUAGES if shutil.which(language[0]) is None})
if missing:
    print(f"not installed, and left out: {', '.join(missing)}")
jobs = [(language, what) for language in LANGUAGES if language[0] not in missing
        for what in [*HEADERS, "all", "all, turned around"]]
if not jobs:
    sys.exit(SKIPPED)
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    errors = [error for error in pool.map(compile_one, jobs) if error]
print("".join(errors[:8]) + f"headers={len(HEADERS)} compiled={len(jobs)} failed={len(errors)}")
sys.exit(bool(errors))

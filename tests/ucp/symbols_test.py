#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""symbols_test.py LIBRARY - our libucp.so.0 has each function of libucp that clients on this machine need.

The clients are installed: libmpich, Open MPI's components and libraries, ucx_perftest, UCC.  The names that the installed
ucp.h declares also count, and nothing but names of libucp is visible.  So the test fails by itself when an upgrade of a
package needs another function.
"""
import glob
import os
import re
import subprocess
import sys

CLIENTS = ["/usr/lib/*/libmpich.so.12", "/usr/lib/*/openmpi/lib/openmpi3/mca_*_ucx.so", "/usr/lib/*/libmca_common_ucx.so*",
           "/usr/lib/*/openmpi/lib/libmca_common_ucx.so*", "/usr/lib/*/libmpi.so.40", "/usr/lib/*/libopen-pal.so.80",
           "/usr/bin/ucx_perftest", "/usr/lib/*/libucc.so*", "/usr/lib/*/ucc/*.so"]
HEADERS = ["/usr/include/ucp/api/ucp.h", "/usr/include/ucp/api/ucp_compat.h"]
INLINE = {"ucp_init", "ucp_dt_make_contig", "ucp_dt_make_iov"}


def symbols(path, *options):
    text = subprocess.run(["nm", "-D", *options, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines()}


def declared():
    """The names that the headers declare as functions, outside comments."""
    names = set()
    for path in HEADERS:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
            names |= set(re.findall(r"\b(ucp_\w+)\s*\(", text))
    return names - INLINE


def main():
    visible = symbols(sys.argv[1], "--defined-only")
    errors = [f"{name} is visible" for name in sorted(visible) if not name.startswith("ucp_") and name != "mbx_see_root"]
    errors += [f"{name}, which ucp.h declares, is missing" for name in sorted(declared() - visible)]
    clients = sorted({os.path.realpath(path) for pattern in CLIENTS for path in glob.glob(pattern)})
    for client in clients:
        needed = {name for name in symbols(client, "--undefined-only") if name.startswith("ucp_")}
        errors += [f"{name}, which {client} needs, is missing" for name in sorted(needed - visible)]
    print(f"symbols: {len(visible)} visible, {len(declared())} declared, {len(clients)} clients, {len(errors)} errors")
    print("".join(f"{error}\n" for error in errors), end="")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())

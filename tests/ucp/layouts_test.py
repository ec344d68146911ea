#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""layouts_test.py COMPILER... - the installed headers of UCX have the layouts that src/ucp was written for.

The table `layouts` has the size of each public structure of ucp.h, the offset of each of its members, the value of each
constant, and the constants of libucs that src/ucp uses.  A row has a value for each version of UCX that changed it, from the first
one that has it.  The test fails if a value differs, and if the headers have a structure, a member or a constant without a
row: then a client may need more than src/ucp knows.  Constants that src/ucp defines itself are compared with the table.
Status 77 where the headers are not installed.

  layouts_test.py --write VERSION=INCLUDE... -- COMPILER...   writes the table anew, from the headers of several versions
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "layouts")
SOURCE = os.path.join(HERE, "..", "..", "src", "ucp")
API = ["ucp/api/ucp_def.h", "ucp/api/ucp.h", "ucp/api/ucp_compat.h"]
LIBUCS = ["ucs/type/status.h", "ucs/type/thread_mode.h", "ucs/memory/memory_type.h", "ucs/config/types.h"]
# types that are no structures
PLAIN = ["ucp_tag_t", "ucp_datatype_t", "ucs_status_t", "ucs_status_ptr_t", "ucs_memory_type_t", "ucs_thread_mode_t",
         "ucp_atomic_op_t", "ucp_atomic_post_op_t", "ucp_atomic_fetch_op_t"]
# constants that src/ucp defines itself, because older headers do not have them
OWN = {"UCP_AM_SEND_FLAG_COPY_HEADER": ("am_send.c", "FLAG_COPY_HEADER"),
       "UCS_MEMORY_TYPE_ZE_DEVICE": ("request.c", "MEMORY_TYPE_ZE_DEVICE"),
       "UCS_MEMORY_TYPE_ZE_MANAGED": ("request.c", "MEMORY_TYPE_ZE_MANAGED"),
       "UCP_FEATURE_EXPORTED_MEMH": ("context.c", "FEATURE_EXPORTED_MEMH"),
       "UCP_MEMH_PACK_PARAM_FIELD_FLAGS": ("later.c", "FIELD_FLAGS"),
       "UCP_MEMH_PACK_FLAG_EXPORT": ("later.c", "FLAG_EXPORT")}


# ---- what headers declare ----

def plain_text(path):
    with open(path, encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read(), flags=re.S)


def body_at(text, start):
    """The text between the brace at start and its partner, and the place of the partner."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1:at], at
    raise ValueError("a brace without a partner")


def pieces(body, separator):
    """The pieces between separators that are in no braces and parentheses."""
    depth, piece = 0, ""
    for char in body:
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(char, 0)
        if char == separator and depth == 0:
            yield piece
            piece = ""
        else:
            piece += char
    yield piece


def members(body):
    for piece in pieces(body, ";"):
        inner = piece.find("{")
        if inner >= 0:
            nested, end = body_at(piece, inner)
            outer = piece[end + 1:].strip()
            yield from ([outer] if outer else [])
            yield from (f"{outer}.{name}" if outer else name for name in members(nested))
            continue
        found = re.search(r"\(\s*\*\s*(\w+)\s*\)", piece) or re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)?$", piece.strip())
        if found:
            yield found.group(1)


def structures(text):
    for found in re.finditer(r"typedef\s+struct\s*\w*\s*(\{)", text):
        body, end = body_at(text, found.start(1))
        yield re.match(r"\s*(\w+)", text[end + 1:]).group(1), list(members(body))


def constants(text):
    for found in re.finditer(r"\benum\s*\w*\s*(\{)", text):
        body, _ = body_at(text, found.start(1))
        yield from (name.group(1) for piece in pieces(body, ",") if (name := re.match(r"\s*(\w+)", piece)))


def macros(text):
    return set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(UC[PS]_\w+)[ \t]+\S", text, re.M))


def used():
    """The constants in src/ucp."""
    text = "".join(plain_text(path) for path in sorted(glob.glob(f"{SOURCE}/*.[ch]")))
    return set(re.findall(r"\bUC[PS]_[A-Z0-9_]+\b", text))


def expressions(folder):
    """Name -> expression, of all that these headers have and the table should."""
    api = "".join(plain_text(f"{folder}/{path}") for path in API)
    libucs = "".join(plain_text(f"{folder}/{path}") for path in LIBUCS)
    found = {f"sizeof({name})": f"sizeof({name})" for name in PLAIN}
    for name, inside in structures(api):
        found[f"sizeof({name})"] = f"sizeof({name})"
        found.update({f"{name}.{member}": f"offsetof({name}, {member})" for member in inside})
    wanted = (set(constants(libucs)) | macros(api)) & used()
    wanted |= {name for name in constants(api + libucs) if name.startswith(("UCP_", "UCS_MEMORY_TYPE_", "UCS_THREAD_MODE_"))}
    found.update({name: name for name in wanted})
    return found


def include_folder(compiler):
    """Where these headers are; None: nowhere."""
    done = subprocess.run([*compiler, "-E", "-x", "c", "-"], input="#include <ucp/api/ucp.h>\n", capture_output=True, text=True,
                          check=False)
    found = re.search(r'^# \d+ "(.*)/ucp/api/ucp\.h"', done.stdout, re.M)
    return found.group(1) if done.returncode == 0 and found else None


def own_constants():
    """Name -> expression, of the constants that src/ucp defines itself."""
    found = {}
    for name, (path, own) in OWN.items():
        text = plain_text(os.path.join(SOURCE, path))
        found[name] = re.search(rf"^#define {own}\s+(.*)$", text, re.M).group(1)
    return found


def values(folder, compiler):
    """The version of the headers, and name -> value of all expressions; the ones of our own begin with `our `."""
    names = expressions(folder)
    names.update({f"our {name}": expression for name, expression in own_constants().items()})
    lines = "".join(f'    printf("%s=%lld\\n", "{name}", (long long)({names[name]}));\n' for name in sorted(names))
    program = ("#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <ucp/api/ucp.h>\nint main(void)\n{\n"
               '    printf("%d.%d\\n", UCP_API_MAJOR, UCP_API_MINOR);\n' + lines + "    return 0;\n}\n")
    with tempfile.TemporaryDirectory() as at:
        with open(f"{at}/layouts.c", "w", encoding="utf-8") as file:
            file.write(program)
        subprocess.run([*compiler, f"-I{folder}", "-w", f"{at}/layouts.c", "-o", f"{at}/layouts"], check=True)
        version, *rest = subprocess.run([f"{at}/layouts"], capture_output=True, text=True, check=True).stdout.splitlines()
    return number(version), {name: int(value) for name, value in (line.rsplit("=", 1) for line in rest)}


# ---- the table ----

def number(version):
    return tuple(int(part) for part in version.split("."))


def read_table():
    """Name -> [(version, value)], in the order of versions; a value None: it is gone."""
    table = {}
    with open(TABLE, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, *cells = line.split()
                split = (cell.split("=") for cell in cells)
                table[name] = [(number(version), None if value == "none" else int(value)) for version, value in split]
    return table


def expected(row, version):
    """The value of this version, or None.  A version that is newer than the table has the last one."""
    before = [value for since, value in row if since <= version]
    return before[-1] if before else None


def write_table(versions, compiler):
    columns = sorted(values(folder, compiler) for folder in versions.values())
    names = sorted({name for _, column in columns for name in column if not name.startswith("our ")})
    with open(TABLE, "w", encoding="utf-8") as file:
        file.write("# SPDX-License-Identifier: BSD-3-Clause\n"
                   "# Sizes, offsets and values of UCX's interface, each with the version from which on it is so:\n"
                   "# layouts_test.py reads this file, and writes it.\n")
        for name in names:
            cells, last = [], None
            for version, column in columns:
                if column.get(name) != last:
                    last = column.get(name)
                    cells.append(f"{'.'.join(map(str, version))}={'none' if last is None else last}")
            file.write(f"{name} {' '.join(cells)}\n")


# ---- the test ----

def differences(table, version, found):
    for name, row in sorted(table.items()):
        want = expected(row, version)
        if found.get(name) != want:
            yield f"{name} is {found.get(name)} in the installed headers, and {want} in tests/ucp/layouts"
    for name in sorted(set(found) - set(table)):
        if name.startswith("our "):
            own = table[name[4:]][-1][1]
            if found[name] != own:
                yield f"src/ucp has {found[name]} for {name[4:]}, which is {own}"
        else:
            yield f"{name} is new in the installed headers: does src/ucp have to know it?"


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--write"]:
        end = arguments.index("--")
        write_table(dict(argument.split("=", 1) for argument in arguments[1:end]), arguments[end + 1:])
        return 0
    folder = include_folder(arguments)
    if folder is None:
        print("layouts: UCX's headers are not installed")
        return 77
    table = read_table()
    version, found = values(folder, arguments)
    errors = list(differences(table, version, found))
    print(f"layouts: UCX {'.'.join(map(str, version))}, {len(found)} sizes, offsets and values, {len(errors)} errors")
    print("".join(f"{error}\n" for error in errors), end="")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())

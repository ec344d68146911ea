#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pages_test.py SOURCE MAN COMPILER... - the pages of the API agree with the public headers.

MAN is the folder of manual pages.  The pages of the site are made here.  In both, each exported function and each
type of its arguments has a page; each word of a comment is there, in order; each field has a heading.  References
lead to pages, groff and mandoc have no warnings, and the examples compile.  A formatter that is not installed is
named and left out.
"""
import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, MAN, COMPILER = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
HEADERS = ("matchbox", "match", "device")
OVERVIEWS = ("matchbox", "mbx_match", "matchbox-device")
FIELD = re.compile(r"^ \* ([A-Z][a-z]+) {2,}(?<=^.{14})", re.M)
FUNCTION = re.compile(r"/\*((?:(?!\*/).)*)\*/\n"
                      r"((?:(?:MBX_\w*API|static inline) [^;{]*\)(?:;|\n\{.*?^\})\n)+)", re.S | re.M)
TYPE = re.compile(r"^(?:struct|enum) (mbx_\w+) \{(.*?)\};", re.S | re.M)
ENGINE_ONLY = re.compile(r"/\* ---- for the engine only.*?(?=/\* ---- )", re.S)
NO_WARNING = re.compile(r"missing date|\.so is fragile")
EXAMPLE = """
#include <matchbox/device.h>
#include <matchbox/match.h>
#include <matchbox/matchbox.h>
#include <sys/epoll.h>
#include <time.h>
void handle(const struct mbx_completion *completions, int count);
void example(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag, size_t size, struct mbx_iovec *parts,
             mbx_request request, unsigned queues, struct mbx_completion *entries, int count,
             const struct mbx_completion *c, int fd, int epoll, struct epoll_event *events);
void example(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag, size_t size, struct mbx_iovec *parts,
             mbx_request request, unsigned queues, struct mbx_completion *entries, int count,
             const struct mbx_completion *c, int fd, int epoll, struct epoll_event *events)
{
"""

errors = []


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def words(text):
    return "".join(f" {word}" for word in re.findall(r"\w+", text)) + " "


def man_words(text):
    """The words that a manual page shows, without its headings."""
    text = re.sub(r"^\.IP (\d\.) .*", r"\1", text, flags=re.M)
    text = re.sub(r"^\..*\n", "", text, flags=re.M)
    return words(re.sub(r"\\(f[BIR]|&)", "", re.sub(r"\\(\(\w\w|[e-])", " ", text)))


def site_words(text):
    text = re.sub(r"\]\([^)]*\)|^```\w*$", "", text, flags=re.M)
    return words(re.sub(r"^[A-Z][a-z]+\n(?=: )", "", text, flags=re.M).replace("\\", ""))


def plain(comment):
    """A comment without its stars and the names of its fields."""
    return re.sub(r"^ \*( |$)", "", FIELD.sub(" * ", comment), flags=re.M).strip("\n ")


def functions():
    """[(names, comment)] of the headers."""
    for header in HEADERS:
        for comment, code in FUNCTION.findall(read(f"{SOURCE}/include/matchbox/{header}.h")):
            yield re.findall(r"\b(mbx_\w+)\((?!\*)", re.sub(r"\{.*?^\}", "", code, flags=re.S | re.M)), comment


def exported():
    """The functions that the libraries export, by the list that a release keeps, and the inline functions of the
    headers.

    mbx_see_root is a variable, for debuggers.
    """
    names = set()
    for library in ("libmatchbox0", "libmatchbox-match0"):
        names |= set(re.findall(r"^ (mbx_\w+)@", read(f"{SOURCE}/debian/{library}.symbols"), re.M))
    for header in HEADERS:
        text = read(f"{SOURCE}/include/matchbox/{header}.h")
        names |= set(re.findall(r"^static inline [^(]*\b(mbx_\w+)\(", text, re.M))
    return names - {"mbx_see_root"}


def types():
    """{name: body}"""
    texts = [ENGINE_ONLY.sub("", read(f"{SOURCE}/include/matchbox/{header}.h")) for header in HEADERS]
    return {name: body for text in texts for name, body in TYPE.findall(text)}


def page_of(name, pages):
    """The text of the page of a name, following a link."""
    text = pages.get(name + ".3", "")
    link = re.match(r"\.so man3/(.*)\n", text)
    return pages.get(link.group(1), "") if link else text


def check_function(names, comment, man, site):
    shown = man_words(man)
    lead, _, rest = plain(comment).partition("\n\n")
    lead = lead.partition(" - ")[2]
    for where, there in ("manual page", shown), ("page of the site", site_words(site)):
        for part in (lead, rest):
            if words(part).lower() not in there.lower():
                errors.append(f"{names[0]}: the {where} lacks words of: {part}")
    for field in FIELD.findall(comment):
        if f"\n.SH {'RETURN VALUE' if field == 'Returns' else field.upper()}\n" not in man:
            errors.append(f"{names[0]}: the manual page has no {field}")
        if f"\n{field}\n: " not in site:
            errors.append(f"{names[0]}: the page of the site has no {field}")


def check_type(name, body, man, site):
    for where, there in ("manual page", man_words(man)), ("page of the site", site_words(site)):
        parts = re.findall(r"/\*(.*?)\*/", body, re.S) + re.sub(r"/\*.*?\*/", "", body, flags=re.S).split("\n")
        errors.extend(f"{name}: the {where} lacks: {part}" for part in parts if words(part) not in there)


def check_heads(man, site):
    """The heads of the headers and of the chapters."""
    site = site_words("\n".join(site.values())).lower()
    for header, overview in zip(HEADERS, OVERVIEWS):
        text = read(f"{SOURCE}/include/matchbox/{header}.h")
        heads = [re.search(r"^/\*\n(.*?)\*/", text, re.S | re.M).group(1).partition(" - ")[2]]
        heads += re.findall(r"/\* ---- [^\n]*-\n(.*?)\*/", text, re.S)
        shown = man_words(man[overview + ".3"]).lower()
        for part in (part for head in heads for part in plain(head).split("\n\n")):
            for where, there in ("manual page", shown), ("page of the site", site):
                if words(part).lower() not in there:
                    errors.append(f"{header}.h: the {where} lacks words of: {part}")


def check_references(pages):
    for page, text in pages.items():
        for name in re.findall(r"^\.BR (\S+) \(3\)", text, re.M) + re.findall(r"^\.so man3/(\S+)\.3", text, re.M):
            if name + ".3" not in pages:
                errors.append(f"{page}: there is no {name}(3)")


def check_formatters(pages):
    files = ["man3/" + page for page in pages]
    for tool, words_of in ("groff", ["-ww", "-mandoc", "-Tascii", "-z"]), ("mandoc", ["-T", "lint", "-W", "warning"]):
        if shutil.which(tool) is None:
            print(f"{tool} is not installed: its warnings are left out")
            continue
        done = subprocess.run([tool, *words_of, *files], cwd=os.path.dirname(MAN), text=True, capture_output=True)
        errors.extend(line for line in (done.stdout + done.stderr).split("\n") if line and not NO_WARNING.search(line))


def examples():
    """The code in comments, as the generator reads it."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("apipages", f"{SOURCE}/scripts/build/apipages")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("apipages", loader))
    loader.exec_module(module)
    api = module.Api()
    found = [(entry.names[0], entry.text) for entry in api.entries()]
    found += [(chapter.title, chapter.text) for header in api.headers for chapter in header.chapters]
    return [(name, "\n".join(value)) for name, text in found for kind, value in text if kind == "code"]


def check_examples():
    found = examples()
    for name, code in found:
        done = subprocess.run([*COMPILER, "-std=gnu11", "-Wall", "-Werror", "-Wno-unused", "-Wno-unused-but-set-parameter",
                               "-fsyntax-only", f"-I{SOURCE}/include", "-x", "c", "-"], input=EXAMPLE + code + "\n}\n",
                              text=True, capture_output=True)
        if done.returncode:
            errors.append(f"the example of {name} does not compile: {done.stderr}")
    if not found:
        errors.append("there are no examples")
    return len(found)


def section(pages, name):
    """The section of a function or type in the pages of the site."""
    for text in pages.values():
        for part in re.split(r"^## ", text, flags=re.M)[1:]:
            if name in re.findall(r"mbx_\w+", part.partition("\n")[0]):
                return part
    return ""


def main():
    pages = {name: read(os.path.join(MAN, name)) for name in sorted(os.listdir(MAN))}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([f"{SOURCE}/scripts/build/apipages", "site", f"{folder}/site"], check=True)
        site = {name: read(f"{folder}/site/{name}") for name in os.listdir(f"{folder}/site")}
    commented = {name for names, _ in functions() for name in names}
    for name in sorted(exported() | commented | types().keys() | {"mbx_request", "mbx_message", "mbx_match_fits_fn"}):
        if not page_of(name, pages) or not section(site, name):
            errors.append(f"{name} has no manual page, or is on no page of the site")
    errors.extend(f"{name} has no comment that could be read" for name in sorted(exported() - commented))
    for names, comment in functions():
        check_function(names, comment, page_of(names[0], pages), section(site, names[0]))
    for name, body in types().items():
        check_type(name, body, page_of(name, pages), section(site, name))
    check_heads(pages, site)
    check_references(pages)
    check_formatters(pages)
    count = check_examples()
    print("".join(f"{error}\n" for error in errors[:12]) +
          f"functions={len(commented)} types={len(types())} pages={len(pages)} examples={count} errors={len(errors)}")
    return bool(errors)


sys.exit(main())

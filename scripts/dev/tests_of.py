#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/dev/tests_of.py BUILD NAME... - the tests of these names and files, as `meson test` wants them.
   scripts/dev/tests_of.py --check BUILD  - are the tests of the table there, and has each source file some, with its own?

A NAME is the name of a test, or its beginning up to a "_", or a source file of the tree.  The tests of a file are in
its row of tests/by-file, and in the row of the nearest folder there; and a test belongs to it if its program is made
from it.
"""
import difflib
import json
import os
import subprocess
import sys

TABLE = 'tests/by-file'


def introspect(build, what):
    return json.loads(subprocess.run(['meson', 'introspect', what, build], check=True, capture_output=True,
                                     text=True).stdout)


def read_table():
    """{file or folder: tests}"""
    rows = {}
    with open(TABLE, encoding='utf-8') as table:
        for line in table:
            line = line.split('#', 1)[0].strip()
            if line:
                file, tests = line.split(':', 1)
                rows[file.strip()] = tests.split()
    return rows


def programs_from(build, file):
    """The programs and libraries that have this source themselves."""
    found = set()
    for target in introspect(build, '--targets'):
        sources = {os.path.abspath(path) for each in target['target_sources'] for path in each.get('sources', [])}
        if os.path.abspath(file) in sources and not target['name'].endswith('_internal'):
            found.update(target['filename'])
    return found


def tests_from(build, tests, file):
    made = programs_from(build, file)
    return [test['name'] for test in tests
            if any(part in made or os.path.abspath(part) == os.path.abspath(file) for part in test['cmd'])]


def tests_of_file(build, tests, file):
    return [*tests_from(build, tests, file), *row_of(read_table(), file)]


def tests_named(tests, name):
    names = [test['name'] for test in tests]
    return [name] if name in names else [each for each in names if each.startswith(name + '_')]


def row_of(rows, file):
    """The tests of the row of this file, or of the nearest folder that has one."""
    place = file
    while place and place not in rows:
        place = os.path.dirname(place.rstrip('/'))
        place += '/' if place else ''
    return rows.get(place, [])


def own_tests(build):
    """{x.c, or x.h without one: the tests whose program is made from x_test.c}"""
    programs = {}
    for target in introspect(build, '--targets'):
        for path in (path for each in target['target_sources'] for path in each.get('sources', [])):
            if path.endswith('_test.c'):
                programs.setdefault(target['filename'][0], []).append(os.path.relpath(path)[:-len('_test.c')])
    found = {}
    for test in introspect(build, '--tests'):
        for stem in programs.get(test['cmd'][0], []):
            file = next(filter(os.path.exists, (f'{stem}.c', f'{stem}.h')), '')
            if file.startswith('src/'):
                found.setdefault(file, set()).add(test['name'])
    return found


def check(build):
    rows, names = read_table(), {test['name'] for test in introspect(build, '--tests')}
    errors = [f'{place}: there is no test {test}' for place, tests in rows.items() for test in tests if test not in names]
    errors += [f'{place}: there is no such file' for place in rows if not os.path.exists(place)]
    files = subprocess.run(['git', 'ls-files', 'src', 'tools'], check=True, capture_output=True, text=True).stdout
    errors += [f'{file}: has no tests' for file in files.split()
               if file.endswith('.c') and not file.endswith('_test.c') and not row_of(rows, file)]
    errors += [f'{file}: its own test {test} is not in its row' for file, own in own_tests(build).items()
               for test in sorted(own - set(row_of(rows, file)))]
    print(*errors, f'by-file: {len(rows)} rows, {len(errors)} errors', sep='\n')
    return 1 if errors else 0


def main():
    if len(sys.argv) == 3 and sys.argv[1] == '--check':
        sys.exit(check(sys.argv[2]))
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build, wanted = sys.argv[1], sys.argv[2:]
    tests = introspect(build, '--tests')
    names = {test['name'] for test in tests}
    found = []
    for name in wanted:
        is_file = os.path.isfile(name)
        some = tests_of_file(build, tests, os.path.relpath(name)) if is_file else tests_named(tests, name)
        if not some and is_file:
            sys.exit(f'test: {name} has no tests in {TABLE}, and no test is made from it')
        if not some:
            alike = difflib.get_close_matches(name, names, 6, 0.5)
            sys.exit(f"test: there is no test, file or build '{name}'"
                     + (f"; alike are: {' '.join(alike)}" if alike else ''))
        found += [test for test in some if test in names and test not in found]
    print(' '.join(found))


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/dev/by_file.py [--jobs N] - writes tests/by-file: which tests show that a source file works.

Builds the library so that each test says which lines it runs (build-test/coverage), runs the tests that
`./dev test` runs, one at a time for each of N (2), and chooses for each source file few and short tests which together
run nearly all of its lines that any of them runs.  A unit test x_test.c is always in the row of x.c, or of x.h if
there is no x.c.  Rows of folders, with a / at the end, are for what these tests do not reach; they are written by hand
and stay as they are.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import tests_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = 'build-test/coverage'
TABLE = 'tests/by-file'
ENOUGH = 0.98  # share of the lines that any test runs
MOST = 6       # maximum tests of a file
LEFT_OUT = {'tools', 'strangers', 'mpi', 'bench', 'hosts', 'differential', 'mutants', 'over_network', 'sim', 'fixed', 'counts',
            'long', 'examples'}
HEAD = """# SPDX-License-Identifier: BSD-3-Clause
# Which tests show that a file works: ./dev test FILE.  scripts/dev/by_file.py writes the rows of files, from what
# tests have run; a row of a folder, with a / at the end, is written by hand.
"""


def build():
    if not os.path.exists(f'{BUILD}/build.ninja'):
        subprocess.run(['meson', 'setup', BUILD, '-Db_coverage=true', '-Doptimization=0', '-Ddebug=true'], check=True)
    subprocess.run(['ninja', '-C', BUILD], check=True)


def tests():
    return [test for test in tests_of.introspect(BUILD, '--tests')
            if not LEFT_OUT & {suite.split(':')[-1] for suite in test['suite']}]


def lines_of(folder):
    """{file: lines that have run} of the counts below this folder."""
    objects = os.path.join(ROOT, BUILD, 'libmatchbox_internal.a.p')
    counts = os.path.join(folder, objects.lstrip('/'))
    if not os.path.isdir(counts):
        return {}
    for name in os.listdir(counts):
        note = os.path.join(objects, name[:-len('.gcda')] + '.gcno')
        if os.path.exists(note):
            os.symlink(note, os.path.join(counts, os.path.basename(note)))
    names = sorted(name for name in os.listdir(counts) if name.endswith('.gcda'))
    said = subprocess.run(['gcov', '--json-format', '--stdout', *names], cwd=counts, capture_output=True, text=True)
    found = {}
    for line in said.stdout.splitlines():
        for file in json.loads(line)['files']:
            path = os.path.relpath(os.path.join(ROOT, BUILD, file['file']), ROOT)
            if path.startswith('src/'):
                found.setdefault(path, set()).update(each['line_number'] for each in file['lines'] if each['count'])
    return found


def run(test):
    """(name, seconds, {file: lines})"""
    folder = tempfile.mkdtemp(prefix='matchbox-by-file.')
    try:
        env = {**os.environ, **test['env'], 'GCOV_PREFIX': folder, 'MATCHBOX_TEST_QUICK': '1',
               'MATCHBOX_TEST_THREADS': '1'}
        start = time.monotonic()
        subprocess.run(test['cmd'], cwd=test['workdir'] or os.path.join(ROOT, BUILD), env=env, timeout=600,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return test['name'], time.monotonic() - start, lines_of(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def choose(runs):
    """[(seconds, name, lines)] of one file: the tests of its row."""
    wanted = set().union(*(lines for _, _, lines in runs))
    left, chosen = set(wanted), []
    while len(left) > (1 - ENOUGH) * len(wanted) and len(chosen) < MOST:
        _, name, lines = max((len(left & lines) / (seconds + 0.5), name, lines) for seconds, name, lines in runs)
        chosen.append(name)
        left -= lines
    return sorted(chosen)


def rows_by_hand():
    if not os.path.exists(TABLE):
        return []
    with open(TABLE, encoding='utf-8') as table:
        return [line for line in table if line.split(':', 1)[0].endswith('/')]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--jobs', type=int, default=2)
    jobs = parser.parse_args().jobs
    os.chdir(ROOT)
    build()
    runs = {}
    todo = tests()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for n, (name, seconds, files) in enumerate(pool.map(run, todo), 1):
            print(f'by-file: {n}/{len(todo)} {name}: {seconds:.1f} s, {len(files)} files', file=sys.stderr)
            for file, lines in files.items():
                if lines:
                    runs.setdefault(file, []).append((seconds, name, lines))
    chosen = {file: set(choose(found)) for file, found in runs.items()}
    for file, own in tests_of.own_tests(BUILD).items():
        chosen[file] = chosen.get(file, set()) | own
    rows = [f'{file}: {" ".join(sorted(chosen[file]))}\n' for file in sorted(chosen)]
    rows = [HEAD, *rows_by_hand(), *rows]
    with open(TABLE, 'w', encoding='utf-8') as table:
        table.writelines(rows)


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trials of the real program: it is asked, attacked, killed and disturbed, alone and on several ranks.

  python3 scripts/trials abuse | newcomer | ranks | reliability [PART]... [--trainer PROGRAM] [--seed N]

Prints a line for each outcome, and the number of trials in each part. Exit code 1 if a run did not do what it must; the runs are then kept.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import abuse
import newcomer
import ranks
import reliability
from run import Failure
from trials import Trials, side_by_side

COMMANDS = {'abuse': abuse, 'newcomer': newcomer, 'ranks': ranks, 'reliability': reliability}
ROOT = Path(__file__).resolve().parents[2]
TABLE = re.compile(r'^\d{4}-\d\d-\d\d, commit .*\n\n\| test \| outcome \|\n\|---\|---\|\n(?:\|.*\n)*', re.MULTILINE)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        command.add_argument('parts', nargs='*', metavar='PART', help=f'{", ".join(module.PARTS)}; default: all')
        command.add_argument('--trainer', type=Path, default=ROOT / 'build/release/bin/trainer')
        command.add_argument('--faults', type=Path, help='libfaults.so of the tests; default: beside the program')
        command.add_argument('--memory-faults', type=Path, help='libmemory_faults.so of the tests; default: beside the program')
        command.add_argument('--seed', type=int, default=module.SEED)
        command.add_argument('--work', type=Path, help='parent of the directory of the runs; default: the temporary directory')
        command.add_argument('--keep', action='store_true', help='keep the runs in any case')
        module.add_options(command)
    options = parser.parse_args()
    for part in options.parts:
        if part not in COMMANDS[options.command].PARTS:
            commands.choices[options.command].error(f'unknown part: {part}')
    options.trainer = options.trainer.resolve()
    options.faults = (options.faults or options.trainer.parent / 'libfaults.so').resolve()
    options.memory_faults = (options.memory_faults or options.trainer.parent / 'libmemory_faults.so').resolve()
    return options


def outcome_of(check):
    try:
        return check()
    except Failure as failure:
        return failure


def try_part(name, checks, at_once):
    """Lines about what came out; failures."""
    began, count, lines, failures = time.monotonic(), 0, [], []
    for outcome in side_by_side((partial(outcome_of, check) for check in checks), at_once):
        count += 1
        if isinstance(outcome, Failure):
            failures.append(outcome)
        elif outcome:
            lines += outcome.splitlines()
            print(outcome, flush=True)
    print(f'{name}: {count} trials, {time.monotonic() - began:.0f} s', flush=True)
    return lines, failures


def write_summary(options, lines):
    """Replaces the table of outcomes in a page, and the line above that says of what it is."""
    commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    rows = ''.join(f'| {" | ".join(line.split(": ", 1))} |\n' for line in lines)
    table = f'{time.strftime("%Y-%m-%d")}, commit {commit}, seed {options.seed}, {os.cpu_count()} cores.\n\n| test | outcome |\n|---|---|\n{rows}'
    text, count = TABLE.subn(lambda _: table, options.summary.read_text())
    if count != 1:
        sys.exit(f'{options.summary}: expected one table of outcomes, found {count}')
    options.summary.write_text(text)


def main():
    options = arguments()
    module = COMMANDS[options.command]
    print(f'seed {options.seed}', flush=True)
    work = Path(tempfile.mkdtemp(prefix=f'{options.command}-', dir=options.work)).resolve()
    work.chmod(0o755)  # some attacks are another user's
    trials, lines, failures = Trials(options, work, module.PATIENCE), [], []
    for name in module.parts_of(options):
        more_lines, more_failures = try_part(name, module.PARTS[name](trials), module.AT_ONCE)
        lines += more_lines
        failures += more_failures
    if failures:
        text = '\n'.join(f'FAILED: {failure}' for failure in failures)
        sys.exit(f'{text}\n{len(failures)} failed (seed {options.seed}); runs are kept in {work}')
    if not options.keep:
        shutil.rmtree(work)
    if options.summary:
        write_summary(options, lines)


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: Apache-2.0
"""Attacks the program from outside: limits, signals, hostile extents, damaged files, strange outputs, memory that runs out, reads
that fail. Each attack must end with one of its exit codes and a sentence, never by a signal of the program's own making, and leave a
state that goes on."""
import argparse
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import directories
import extents
import files
import limits
import memory
import outputs
import reads
import signals
from attack import Context, Failure

PARTS = {'extents': extents.attacks, 'signals': signals.attacks, 'limits': limits.attacks, 'files': files.attacks,
         'outputs': outputs.attacks, 'directories': directories.attacks, 'memory': memory.attacks, 'reads': reads.attacks}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--trainer', type=Path, required=True)
    parser.add_argument('--faults', type=Path, required=True, help='libfaults.so of the tests')
    parser.add_argument('--memory-faults', type=Path, required=True, help='libmemory_faults.so of the tests')
    parser.add_argument('--thorough', action='store_true', help='more values of each extent and limit')
    parser.add_argument('--only', choices=PARTS, action='append')
    parser.add_argument('--work', type=Path, help='where runs are made; default: the temporary directory')
    return parser.parse_args()


def outcome_of(attack):
    """A line about what went wrong, or None."""
    try:
        attack()
    except Failure as failure:
        return str(failure)
    return None


def main():
    options = arguments()
    work = Path(tempfile.mkdtemp(prefix='abuse-', dir=options.work))
    work.chmod(0o755)  # some attacks are another user's
    context = Context(options.trainer.resolve(), options.faults.resolve(), options.memory_faults.resolve(), work, options.thorough)
    failed = []
    for name in options.only or PARTS:
        began = time.monotonic()
        with ThreadPoolExecutor(2 * os.cpu_count()) as pool:
            outcomes = list(pool.map(outcome_of, PARTS[name](context)))
        failed += [outcome for outcome in outcomes if outcome]
        print(f'{name}: {len(outcomes)} attacks, {time.monotonic() - began:.0f} s', flush=True)
    if failed:
        print('\n'.join(f'FAILED: {text}' for text in failed) + f'\n{len(failed)} failed; runs are kept in {work}',
              file=sys.stderr)
        return 1
    shutil.rmtree(work)
    return 0


if __name__ == '__main__':
    sys.exit(main())

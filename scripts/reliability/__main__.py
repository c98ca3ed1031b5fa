# SPDX-License-Identifier: Apache-2.0
"""Proves on the program itself that a run cannot be lost: kills, disturbs and stops it, and compares bits.

The parts are stops, saves, asked, damage, power, soak and ranks. The last one is left out unless it is asked for by --only ranks or
--thorough: it is what `scripts/ranks faults` does, with several processes that share a run, one of which is killed. It needs mpirun.
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asked
import damage
import networks
import power
import ranks
import saves
import soak
import stops
from runs import Failure

PARTS = {'stops': stops.both, 'saves': saves.all_of, 'asked': asked.all_of, 'damage': damage.all_of,
         'power': power.all_of, 'soak': soak.soak, 'ranks': ranks.faults}


SUMMARY = '''# Reliability of runs

No run was lost. Every run below was killed, stopped or disturbed, and started again with the same command. Its result was bitwise
identical to that of an undisturbed run.

The networks are an MLP, a CNN with dropout and augmentation, and ResNet-18 with averaged weights and two micro-batches. These must
be equal, byte for byte: weights, optimiser state, averages, the state without wall-clock times, and the metrics without timings. A
separate reader verifies every checkpoint found on the way. Signals are sent after the process handles them; earlier signals end it
before anything has begun.

`python3 scripts/reliability --thorough --summary docs/reliability.md` writes this page. The test `reliability` runs a smaller
version.

{date}, commit {commit}, seed {seed}, {cores} cores.

| test | outcome |
|---|---|
{lines}

## Long runs

`python3 scripts/reliability --thorough --only soak` trains a tiny network for 200,000 steps, with 200 checkpoints, 200 evaluations,
TensorBoard and CSV: once in one process, and once in processes that are stopped and resumed 50 times. Both results must be bitwise
identical. A third run rolls back to its last checkpoint repeatedly, within one process. Memory, descriptors and threads are sampled
from `/proc`, and files from the run's directory and from `TMPDIR`. The slope is a least-squares fit after the first tenth.

- `metrics.jsonl`, `metrics.csv`, the event file and `log.txt` grow with the log and have separate figures. Everything else in a
  run's directory must keep its size.
- Memory may gain 20,000 bytes per 1,000 steps and 50,000 per resume or rollback, and descriptors, threads and files 0.5. Planted
  leaks were found: 48 bytes in each step; one descriptor, thread or file per checkpoint; one file per resume; one
  descriptor per rollback.
- The allocator is set to return freed memory at once. Otherwise it keeps the memory with which a resume or rollback reads earlier
  metrics, which looks like growth: 28,000 bytes per resume and 17,000 per rollback here.
- A single leak at the start of a process ends with the process. It gives no slope, and the test does not look for it.

## Attacks from outside

`python3 scripts/abuse` attacks the real program. `--trainer` names it; `--faults` and `--memory-faults` name two libraries of the tests,
`libfaults.so` and `libmemory_faults.so`. The attacks are:

- the limits of `ulimit` at several values, variables of OpenMP, and every signal that requests a stop;
- every integer of the recipe's schema, with values at which 32 and 64 bits overflow;
- recipes that expand without limit, damaged or forged files, outputs without a reader;
- directories that are taken over, read-only or in use;
- every command with one failing allocation, at a hundred places each, in libraries too, and with full memory from each of twenty places on;
- a resume, and commands that look at a run, with each of their reads failing once.

Each attack must end with one of its documented exit codes and a message, never with a crash. A command that reports success must
have done all of its work. Afterwards the same command, undisturbed, must give results bitwise identical to those of a run that was
never attacked. The test `abuse` runs all attacks with fewer values; `--thorough` takes more values. On 2026-11-22 it made 2,308 attacks,
and all ended as documented. On 2026-11-26 the parts that came later did the same: 39 commands with 120 failed allocations each, and
430 failed reads.
'''


class Context:
    """What all parts share."""

    def __init__(self, options, work):
        self.trainer, self.faults, self.work = options.trainer.resolve(), options.faults.resolve(), work
        self.thorough, self.kills, self.signals = options.thorough, options.kills, options.signals
        self.seed, self.random = options.seed, random.Random(options.seed)
        self.recipes = networks.write_recipes(work)
        self.references, self.lines = {}, []

    def report(self, what, outcome):
        self.lines.append(f'| {what} | {outcome} |')
        print(f'{what}: {outcome}', flush=True)

    @staticmethod
    def side_by_side(check, items):
        """Most of a small run's time is waiting for the disk."""
        with ThreadPoolExecutor(2 * os.cpu_count()) as pool:
            for _ in pool.map(check, items):
                pass

    @staticmethod
    def remove(run):
        shutil.rmtree(run.directory)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--trainer', type=Path, required=True)
    parser.add_argument('--faults', type=Path, required=True, help='libfaults.so of the tests')
    parser.add_argument('--thorough', action='store_true', help='200 kills, 100 signals, every error number')
    parser.add_argument('--kills', type=int)
    parser.add_argument('--signals', type=int)
    parser.add_argument('--seed', type=int, default=int(time.time()))
    parser.add_argument('--only', choices=PARTS, action='append')
    parser.add_argument('--work', type=Path, help='where runs are made; default: the temporary directory')
    parser.add_argument('--summary', type=Path, help='a file for the outcome')
    options = parser.parse_args()
    options.kills = options.kills or (200 if options.thorough else 20)
    options.signals = options.signals or (100 if options.thorough else 10)
    return options


def write_summary(options, lines):
    commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], cwd=Path(__file__).parent, capture_output=True,
                            text=True, check=True).stdout.strip()
    options.summary.write_text(SUMMARY.format(date=time.strftime('%Y-%m-%d'), commit=commit, seed=options.seed,
                                              cores=os.cpu_count(), lines='\n'.join(lines)))


def main():
    options = arguments()
    print(f'seed {options.seed}', flush=True)
    work = Path(tempfile.mkdtemp(prefix='reliability-', dir=options.work))
    try:
        context = Context(options, work)
        for name in options.only or [part for part in PARTS if part != 'ranks' or options.thorough]:
            began = time.monotonic()
            PARTS[name](context)
            print(f'-- {name}: {time.monotonic() - began:.0f} s', flush=True)
    except Failure as failure:
        print(f'FAILED (seed {options.seed}, runs are kept in {work}): {failure}', file=sys.stderr)
        return 1
    shutil.rmtree(work)
    if options.summary:
        write_summary(options, context.lines)
    return 0


if __name__ == '__main__':
    sys.exit(main())

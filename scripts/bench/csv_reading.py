#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seconds to read a CSV file: `trainer plan`, which parses the whole table and prepares its rows, beside pandas and pyarrow.

  scripts/bench/csv_reading.py [--rows N] [--turns N]

Run it with a Python that has pandas and pyarrow (PyPI). All have two threads where they have several (pandas' parser has one). They alternate,
each turn a fresh process; the time of Python's imports is left out, the program's start is not. Refuses to measure while other processes
use the machine.
"""
import argparse
import os
import statistics
import sys
import tempfile

import numpy as np
import pandas

from windows import MOST_FOREIGN_CPU, spread, timed, until_clean

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LEAST_TURNS = 5
PANDAS = 'import time, pandas; t = time.perf_counter(); pandas.read_csv("t.csv"); print(time.perf_counter() - t)'
ARROW = ('import time, pyarrow, pyarrow.csv; pyarrow.set_cpu_count(2); t = time.perf_counter(); pyarrow.csv.read_csv("t.csv"); '
         'print(time.perf_counter() - t)')
RECIPE = '''version: 1
model:
  input_kind: features
  input: [8]
  categories: 2
  layers:
    - embedding: {inputs: ["input:1"], vocab_size: 400, features: 4}
    - flatten: {name: embedded}
    - concat: {inputs: [input, embedded]}
    - linear: 1
data: {format: table, train: t.csv, val: null, table: {target: y}}
loss: {name: mse}
training: {global_batch_size: 256}
validation: {metrics: []}
device: {type: cpu, threads: 2}
'''


def write_table(path, rows):
    random = np.random.default_rng(0)
    pandas.DataFrame({
        **{f'whole{i}': random.integers(0, 10 ** (i + 1), rows) for i in range(4)},
        **{f'real{i}': np.round(random.normal(0, 100, rows), i + 1) for i in range(4)},
        'city': random.choice([f'city {i}' for i in range(300)], rows), 'code': random.choice(list('ABCDEFGH'), rows),
        'y': np.round(random.normal(size=rows), 3)}).to_csv(path, index=False)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('--rows', type=int, default=4_000_000)
    arguments.add_argument('--turns', type=int, default=LEAST_TURNS)
    arguments.add_argument('--trainer', default=os.path.join(ROOT, 'build/release/bin/trainer'))
    arguments.add_argument('--most-foreign', type=float, default=MOST_FOREIGN_CPU, metavar='CORES')
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_table('t.csv', options.rows)
        open('r.yaml', 'w').write(RECIPE)
        size = os.path.getsize('t.csv') / 1e6

        def seconds(words):
            import time
            begin = time.perf_counter()
            text, foreign = timed(words, os.environ)
            own = time.perf_counter() - begin
            return (own if words[0] == options.trainer else float(text)), foreign

        sides = {'trainer': [options.trainer, 'plan', '-c', 'r.yaml', '--json'], 'pandas': [sys.executable, '-c', PANDAS],
                 'pyarrow': [sys.executable, '-c', ARROW]}
        found = {name: [] for name in sides}
        for _ in range(options.turns):
            for name, words in sides.items():
                found[name].append(until_clean(lambda: seconds(words), options.most_foreign))
        for name, values in found.items():
            print(f'{name}: {spread(values)} s, {size / statistics.median(values):.0f} MB/s')
        for name in ('pandas', 'pyarrow'):
            print(f'times as fast as {name}: {spread([theirs / ours for theirs, ours in zip(found[name], found["trainer"])])}')


if __name__ == "__main__":
    main()

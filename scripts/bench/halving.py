#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Successive halving beside a full search: 27 settings of an MLP on Fashion-MNIST, 9 epochs, for several seeds.

  scripts/bench/halving.py [--seeds N] [--trainer PROGRAM] [--work FOLDER]

Prints the best top1 of both, the steps of each, and whether best.yaml ends with the winner's weights when trained alone. Exit code 1
if halving's choice is more than 0.3 points below the full search's best, takes more than a quarter of its steps, or has other weights.
"""
import argparse
import csv
import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / 'configs/fashion_mnist_mlp.yaml'
SWEEP = '''sweep={method: random, metric: top1, trials: 27, parallel: 2, keep: 1, halving: {first: 156ba, factor: 3}, parameters: [
  {log_uniform: {key: optimizer.lr, from: 1.0e-3, to: 1}}, {uniform: {key: optimizer.momentum, from: 0, to: 0.99}},
  {log_uniform: {key: optimizer.weight_decay, from: 1.0e-6, to: 1.0e-2}}]}'''
KEYS = ['training.max_duration=4212ba', 'validation.interval=156ba', 'device.threads=1', 'checkpoint.interval=0s', 'checkpoint.keep_best=none',
        'logging.formats=[]']


def sweep(options, directory, *words):
    command = [options.trainer, 'sweep', '--config', RECIPE, *KEYS, SWEEP.replace('\n', ' '), *words, f'run.output_dir={directory}']
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(directory / 'sweep.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    best = max((row for row in rows if row['state'] == 'finished'), key=lambda row: float(row['top1']))
    return 100 * float(best['top1']), sum(int(row['steps']) for row in rows)


def weights(path):
    return hashlib.sha256((path / 'model.safetensors').read_bytes()).hexdigest()


def compare(options, work, seed):
    seeds = (f'run.seed={seed}', f'sweep.seed={seed}')
    full, full_steps = sweep(options, work / f'full{seed}', *seeds, 'sweep.halving.first=null')
    value, steps = sweep(options, work / f'halving{seed}', *seeds)
    number = int(re.search(r'Trial (\d+)', (work / f'halving{seed}/best.yaml').read_text())[1])
    subprocess.run([options.trainer, '--config', work / f'halving{seed}/best.yaml', f'run.output_dir={work}/alone{seed}'], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    is_same = weights(work / f'alone{seed}') == weights(work / f'halving{seed}/trial-{number:04}')
    print(f'seed {seed}: full search {full:.2f} in {full_steps} steps, halving {value:.2f} in {steps} ({steps / full_steps:.1%}), '
          f'best.yaml alone: {"the same" if is_same else "OTHER"} weights', flush=True)
    return value >= full - 0.3 and steps <= full_steps / 4 and is_same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--trainer', type=Path, default=ROOT / 'build/release/bin/trainer')
    parser.add_argument('--work', type=Path, help='parent of the folder of the runs')
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix='halving-', dir=options.work))
    results = [compare(options, work, seed) for seed in range(1, options.seeds + 1)]
    sys.exit(0 if all(results) else 1)


if __name__ == '__main__':
    main()

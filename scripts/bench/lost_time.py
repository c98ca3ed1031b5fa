#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that lose time to one cause each, what they say at their end, and what following that brings.

A source of data that takes milliseconds for each file; saves onto a slow disk; evaluations after every few steps; a neighbour
that uses one of the cores; a rank beside a neighbour. Each turn trains as it was, then as the sentence says. Prints the
samples per second of both by the clock of the whole run, and the ratio. Delays come from the library that counts calls (target
faults). Needs two cores, and mpirun for the ranks.
"""
import argparse
import contextlib
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument('--trainer', default=str(ROOT / 'build/release/bin/trainer'))
arguments.add_argument('--faults', default=str(ROOT / 'build/release/bin/libfaults.so'))
arguments.add_argument('--turns', type=int, default=5)
arguments.add_argument('--only', nargs='+', default=[])
options = arguments.parse_args()

RECIPE = '''version: 1
run: {name: lost, output_dir: run}
model: {input: [3, 32, 32], layers: [conv2d: {out_channels: 32, kernel_size: 3, padding: 1}, relu, max_pool2d: 2,
  conv2d: {out_channels: 64, kernel_size: 3, padding: 1}, relu, flatten, linear: 4]}
data: {format: synthetic, synthetic: {train_samples: 4096, val_samples: 4096}}
training: {max_duration: 200ba, global_batch_size: 64}
optimizer: {lr: 0.01}
logging: {interval: 10ba}
validation: {interval: 1000ba}
checkpoint: {interval: 1000ba}
'''


def make_images(folder):
    """400 images of 32 x 32 in four classes, as BMP, which needs no library to write."""
    numbers = random.Random(1)
    header = struct.pack('<2sIHHIIiiHHIIiiII', b'BM', 54 + 3072, 0, 0, 54, 40, 32, 32, 1, 24, 0, 3072, 0, 0, 0, 0)
    for image in range(400):
        place = folder / f'images/{image % 4}'
        place.mkdir(parents=True, exist_ok=True)
        (place / f'{image}.bmp').write_bytes(header + numbers.randbytes(3072))


def slow(path, calls, ms):
    return {'LD_PRELOAD': options.faults, 'FAULT_PATH': path, 'FAULT_CALLS': calls, 'FAULT_ACTION': 'slow', 'FAULT_AT': '1',
            'FAULT_ALWAYS': '1', 'FAULT_MS': str(ms)}


@contextlib.contextmanager
def neighbour(core=None):
    """A process that always computes, on one core if that is given."""
    pin = [] if core is None else ['taskset', '-c', str(core)]
    process = subprocess.Popen([*pin, sys.executable, '-c', 'while True: pass'])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def train(folder, overrides=(), environment=None, launcher=()):
    """Samples per second of wall time, and the sentence about time."""
    subprocess.run(['rm', '-rf', str(folder / 'run')], check=True)
    command = [*launcher, options.trainer, '--config', 'recipe.yaml', 'device.type=cpu', *overrides]
    result = subprocess.run(command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f'{command} ended with {result.returncode}: {result.stderr}')
    summary = json.loads((folder / 'run/summary.json').read_text())
    seconds = sum(value for name, value in summary['time'].items() if name != 'starting_seconds')
    said = [line.split('time: ', 1)[1] for line in (result.stdout + result.stderr).splitlines() if 'time: ' in line]
    return 64 * summary['steps'] / seconds, said[-1]


SIZED = 'augment: [resize: 32, center_crop: 32], eval_transform: [resize: 32, center_crop: 32]'
SHORT = 'training.max_duration=100ba'
FILES = ['data={format: image_folder, train: images, val_fraction: 0.1, %s}' % SIZED, SHORT]
PACKED = ['data={format: record, train: train.rec, %s}' % SIZED, SHORT]


def pack(folder):
    if not (folder / 'train.rec').exists():
        subprocess.run([options.trainer, 'data', 'pack', '--config', 'recipe.yaml', '--out', 'train.rec', *FILES], cwd=folder,
                       check=True, capture_output=True)
    return PACKED


def of_reading(folder):
    far = slow('images/', 'open', 3)
    return (lambda: train(folder, FILES, far)), (lambda: train(folder, pack(folder), far))


def of_saving(folder):
    far = slow('checkpoints/', 'fsync', 100)
    return (lambda: train(folder, ['checkpoint.interval=5ba'], far)), (lambda: train(folder, ['checkpoint.interval=50ba'], far))


def of_evaluating(folder):
    return (lambda: train(folder, ['validation.interval=20ba'])), (lambda: train(folder, ['validation.interval=200ba']))


def of_a_neighbour(folder):
    def beside(overrides):
        with neighbour():
            return train(folder, overrides)
    return (lambda: beside([])), (lambda: beside(['device.threads=1']))


RANKS = ['parallelism.data=2', 'device.threads=1']
MPIRUN = ['mpirun', '--allow-run-as-root', '-n', '2', '--bind-to', 'core']


def of_a_slow_rank(folder):
    def beside():
        with neighbour(core=1):
            return train(folder, RANKS, launcher=MPIRUN)
    return beside, (lambda: train(folder, RANKS, launcher=MPIRUN))


CASES = {'reading': of_reading, 'saving': of_saving, 'evaluating': of_evaluating, 'neighbour': of_a_neighbour,
         'rank': of_a_slow_rank}
for name in options.only or CASES:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / 'recipe.yaml').write_text(RECIPE)
        make_images(place)
        lost, mended = CASES[name](place)
        pairs = [(lost(), mended()) for _ in range(options.turns)]
        ratios = [after[0] / before[0] for before, after in pairs]
        print(f'{name}: {statistics.median(before[0] for before, _ in pairs):.0f} samples/s, then '
              f'{statistics.median(after[0] for _, after in pairs):.0f}: {statistics.median(ratios):.2f} times '
              f'({min(ratios):.2f} to {max(ratios):.2f})\n  before: {pairs[-1][0][1]}\n  after: {pairs[-1][1][1]}', flush=True)

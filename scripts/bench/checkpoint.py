#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of saving: the loop of ResNet-18 with and without a save a minute, and a save compared with dd of the same bytes.

The loop: synthetic images, alternating with and without saves. Samples per second by the clock are compared, from the
6th step to the last. With --interval below a minute the cost is that of more saves, scaled to one a minute. The save: of
a network with a checkpoint of about 100 MB, timed from the first call to the last by the library that counts calls
(target faults). It alternates with dd conv=fsync of the same number of bytes on the same disk. A run's last save has
the machine to itself, like dd; the others share it with training. Target: at most 1 % and 1.5 times.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDE = '''version: 1
run: {name: wide, output_dir: run}
model: {input: [1, 28, 28], layers: [flatten, linear: 4096, relu, linear: 1280, relu, linear: 10]}
data: {format: synthetic, synthetic: {train_samples: 640}}
training: {max_duration: 20ba, global_batch_size: 8}
optimizer: {name: adamw, lr: 0.001}
checkpoint: {interval: 5ba}
'''

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument('--trainer', default=str(ROOT / 'build/release/bin/trainer'))
arguments.add_argument('--faults', default=str(ROOT / 'build/release/bin/libfaults.so'))
arguments.add_argument('--turns', type=int, default=5)
arguments.add_argument('--minutes', type=float, default=3, help='of each turn of the loop')
arguments.add_argument('--interval', type=int, default=60, help='seconds from one save of the loop to the next')
arguments.add_argument('--only', choices=['save', 'loop'])
arguments.add_argument('--work', default=None, help='a folder on the disk that is measured')
options = arguments.parse_args()
os.environ.setdefault('OMP_WAIT_POLICY', 'passive')


def train(folder, recipe, overrides, environment=None):
    command = [options.trainer, '--config', str(recipe), 'device.type=cpu', *overrides]
    result = subprocess.run(command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True)
    if result.returncode not in (0, 75):
        raise SystemExit(f'{command} ended with {result.returncode}: {result.stderr.decode()}')


def samples_per_second(folder, interval):
    seconds = int(60 * options.minutes)
    train(folder, ROOT / 'configs/resnet18_cifar10.yaml',
          ['data.format=synthetic', 'data.synthetic.train_samples=50000', 'data.synthetic.val_samples=128',
           'training.max_duration=1000ep', 'validation.interval=1000ep', 'logging.interval=1ba',
           f'checkpoint.interval={interval}', f'run.max_wall_time={seconds}s', 'run.output_dir=run'])
    lines = [json.loads(line) for line in (folder / 'run/metrics.jsonl').read_text().splitlines()][5:]
    # From the times between lines: nothing can hide between two steps.
    return 128 * (lines[-1]['step'] - lines[0]['step']) / (lines[-1]['time'] - lines[0]['time'])


def measure_loop(work):
    often = f'{options.interval}s'
    rates = {'0s': [], often: []}
    for turn in range(options.turns):
        for interval in rates:
            with tempfile.TemporaryDirectory(dir=work) as folder:
                rates[interval].append(samples_per_second(Path(folder), interval))
    costs = [100 * (1 - saving / plain) for plain, saving in zip(rates['0s'], rates[often])]
    cost, scale = statistics.median(costs), options.interval / 60
    print(f"loop: {statistics.median(rates['0s']):.1f} samples/s, with a save every {often} "
          f'{statistics.median(rates[often]):.1f}: costs {cost:.2f} % ({min(costs):.2f} to {max(costs):.2f}), '
          f'{scale * cost:.2f} % with one a minute')


def seconds_of_saves(folder):
    """Of each save, from the directory's mkdir to its rename: the library notes when each call was made."""
    log = folder / 'calls.txt'
    (folder / 'wide.yaml').write_text(WIDE)
    train(folder, 'wide.yaml', [], {'LD_PRELOAD': options.faults, 'FAULT_PATH': 'checkpoints/',
                                    'FAULT_CALLS': 'mkdir,rename', 'FAULT_LOG': str(log)})
    times, began = [], None
    for line in log.read_text().splitlines():
        _, call, path, _, _, second = line.split('\t')
        if call == 'mkdir':
            began = float(second)
        elif '.saving-' in path and began is not None:
            times.append(float(second) - began)
    newest = max((folder / 'run/checkpoints').glob('step-*'))
    return times, sum(path.stat().st_size for path in newest.iterdir())


def seconds_of_dd(folder, size):
    began = time.monotonic()
    subprocess.run(['dd', 'if=/dev/zero', f'of={folder}/dd', 'bs=1M', f'count={size >> 20}', 'conv=fsync'], check=True,
                   stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def measure_save(work):
    beside, alone, theirs, size = [], [], [], 0
    for turn in range(options.turns):
        with tempfile.TemporaryDirectory(dir=work) as folder:
            times, size = seconds_of_saves(Path(folder))
            beside += times[:-1]
            alone.append(times[-1])
            theirs.append(statistics.median(seconds_of_dd(folder, size) for _ in times))
    ratios = sorted(ours / dd for ours, dd in zip(alone, theirs))
    dd = statistics.median(theirs)
    print(f'save of {size / 1e6:.0f} MB: {statistics.median(alone):.3f} s, dd conv=fsync {dd:.3f} s: '
          f'{statistics.median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f}); '
          f'while training goes on {statistics.median(beside):.3f} s, {statistics.median(beside) / dd:.2f} times')


if options.only != 'loop':
    measure_save(options.work)
if options.only != 'save':
    measure_loop(options.work)

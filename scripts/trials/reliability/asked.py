# SPDX-License-Identifier: Apache-2.0
"""Stops at the worst moments: in a long step, while data stalls, twice, at the end of the time allowed."""
import errno
import os
import re
import signal
import time
from functools import partial
from pathlib import Path

from checkpoints import newest
from recipes import RECIPES, pixel
from run import DATA, SAVED, Run, preload

INTERRUPTED, NUMERIC = 130, 70
STOP_MASK = 1 << (signal.SIGTERM - 1)
# Steps of several seconds.
SLOW = ['data.synthetic.train_samples=8000', 'training.global_batch_size=8000', 'training.max_duration=50ba',
        'model.layers[0].conv2d.out_channels=64', 'model.layers[4].conv2d.out_channels=96',
        'data.synthetic.val_samples=8', 'lr_scheduler.warmup=1ba']
IMAGES = '''version: 1
run: {name: images, seed: 1, output_dir: run}
model: {input: [3, 4, 4], layers: [flatten, linear: 2]}
data: {format: image_folder, train: images, augment: [random_resized_crop: 4], workers: 1}
training: {max_duration: 100ep, global_batch_size: 10}
optimizer: {name: sgd, lr: 0.5}
logging: {interval: 1ba}
'''


def wait_for_handlers(run, process):
    """Signals that come before main() cannot be caught; from here on they are."""
    status = Path(f'/proc/{process.pid}/status')
    while process.poll() is None:
        caught = re.search(r'SigCgt:\s*(\w+)', status.read_text())
        if caught and int(caught[1], 16) & STOP_MASK:
            break
        time.sleep(0.002)


def in_second_step(run):
    """Starts it. The second step's data was made during the first."""
    process = run.start()
    run.wait_for(process, run.last_step, 'a first step')
    time.sleep(0.2)
    return process


def is_pending(process, number):
    status = Path(f'/proc/{process.pid}/status').read_text()
    return any(int(mask, 16) & 1 << (number - 1) for mask in re.findall(r'(?:Sig|Shd)Pnd:\s*(\w+)', status))


def long_step(trials):
    # Several micro-batches: long on a fast machine, and no more memory.
    longer = ['data.synthetic.train_samples=32000', 'training.global_batch_size=32000', 'training.micro_batch_size=8000']
    run = Run(trials, 'grace', RECIPES['cnn'], [*SLOW, *longer, 'run.grace_period=1s'])
    process = in_second_step(run)
    process.send_signal(signal.SIGTERM)
    run.end(process, {SAVED}, 'grace period is over', within=3)
    return f'a step longer than run.grace_period=1s: 75 after {run.waited:.1f} s, the last checkpoint remains'


def interrupted_twice(trials):
    run = Run(trials, 'twice', RECIPES['cnn'], SLOW)
    process = in_second_step(run)
    process.send_signal(signal.SIGINT)
    run.wait_for(process, lambda: not is_pending(process, signal.SIGINT), 'the first signal')  # two that wait become one
    process.send_signal(signal.SIGINT)
    run.end(process, {INTERRUPTED}, within=1)
    return f'INT twice: 130 after {run.waited * 1000:.0f} ms'


def wall_time(trials):
    run = Run(trials, 'wall', RECIPES['mlp'], ['training.max_duration=10000000ba', 'run.max_wall_time=8s'])
    run.finish(codes={SAVED}, within=8.5)
    run.require(f'saved after step {newest(run)} of' in run.errors, 'the step that was saved is not named')
    slow = Run(trials, 'wall-slow', RECIPES['cnn'], [*SLOW, 'run.max_wall_time=12s'])
    slow.finish(codes={SAVED}, within=12.5)
    return f'run.max_wall_time: 8s: saved, 75 after {run.waited:.1f} s; 12s with long steps: {slow.waited:.1f} s'


def image_run(trials, name, *words):
    run = Run(trials, name, IMAGES, words)
    for folder, grey in (('bright', 200), ('dark', 20)):
        for i in range(20):
            run.write(f'images/{folder}/{i}.png', pixel(grey + i))
    return run


def stalled_reader(trials):
    """The 200th image that is opened never answers."""
    run = image_run(trials, 'stall', 'run.grace_period=3s')
    process = run.start(environment=preload(trials.faults, path='.png', calls='open', action='stall', at=200))
    run.wait_for(process, run.last_step, 'a first step')
    time.sleep(1)
    reached = run.last_step()
    process.send_signal(signal.SIGTERM)
    run.end(process, {SAVED}, within=5)
    run.require(newest(run) >= reached, f'at {reached}, saved {newest(run)}')
    return f'TERM while data stalls: step {reached} saved, 75 after {run.waited:.1f} s (grace 3s)'


def search_without_data(trials):
    """The loss becomes NaN in the second step, whose images can then not be read again. Before the first step each of the
    40 is read once, to know the data again at a resume."""
    run = image_run(trials, 'search', 'data.workers=0', 'optimizer.lr=1e38')
    run.finish(codes={NUMERIC}, environment=preload(trials.faults, path='.png', calls='open', action=errno.EIO, at=61, always=1))
    for text in ('the loss became NaN at step 2', 'the search failed: images/', 'cannot be read: Input/output error'):
        run.require(text in run.errors, f'it does not say "{text}"')
    return 'NaN in a step whose data is gone: 70, naming both'


def before_training(trials, name, *words):
    """Data whose first file is opened before training."""
    run = Run(trials, name, RECIPES['mlp'], ['data.format=idx', 'data.train=fashion', 'data.val=fashion', *words])
    for file in ('fashion-images-idx3-ubyte', 'fashion-labels-idx1-ubyte'):
        run.write(file, '')
    return run


def stalled_at_start(trials):
    return preload(trials.faults, path='fashion-', calls='open', action='stall', at=1)


def stalled_start(trials):
    run = before_training(trials, 'stalled-start', 'run.grace_period=2s')
    process = run.start(environment=stalled_at_start(trials))
    wait_for_handlers(run, process)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    run.end(process, {SAVED}, within=60)
    return 'TERM while the first file of data stalls: 75 at once'


def start_up_over_time(trials):
    run = before_training(trials, 'stalled-late', 'run.max_wall_time=2s')
    run.finish(codes={SAVED}, says='reached during start-up', within=3, environment=stalled_at_start(trials))
    return f'run.max_wall_time of 2s over in start-up: 75 after {run.waited:.1f} s'


def fifo(trials):
    run = before_training(trials, 'fifo')
    path = run.directory / 'fashion-images-idx3-ubyte'
    path.unlink()
    os.mkfifo(path)
    run.finish(codes={DATA}, says='found a pipe')
    return 'a FIFO as data: refused with its name, exit 65'


def checks(trials):
    for check in (long_step, interrupted_twice, wall_time, stalled_reader, search_without_data, stalled_start, start_up_over_time, fifo):
        yield partial(check, trials)

# SPDX-License-Identifier: Apache-2.0
"""Stops at the worst moments: in a long step, while data stalls, twice, at the end of the time allowed."""
import os
import re
import signal
import struct
import time
import zlib
from pathlib import Path

from runs import SAVED, Run, require

# Steps of several seconds.
SLOW = ['data.synthetic.train_samples=8000', 'training.global_batch_size=8000', 'training.max_duration=50ba',
        'model.layers[0].conv2d.out_channels=64', 'model.layers[4].conv2d.out_channels=96',
        'data.synthetic.val_samples=8', 'lr_scheduler.warmup=1ba']
PICTURES = '''version: 1
run: {name: pictures, seed: 1, output_dir: run}
model: {input: [3, 4, 4], layers: [flatten, linear: 2]}
data: {format: image_folder, train: pictures, augment: [random_resized_crop: 4], workers: 1}
training: {max_duration: 100ep, global_batch_size: 10}
optimizer: {name: sgd, lr: 0.5}
logging: {interval: 1ba}
'''


def wait_for(condition, process, what):
    for _ in range(6000):
        require(process.poll() is None, f'{what}: the process has ended with {process.returncode}')
        if condition():
            return
        time.sleep(0.02)
    require(False, f'{what}: nothing happened')


def cnn(context, name, more):
    return Run(context.trainer, context.work / name, ['--config', str(context.recipes['cnn']), *more])


def is_in_second_step(run, process, what):
    """Its data was made during the first."""
    wait_for(lambda: run.last_line() > 0, process, what)
    time.sleep(0.2)


def is_pending(process, number):
    status = Path(f'/proc/{process.pid}/status').read_text()
    return any(int(mask, 16) & 1 << (number - 1) for mask in re.findall(r'(?:Sig|Shd)Pnd:\s*(\w+)', status))


def long_step(context):
    # Several micro-batches: long on a fast machine, and no more memory.
    longer = ['data.synthetic.train_samples=32000', 'training.global_batch_size=32000', 'training.micro_batch_size=8000']
    run = cnn(context, 'grace', [*SLOW, *longer, 'run.grace_period=1s'])
    process = run.start()
    is_in_second_step(run, process, 'grace')
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code, seconds = process.wait(60), time.monotonic() - began
    require(code == SAVED, f'a long step: exit {code}: {run.errors}')
    require('grace period is over' in run.errors, f'the step was not long enough: {run.errors}')
    require(seconds < 3, f'a grace period of 1 s took {seconds:.1f} s')
    context.remove(run)
    context.report('a step longer than run.grace_period=1s', f'75 after {seconds:.1f} s, the last checkpoint remains')


def interrupted_twice(context):
    run = cnn(context, 'twice', SLOW)
    process = run.start()
    is_in_second_step(run, process, 'twice')
    process.send_signal(signal.SIGINT)
    wait_for(lambda: not is_pending(process, signal.SIGINT), process, 'twice')  # two that wait become one
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, seconds = process.wait(60), time.monotonic() - began
    require(code == 130 and seconds < 1, f'INT twice: exit {code} after {seconds:.1f} s: {run.errors}')
    context.remove(run)
    context.report('INT twice', f'130 after {seconds * 1000:.0f} ms')


def wall_time(context):
    run = Run(context.trainer, context.work / 'wall', ['--config', str(context.recipes['mlp']),
                                                       'training.max_duration=10000000ba', 'run.max_wall_time=8s'])
    began = time.monotonic()
    code, seconds = run.finish(), time.monotonic() - began
    require(code == SAVED and seconds < 8.5, f'wall time: exit {code} after {seconds:.1f} s: {run.errors}')
    require(f'saved after step {run.newest()} of' in run.errors, run.errors)
    context.remove(run)
    slow = cnn(context, 'wall-slow', [*SLOW, 'run.max_wall_time=12s'])
    began = time.monotonic()
    code, late = slow.finish(), time.monotonic() - began
    require(code == SAVED and late < 12.5, f'long steps: exit {code} after {late:.1f} s: {slow.errors}')
    context.remove(slow)
    context.report('run.max_wall_time', f'8s: saved, 75 after {seconds:.1f} s; 12s with long steps: {late:.1f} s')


def png(grey):
    """A picture of one pixel."""
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress(bytes([0, grey]))) + chunk(b'IEND', b''))


def pictures(context, name, more):
    run = Run(context.trainer, context.work / name, ['--config', 'pictures.yaml', *more])
    (run.directory / 'pictures.yaml').write_text(PICTURES)
    for folder, grey in (('bright', 200), ('dark', 20)):
        (run.directory / 'pictures' / folder).mkdir(parents=True)
        for i in range(20):
            (run.directory / 'pictures' / folder / f'{i}.png').write_bytes(png(grey + i))
    return run


def stalled_reader(context):
    """The 200th picture that is opened never answers."""
    run = pictures(context, 'stall', ['run.grace_period=3s'])
    process = run.start({'LD_PRELOAD': str(context.faults), 'FAULT_PATH': '.png', 'FAULT_CALLS': 'open',
                         'FAULT_ACTION': 'stall', 'FAULT_AT': '200'})
    wait_for(lambda: run.last_line() > 0, process, 'stall')
    time.sleep(1)
    reached, began = run.last_line(), time.monotonic()
    process.send_signal(signal.SIGTERM)
    code, seconds = process.wait(60), time.monotonic() - began
    require(code == SAVED and seconds < 5, f'stalled data: exit {code} after {seconds:.1f} s: {run.errors}')
    require(run.newest() >= reached > 0, f'stalled data: at {reached}, saved {run.newest()}: {run.errors}')
    context.remove(run)
    context.report('TERM while data stalls', f'step {reached} saved, 75 after {seconds:.1f} s (grace 3s)')


def search_without_data(context):
    """The loss becomes NaN in the second step, whose pictures can then not be read again. Before the first step each of the
    40 is read once, to know the data again at a resume."""
    run = pictures(context, 'search', ['data.workers=0', 'optimizer.lr=1e38'])
    code = run.finish({'LD_PRELOAD': str(context.faults), 'FAULT_PATH': '.png', 'FAULT_CALLS': 'open',
                       'FAULT_ACTION': '5', 'FAULT_AT': '61', 'FAULT_ALWAYS': '1'})
    for text in ('the loss became NaN at step 2', 'the search failed: pictures/', 'cannot be read: Input/output error'):
        require(code == 70 and text in run.errors, f'NaN and no data: exit {code}: {run.errors}')
    context.remove(run)
    context.report('NaN in a step whose data is gone', '70, naming both')


def before_training(context, name, more):
    """Opening the first file of data, before training, has no end; or it is a FIFO that nobody writes to."""
    run = Run(context.trainer, context.work / name, ['--config', str(context.recipes['mlp']), 'data.format=idx',
                                                     'data.train=fashion', 'data.val=fashion', *more])
    for name in ('fashion-images-idx3-ubyte', 'fashion-labels-idx1-ubyte'):
        (run.directory / name).write_bytes(b'')
    return run


def stalled_at_start(context):
    return {'LD_PRELOAD': str(context.faults), 'FAULT_PATH': 'fashion-', 'FAULT_CALLS': 'open', 'FAULT_ACTION': 'stall', 'FAULT_AT': '1'}


def stalled_start(context):
    run = before_training(context, 'stalled-start', ['run.grace_period=2s'])
    process = run.start_and_wait_for_handlers(stalled_at_start(context))
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    code = process.wait(60)
    require(code == SAVED, f'a start-up that stalls: exit {code}: {run.errors}')
    context.remove(run)
    context.report('TERM while the first file of data stalls', '75 at once')


def fifo(context):
    run = before_training(context, 'fifo', [])
    os.unlink(run.directory / 'fashion-images-idx3-ubyte')
    os.mkfifo(run.directory / 'fashion-images-idx3-ubyte')
    code = run.finish()
    require(code == 65 and 'found a pipe' in run.errors, f'a FIFO: exit {code}: {run.errors}')
    context.remove(run)
    context.report('a FIFO as data', 'refused with its name, exit 65')


def start_up_over_time(context):
    run = before_training(context, 'stalled-late', ['run.max_wall_time=2s'])
    began = time.monotonic()
    code, seconds = run.finish(stalled_at_start(context)), time.monotonic() - began
    require(code == SAVED and seconds < 3, f'a start-up without an end: exit {code} after {seconds:.1f} s: {run.errors}')
    require('reached during start-up' in run.errors, run.errors)
    context.remove(run)
    context.report('run.max_wall_time of 2s over in start-up', f'75 after {seconds:.1f} s')


def all_of(context):
    for check in (long_step, interrupted_twice, wall_time, stalled_reader, search_without_data, stalled_start, start_up_over_time, fifo):
        check(context)

# SPDX-License-Identifier: Apache-2.0
"""Signals and limits of time: whoever asks for the end gets a saved run, and 75."""
import re
import signal
import sys
import time

from attack import ENDLESS, simple

SAVED = 75
ASKING = ('TERM', 'USR1', 'USR2', 'HUP', 'INT', 'XCPU', 'PWR', 'ALRM')
LIMIT = ['run.max_wall_time=100h']  # its timer is not what a stray ALRM comes from


def after_some_steps(place, process):
    metrics = place.directory / 'run' / 'metrics.jsonl'
    for _ in range(3000):
        if metrics.exists() and metrics.read_bytes().count(b'\n') > 2:
            return
        place.require(process.poll() is None, f'it has ended with {process.returncode}')
        time.sleep(0.02)
    place.require(False, 'no step was made')


def is_saved(place, name):
    place.require(f'SIG{name}: stopping after step' in place.errors, f'it does not name SIG{name}')
    stopped = int(re.search(r'saved after step (\d+)', place.errors).group(1))
    saved = [path.name for path in (place.directory / 'run' / 'checkpoints').iterdir()]
    place.require(f'step-{stopped:08}' in saved, f'step {stopped} is not saved')
    place.remove()


def in_the_loop(context, name, prefix=()):
    def attack():
        place = context.place(f'SIG{name} {" ".join(prefix)[:30]}')
        process = place.start([ENDLESS, *LIMIT], prefix=prefix)
        after_some_steps(place, process)
        process.send_signal(getattr(signal, f'SIG{name}'))
        place.end(process, {SAVED})
        is_saved(place, name)
    return attack


def by_itself(context, name, prefix):
    """Ended by a limit that its parent has set."""
    def attack():
        place = context.place(f'SIG{name} by itself')
        place.run([ENDLESS], {SAVED}, prefix=prefix)
        is_saved(place, name)
    return attack


def at_once(context, name, command):
    """Where there is nothing to save."""
    def attack():
        place = context.place(f'{command} SIG{name}')
        place.run([], {0})
        process = place.start([command, 'data.synthetic.val_samples=1000000000', 'run.resume=run/model.safetensors'])
        time.sleep(1)
        process.send_signal(getattr(signal, f'SIG{name}'))
        place.end(process, {SAVED}, 'start the same command again')
        lines = place.output.splitlines(keepends=True)
        place.require(all(line.endswith(b'}\n') for line in lines), 'half a line')
        place.remove()
    return attack


def attacks(context):
    for name in ASKING:
        yield in_the_loop(context, name)
    for name in ('TERM', 'XCPU'):
        yield in_the_loop(context, name, ['env', f'--block-signal={name}'])
        yield in_the_loop(context, name, ['env', f'--ignore-signal={name}'])
    alarm = 'import os, signal, sys; signal.alarm(4); os.execv(sys.argv[1], sys.argv[1:])'
    yield by_itself(context, 'ALRM', [sys.executable, '-c', alarm])
    yield by_itself(context, 'XCPU', ['sh', '-c', 'ulimit -S -t 4; exec "$@"', 'sh'])
    for name in ('TERM', 'INT', 'USR1', 'USR2', 'XCPU'):
        for command in ('eval', 'predict'):
            yield at_once(context, name, command)
    yield simple(context, 'timeout', [ENDLESS], {SAVED}, 'SIGTERM: stopping', prefix=['timeout', '--preserve-status', '4'])
    yield simple(context, 'wall time', [ENDLESS, 'run.max_wall_time=4s'], {SAVED}, 'run.max_wall_time of 4s is nearly over')
    yield simple(context, 'nohup', [ENDLESS, 'run.max_wall_time=4s'], {SAVED}, prefix=['nohup'])

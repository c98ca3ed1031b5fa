# SPDX-License-Identifier: Apache-2.0
"""Signals and limits of time: whoever asks for the end gets a saved run, and 75."""
import re
import signal
import sys
import time
from functools import partial

from recipes import ENDLESS
from run import SAVED, Run

ASKING = ('TERM', 'USR1', 'USR2', 'HUP', 'INT', 'XCPU', 'PWR', 'ALRM')
LIMIT = ['run.max_wall_time=100h']  # its timer is not what a stray ALRM comes from


def after_some_steps(run, process):
    run.wait_for(process, lambda: run.last_step() > 6, 'some steps')


def is_saved(run, name):
    run.require(f'SIG{name}: stopping after step' in run.errors, f'it does not name SIG{name}')
    stopped = int(re.search(r'saved after step (\d+)', run.errors)[1])
    run.require(stopped == run.saved(), f'step {stopped} is not saved')


def in_the_loop(run, name, prefix=()):
    process = run.start(ENDLESS, *LIMIT, prefix=prefix)
    after_some_steps(run, process)
    process.send_signal(getattr(signal, f'SIG{name}'))
    run.end(process, {SAVED})
    is_saved(run, name)


def by_itself(run, name, prefix):
    """Ended by a limit that its parent has set."""
    run.finish(ENDLESS, codes={SAVED}, prefix=prefix)
    is_saved(run, name)


def at_once(run, name, command):
    """If there is nothing to save."""
    run.finish()
    process = run.start(command, 'data.synthetic.val_samples=1000000000', 'run.resume=run/model.safetensors')
    time.sleep(1)
    process.send_signal(getattr(signal, f'SIG{name}'))
    run.end(process, {SAVED}, 'start the same command again')
    run.require(all(line.endswith(b'}\n') for line in run.printed.splitlines(keepends=True)), 'half a line')


def attacks(_):
    for name in ASKING:
        yield f'SIG{name}', in_the_loop, name
    for name in ('TERM', 'XCPU'):
        for action in ('block', 'ignore'):
            yield f'SIG{name} {action}', in_the_loop, name, ['env', f'--{action}-signal={name}']
    alarm = 'import os, signal, sys; signal.alarm(4); os.execv(sys.argv[1], sys.argv[1:])'
    yield 'SIGALRM by itself', by_itself, 'ALRM', [sys.executable, '-c', alarm]
    yield 'SIGXCPU by itself', by_itself, 'XCPU', ['sh', '-c', 'ulimit -S -t 4; exec "$@"', 'sh']
    for name in ('TERM', 'INT', 'USR1', 'USR2', 'XCPU'):
        for command in ('eval', 'predict'):
            yield f'{command} SIG{name}', at_once, name, command
    saves = partial(partial, Run.finish, codes={SAVED})
    yield 'timeout', saves(says='SIGTERM: stopping', prefix=['timeout', '--preserve-status', '4']), ENDLESS
    yield 'wall time', saves(says='run.max_wall_time of 4s is nearly over'), ENDLESS, 'run.max_wall_time=4s'
    yield 'nohup', saves(prefix=['nohup']), ENDLESS, 'run.max_wall_time=4s'

# SPDX-License-Identifier: Apache-2.0
"""Directories of runs that are somebody else's, read only, or in use."""
import fcntl
import os
import shutil
import signal
import time

from attack import ENDLESS, simple
from limits import as_nobody
from signals import after_some_steps

DATA, IO, RECIPE, SAVED = 65, 74, 78, 75


def second_process(context):
    place = context.place('a second process')
    first = place.start([ENDLESS])
    after_some_steps(place, first)
    second = context.place('a second process at work')
    second.run([ENDLESS, f'run.output_dir={place.directory}/run'], {IO}, f'is in use by process {first.pid}')
    first.send_signal(signal.SIGTERM)
    place.end(first, {SAVED})


def lock_of_nobody(context):
    """What a process of another machine has left behind, without the lock itself."""
    place = context.place('the lock of a process that is gone')
    place.write('run/lock', '1 on elsewhere\n')
    place.goes_on()


def held_for_a_while(context):
    """After a restart by Slurm the lock of the process before may come free late."""
    place = context.place('a lock that comes free')
    lock = open(place.write('run/lock', '1 on elsewhere\n'), 'r+')
    fcntl.flock(lock, fcntl.LOCK_EX)
    restarted = {'SLURM_JOB_ID': '7', 'SLURM_RESTART_COUNT': '1'}
    process = place.start([], environment=restarted, stderr=open(place.directory / 'stderr', 'wb'))
    time.sleep(3)
    place.require(process.poll() is None, 'it does not wait')
    place.require('waiting for process 1 on elsewhere to release' in place.errors, 'it does not say for whom it waits')
    lock.close()
    place.end(process, {0})
    place.require(place.weights() == context.bits, 'the weights differ from those of an undisturbed run')


def read_only(context, what):
    """Root may write everywhere."""
    def attack():
        place = context.place(f'read only {what}')
        if what != 'parent':
            place.run(['training.max_duration=12ba'], {0})
        path = place.directory if what == 'parent' else place.directory / 'run' / what
        path.chmod(0o555)
        place.run(['run.allow_changes=[training.max_duration]'], {IO}, prefix=as_nobody(context))
        path.chmod(0o755)
        place.remove()
    return attack


def taken(context, name, make):
    def attack():
        place = context.place(f'taken by {name}')
        make(place.directory / 'run')
        place.run([], {DATA, IO, RECIPE})
        place.remove()
    return attack


def gone_meanwhile(context):
    place = context.place('a directory that goes away')
    process = place.start([ENDLESS])
    after_some_steps(place, process)
    shutil.rmtree(place.directory / 'run', ignore_errors=True)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    place.end(process, {IO, SAVED})


def attacks(context):
    context.bits
    for attack in (second_process, lock_of_nobody, held_for_a_while, gone_meanwhile):
        yield lambda attack=attack: attack(context)
    if as_nobody(context) is not None:
        for what in ('parent', '.', 'checkpoints'):
            yield read_only(context, what)
    yield taken(context, 'a file', lambda path: path.write_text(''))
    yield taken(context, 'another program', lambda path: (path.mkdir(), (path / 'data.txt').write_text('')))
    yield taken(context, 'a dangling link', lambda path: path.symlink_to('nowhere/at/all'))
    yield taken(context, 'a link to itself', lambda path: path.symlink_to('run'))
    yield taken(context, 'a pipe', os.mkfifo)
    yield taken(context, 'a directory as lock', lambda path: (path / 'lock').mkdir(parents=True))
    yield simple(context, 'a name too long', [f'run.output_dir={"x" * 5000}'], {IO, RECIPE})
    yield simple(context, 'a name of nothing', ['run.output_dir='], {IO, RECIPE})
    yield simple(context, 'below a file', ['run.output_dir=r.yaml/run'], {IO, RECIPE})
    yield simple(context, 'below proc', ['run.output_dir=/proc/run'], {IO})
    yield simple(context, 'in sys', ['run.output_dir=/sys/run'], {IO})

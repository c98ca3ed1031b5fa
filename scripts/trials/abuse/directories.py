# SPDX-License-Identifier: Apache-2.0
"""Directories of runs that are somebody else's, read only, or in use."""
import fcntl
import os
import shutil
import signal
import time
from functools import partial

from recipes import ENDLESS
from run import DATA, IO, RECIPE, SAVED, Run

from abuse.limits import as_nobody
from abuse.signals import after_some_steps


def second_process(run):
    first = run.start(ENDLESS)
    after_some_steps(run, first)
    second = Run(run.trials, 'a second process at work')
    second.finish(ENDLESS, f'run.output_dir={run.output}', codes={IO}, says=f'is in use by process {first.pid}')
    first.send_signal(signal.SIGTERM)
    run.end(first, {SAVED})


def lock_of_nobody(run):
    """What a process of another machine has left behind, without the lock itself."""
    run.write('run/lock', '1 on elsewhere\n')
    run.goes_on()


def held_for_a_while(run):
    """After a restart by Slurm the lock of the process before may come free late."""
    with open(run.write('run/lock', '1 on elsewhere\n'), 'r+') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = run.start(environment={'SLURM_JOB_ID': '7', 'SLURM_RESTART_COUNT': '1'})
        time.sleep(3)
        run.require(process.poll() is None, 'it does not wait')
        run.require('waiting for process 1 on elsewhere to release' in run.errors, 'it does not say for whom it waits')
    run.end(process)
    run.require_undisturbed()


def gone_meanwhile(run):
    process = run.start(ENDLESS)
    after_some_steps(run, process)
    shutil.rmtree(run.output, ignore_errors=True)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    run.end(process, {IO, SAVED})


def read_only(run, what):
    """Root may write everywhere."""
    if what != 'parent':
        run.finish('training.max_duration=12ba')
    path = run.directory if what == 'parent' else run.output / what
    path.chmod(0o555)
    run.finish('run.allow_changes=[training.max_duration]', codes={IO}, prefix=as_nobody(run.trials))
    path.chmod(0o755)


def taken(run, make):
    make(run.output)
    run.finish(codes={DATA, IO, RECIPE})


def attacks(trials):
    yield 'a second process', second_process
    yield 'the lock of a process that is gone', lock_of_nobody
    yield 'a lock that comes free', held_for_a_while
    yield 'a directory that goes away', gone_meanwhile
    if as_nobody(trials) is not None:
        for what in ('parent', '.', 'checkpoints'):
            yield f'read only {what}', read_only, what
    yield 'taken by a file', taken, lambda path: path.write_text('')
    yield 'taken by another program', taken, lambda path: (path.mkdir(), (path / 'data.txt').write_text(''))
    yield 'taken by a dangling link', taken, lambda path: path.symlink_to('nowhere/at/all')
    yield 'taken by a link to itself', taken, lambda path: path.symlink_to('run')
    yield 'taken by a pipe', taken, os.mkfifo
    yield 'taken by a directory as lock', taken, lambda path: (path / 'lock').mkdir(parents=True)
    for name, path, codes in (('a name too long', 'x' * 5000, {IO, RECIPE}), ('a name of nothing', '', {IO, RECIPE}),
                              ('below a file', 'r.yaml/run', {IO, RECIPE}), ('below proc', '/proc/run', {IO}), ('in sys', '/sys/run', {IO})):
        yield name, partial(Run.finish, codes=codes), f'run.output_dir={path}'

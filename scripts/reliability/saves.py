# SPDX-License-Identifier: Apache-2.0
"""One save, disturbed at each of its calls: the process killed there, or the call made to fail."""
import errno
import os
import shutil
import subprocess

from runs import KILLED, Run, content, require, require_equal
from stops import uncut

PATH = 'checkpoints'
WRITING = 'open,write,fsync,close,rename,exchange,mkdir,unlink,rmdir,pread'


class Save:
    """The calls of the second save of a run, numbered as the fault library counts them."""

    def __init__(self, context):
        log = context.work / 'calls.txt'
        run = Run(context.trainer, context.work / 'calls', command(context))
        require(run.finish(environment(context, log=log)) == 0, run.errors)
        calls = [line.split('\t') for line in log.read_text().splitlines()]
        begins = [i for i, (_, call, path, *_) in enumerate(calls) if call == 'mkdir' and '.saving-' in path]
        self.all = [(int(number), call) for number, call, *_ in calls]
        self.calls, self.quiet = {}, set()
        reading, saved = set(), False
        for number, call, path, detail, *_ in calls[begins[1]:begins[2]]:
            self.calls[int(number)] = call
            if call == 'open' and int(detail) & os.O_ACCMODE == os.O_RDONLY:
                reading.add(path)  # and closed again before the descriptor that it was written with
            # What was only read is closed anyway; once it is saved, old ones are removed, or after the next save.
            if saved or (call == 'close' and path in reading):
                self.quiet.add(int(number))
            if call == 'close':
                reading.discard(path)
            saved = saved or (call == 'fsync' and path.endswith(PATH))
        context.remove(run)


def command(context):
    return ['--config', str(context.recipes['mlp']), 'checkpoint.keep_best=loss']


def environment(context, action='', at=0, always=False, calls=WRITING, log=None):
    values = {'LD_PRELOAD': str(context.faults), 'FAULT_PATH': PATH, 'FAULT_ACTION': str(action),
              'FAULT_AT': str(at), 'FAULT_CALLS': calls}
    if always:
        values['FAULT_ALWAYS'] = '1'
    if log:
        values['FAULT_LOG'] = str(log)
    return values


def reference(context):
    uncut_run = Run(context.trainer, context.work / 'uncut-save', command(context))
    require(uncut_run.finish() == 0, uncut_run.errors)
    return content(uncut_run)


def kill_at_each_call(context, save, expected):
    def check(at):
        run = Run(context.trainer, context.work / f'kill-{at}', command(context))
        code = run.finish(environment(context, 'kill', at))
        require(code == KILLED, f'call {at}: exit {code}: {run.errors}')
        require(run.newest() >= 5, f'call {at}: the first checkpoint is gone')
        require(run.finish() == 0, run.errors)
        require(run.went_on_from() >= 5, f'call {at}: begins at {run.went_on_from()}')
        require_equal(expected, run)
        context.remove(run)

    context.side_by_side(check, save.calls)
    context.report('kill at each call of a save', f'{len(save.calls)} calls; none lost, all bits equal')


def fail_at_each_call(context, save, expected, number):
    """Once: training goes on, the failure is told and counted, and the run ends as if nothing had been."""
    name = errno.errorcode[number]

    def check(at):
        run = Run(context.trainer, context.work / f'fail-{at}-{number}', command(context))
        code = run.finish(environment(context, number, at))
        require(code == 0, f'{save.calls[at]} {at} fails with {name}: exit {code}: {run.errors}')
        told = ' failed (1 in a row)' in run.errors
        require(told != (at in save.quiet), f'{save.calls[at]} {at}, {name}: told: {told}: {run.errors}')
        require_equal(expected, run)
        context.remove(run)

    context.side_by_side(check, save.calls)
    context.report(f'{name} at each call of a save',
                   f'{len(save.calls)} calls, {len(save.calls) - len(save.quiet)} reported as failed saves, the others '
                   'harmless; training continued, all bits equal')


def short_at_each_call(context, save, expected):
    calls = [at for at, call in save.calls.items() if call in ('write', 'pread')]

    def check(at):
        run = Run(context.trainer, context.work / f'short-{at}', command(context))
        require(run.finish(environment(context, 'short', at)) == 0, run.errors)
        require('saving step' not in run.errors, f'call {at}: {run.errors}')
        require_equal(expected, run)
        context.remove(run)

    context.side_by_side(check, calls)
    context.report('short writes and reads', f'{len(calls)} calls; the remaining bytes followed, all bits equal')


def fail_always(context, save, expected):
    """From the second save on: exit 74 after three in a row with the old checkpoint intact; then mended."""
    for call, number in (('write', errno.ENOSPC), ('fsync', errno.EIO), ('open', errno.EDQUOT),
                         ('rename', errno.EIO), ('mkdir', errno.ENOSPC)):
        first = next(at for at, name in save.calls.items() if name == call)
        run = Run(context.trainer, context.work / f'always-{call}', command(context))
        before = sum(name == call for at, name in save.all if at < first)
        code = run.finish(environment(context, number, before + 1, always=True, calls=call))
        require(code == 74, f'{call}: exit {code}: {run.errors}')
        require('(3 in a row)' in run.errors and '3 saves in a row failed' in run.errors, run.errors)
        require(run.newest() == 5, f'{call}: newest is {run.newest()}')
        require(run.finish() == 0 and run.went_on_from() == 5, run.errors)
        require_equal(expected, run)
        context.remove(run)
    context.report('saves that always fail', 'write, fsync, open, rename, mkdir: exit 74 after three in a row, the '
                   'last checkpoint intact; after the repair the run ends with equal bits')


def kill_by_strace(context, expected):
    """The same by another tool: strace counts for each thread, so calls are named by their paths."""
    if not shutil.which('strace'):
        context.report('kill by strace', 'skipped: strace is not installed')
        return
    found = 0
    for call in ('mkdir', 'rename', 'fsync'):
        for when in (2, 3, 4):
            run = Run(context.trainer, context.work / f'strace-{call}-{when}', command(context))
            code = run.finish(prefix=['strace', '-f', '-o', '/dev/null', '-e', f'trace={call}',
                                      '-e', f'inject={call}:signal=KILL:when={when}'])
            require(code in (0, KILLED, 128 + 9), f'{call} {when}: exit {code}')
            found += code != 0
            run.newest()
            require(run.finish() == 0, run.errors)
            require_equal(expected, run)
            context.remove(run)
    context.report('kill by strace', f'{found} kills at mkdir, rename and fsync; none lost, all bits equal')


def full_disk(context):
    """A run whose directory lies on a disk with room for one checkpoint, in a mount namespace of its own."""
    if subprocess.run(['unshare', '-Urm', 'true'], stderr=subprocess.DEVNULL).returncode != 0:
        context.report('full disk', 'skipped: no right to mount')
        return
    expected, _ = uncut(context, 'mlp')
    run = Run(context.trainer, context.work / 'full', ['--config', str(context.recipes['mlp'])])
    run.output.mkdir()
    script = ('mount -t tmpfs -o size=100k tmpfs run && "$0" "$@"; code=$?; cp -r run/. kept; exit $code')
    code = run.finish(prefix=['unshare', '-Urm', 'sh', '-c', script])
    require(code == 74, f'full disk: exit {code}: {run.errors}')
    require('free some space' in run.errors and 'saving step' in run.errors, run.errors)
    shutil.rmtree(run.output)
    (run.directory / 'kept').rename(run.output)
    newest = run.newest()
    require(newest > 0, 'full disk: no checkpoint')
    require(run.finish() == 0 and run.went_on_from() == newest, run.errors)
    require_equal(expected, run)
    context.report('full disk', f'a warning, then exit 74 with step {newest} intact; with space again all bits equal')


def all_of(context):
    save, expected = Save(context), reference(context)
    kill_at_each_call(context, save, expected)
    for number in (errno.EIO, errno.ENOSPC, errno.EDQUOT) if context.thorough else (errno.EIO,):
        fail_at_each_call(context, save, expected, number)
    short_at_each_call(context, save, expected)
    fail_always(context, save, expected)
    kill_by_strace(context, expected)
    full_disk(context)

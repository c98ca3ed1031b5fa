# SPDX-License-Identifier: Apache-2.0
"""One save, disturbed at each of its calls: the process killed there, or the call made to fail."""
import errno
import os
import shutil
import subprocess
from functools import partial

from checkpoints import newest, require_equal
from recipes import RECIPES
from run import IO, KILLED, Run, preload
from trials import side_by_side

PATH = 'checkpoints'
WRITING = 'open,write,fsync,close,rename,exchange,mkdir,unlink,rmdir,pread'
WORDS = ['checkpoint.keep_best=loss']


class Save:
    """The calls of the second save of a run, numbered as the fault library counts them."""

    def __init__(self, trials):
        run = begun(trials, 'calls')
        log = run.directory / 'calls.txt'
        run.finish(environment=disturbed(trials, log=log))
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


def begun(trials, name):
    return Run(trials, name, RECIPES['mlp'], WORDS)


def disturbed(trials, calls=WRITING, **settings):
    return preload(trials.faults, path=PATH, calls=calls, **settings)


def require_resumed(run, expected, least=0):
    """Undisturbed, it goes on from a checkpoint of this step or a later one, to an undisturbed run's bits."""
    run.finish()
    run.require(run.went_on_from() >= least, f'it begins at {run.went_on_from()}')
    require_equal(expected, run)
    run.remove()


def kill_at_each_call(trials, save, expected):
    def check(at):
        run = begun(trials, f'kill-{at}')
        run.finish(codes={KILLED}, environment=disturbed(trials, action='kill', at=at))
        run.require(newest(run) >= 5, 'the first checkpoint is gone')
        require_resumed(run, expected, 5)

    list(side_by_side(partial(check, at) for at in save.calls))
    return f'kill at each call of a save: {len(save.calls)} calls; none lost, bitwise identical'


def fail_at_each_call(trials, save, expected, number):
    """Once: training goes on, the failure is reported and counted, and the run ends as if nothing had been."""
    name = errno.errorcode[number]

    def check(at):
        run = begun(trials, f'{name} at {save.calls[at]} {at}')
        run.finish(environment=disturbed(trials, action=number, at=at))
        reported = ' failed (1 in a row)' in run.errors
        run.require(reported != (at in save.quiet), f'reported: {reported}')
        require_equal(expected, run)
        run.remove()

    list(side_by_side(partial(check, at) for at in save.calls))
    return (f'{name} at each call of a save: {len(save.calls)} calls, {len(save.calls) - len(save.quiet)} reported as failed saves, the others '
            'harmless; training continued, bitwise identical')


def short_at_each_call(trials, save, expected):
    calls = [at for at, call in save.calls.items() if call in ('write', 'pread')]

    def check(at):
        run = begun(trials, f'short-{at}')
        run.finish(environment=disturbed(trials, action='short', at=at))
        run.require('saving step' not in run.errors, 'a short call is reported')
        require_equal(expected, run)
        run.remove()

    list(side_by_side(partial(check, at) for at in calls))
    return f'short writes and reads: {len(calls)} calls; the remaining bytes followed, bitwise identical'


def fail_always(trials, save, expected):
    """From the second save on: exit 74 after three in a row with the old checkpoint intact; then mended."""
    for call, number in (('write', errno.ENOSPC), ('fsync', errno.EIO), ('open', errno.EDQUOT),
                         ('rename', errno.EIO), ('mkdir', errno.ENOSPC)):
        first = next(at for at, name in save.calls.items() if name == call)
        run = begun(trials, f'always-{call}')
        before = sum(name == call for at, name in save.all if at < first)
        run.finish(codes={IO}, says='3 saves in a row failed', environment=disturbed(trials, calls=call, action=number, at=before + 1, always=1))
        run.require('(3 in a row)' in run.errors, 'failures are not counted')
        run.require(newest(run) == 5, f'the newest is {newest(run)}')
        require_resumed(run, expected, 5)
    return ('saves that always fail: write, fsync, open, rename, mkdir: exit 74 after three in a row, the last checkpoint intact; after the '
            'repair the results are bitwise identical')


def kill_by_strace(trials, expected):
    """The same by another tool: strace counts for each thread, so calls are named by their paths."""
    if not shutil.which('strace'):
        return 'kill by strace: skipped: strace is not installed'
    found = 0
    for call in ('mkdir', 'rename', 'fsync'):
        for when in (2, 3, 4):
            run = begun(trials, f'strace-{call}-{when}')
            found += 0 != run.finish(codes={0, KILLED, 128 + 9}, prefix=[
                'strace', '-f', '-o', '/dev/null', '-e', f'trace={call}', '-e', f'inject={call}:signal=KILL:when={when}'])
            newest(run)
            require_resumed(run, expected)
    return f'kill by strace: {found} kills at mkdir, rename and fsync; none lost, bitwise identical'


def full_disk(trials):
    """A run whose directory lies on a disk with room for one checkpoint, in a mount namespace of its own."""
    if subprocess.run(['unshare', '-Urm', 'true'], stderr=subprocess.DEVNULL).returncode != 0:
        return 'full disk: skipped: no right to mount'
    run = Run(trials, 'full', RECIPES['mlp'])
    run.output.mkdir()
    script = 'mount -t tmpfs -o size=100k tmpfs run && "$0" "$@"; code=$?; cp -r run/. kept; exit $code'
    run.finish(codes={IO}, says='free some space', prefix=['unshare', '-Urm', 'sh', '-c', script])
    run.require('saving step' in run.errors, 'it does not say what failed')
    shutil.rmtree(run.output)
    (run.directory / 'kept').rename(run.output)
    step = newest(run)
    run.require(step > 0, 'no checkpoint')
    require_resumed(run, trials.undisturbed('mlp'), step)
    return f'full disk: a warning, then exit 74 with step {step} intact; with space again bitwise identical'


def checks(trials):
    save, expected = Save(trials), trials.undisturbed('mlp', WORDS)
    yield partial(kill_at_each_call, trials, save, expected)
    for number in (errno.EIO, errno.ENOSPC, errno.EDQUOT) if trials.thorough else (errno.EIO,):
        yield partial(fail_at_each_call, trials, save, expected, number)
    yield partial(short_at_each_call, trials, save, expected)
    yield partial(fail_always, trials, save, expected)
    yield partial(kill_by_strace, trials, expected)
    yield partial(full_disk, trials)

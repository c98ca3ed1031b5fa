# SPDX-License-Identifier: Apache-2.0
"""Power loss: what a run wrote is recorded, and after each call the disk is made as it might be had the power gone:
what no fsync has covered is dropped, kept without its bytes, or full of other bytes."""
import json
import shutil
from functools import partial

from checkpoints import damage_in, require_equal
from recipes import RECIPES, interval
from run import Run, preload, require

CALLS = 'open,write,fsync,rename,exchange,mkdir,unlink,rmdir,ftruncate'
CREATES = 0o100
VARIANTS = ('dropped', 'empty', 'garbled', 'mixed')


class File:
    def __init__(self):
        self.data, self.durable = bytearray(), b''

    def sync(self):
        self.durable = bytes(self.data)


class Directory:
    def __init__(self):
        self.entries, self.durable = {}, {}

    def sync(self):
        self.durable = dict(self.entries)


class Disk:
    """A run's directory as the calls so far have left it. The directory itself is durable."""

    def __init__(self):
        self.root = Directory()

    def place(self, path):
        """The directory that a path lies in, and its name there."""
        *above, name = path.split('/')[1:]
        directory = self.root
        for part in above:
            directory = directory.entries[part]
        return directory, name

    def find(self, path):
        if '/' not in path:
            return self.root
        directory, name = self.place(path)
        return directory.entries.get(name)

    def apply(self, call, path, detail, data):
        if call == 'fsync':
            self.find(path).sync()
        elif call == 'write':
            self.find(path).data += data
        elif call == 'ftruncate':
            del self.find(path).data[int(detail):]
        elif '/' in path:
            self.change(call, *self.place(path), detail)

    def change(self, call, directory, name, detail):
        if call == 'open' and int(detail) & CREATES:
            directory.entries.setdefault(name, File())
        elif call == 'mkdir':
            directory.entries[name] = Directory()
        elif call in ('unlink', 'rmdir'):
            directory.entries.pop(name, None)
        elif call in ('rename', 'exchange'):
            other, other_name = self.place(detail)
            moved, there = directory.entries.pop(name), other.entries.get(other_name)
            other.entries[other_name] = moved
            if call == 'exchange':
                directory.entries[name] = there

    def after_power_loss(self, variant, random):
        """Contents by path."""
        found = {}

        def add(directory, path):
            for name in {**directory.durable, **directory.entries}:
                durable, present = directory.durable.get(name), directory.entries.get(name)
                kept = durable if variant == 'dropped' or (variant == 'mixed' and random.random() < 0.5) else present
                if isinstance(kept, File):
                    found[f'{path}{name}'] = bytes_of(kept, variant, random)
                elif kept is not None:
                    add(kept, f'{path}{name}/')

        add(self.root, '')
        return found


def bytes_of(file, variant, random):
    """Bytes that were durable stay; the others, by the variant, are lost or are not what was written."""
    later = len(file.data) - len(file.durable)
    if later <= 0 or variant in ('dropped', 'empty') or random.random() < 0.3:
        return file.durable
    return file.durable + random.randbytes(later)


def record(trials):
    """The run, and its calls with what they wrote."""
    run = Run(trials, 'power', RECIPES['mlp'])
    log = run.directory / 'power.txt'
    run.finish(environment=preload(trials.faults, path='run', calls=CALLS, log=log))
    data, at, calls = log.with_name('power.txt.data').read_bytes(), 0, []
    for line in log.read_text().splitlines():
        _, call, path, detail, *_ = line.split('\t')
        size = int(detail) if call == 'write' else 0
        if path.startswith('run'):
            calls.append((call, path, detail, data[at:at + size]))
        at += size
    return run, calls


def checkpoints_in(files):
    checkpoints = {}
    for path, bytes_there in files.items():
        folder, _, name = path.removeprefix('checkpoints/').partition('/')
        if path.startswith('checkpoints/step-'):
            checkpoints.setdefault(folder, {})[name] = bytes_there
    return checkpoints


def newest_in(files):
    """The newest whole checkpoint's step."""
    whole = [int(name.removeprefix('step-')) for name, there in checkpoints_in(files).items() if damage_in(name, there) is None]
    return max(whole, default=0)


def remove_damaged(run, files):
    """The power may fail while an old checkpoint is removed. What is left of it neither counts nor is removed; the run says so."""
    for name, there in checkpoints_in(files).items():
        path = run.output / 'checkpoints' / name
        if not path.exists() or damage_in(name, {file.name: file.read_bytes() for file in path.iterdir()}) is None:
            continue
        run.require(damage_in(name, there) is not None, f'{name} was whole')
        run.require(f'{name} neither counts nor is removed' in run.errors, f'nothing is said of {name}')
        shutil.rmtree(path)


def check_metrics(files, step, where):
    """All lines up to a checkpoint's step must be there with it."""
    lines = [line for line in files.get('metrics.jsonl', b'').split(b'\n')[:-1] if line.startswith(b'{"step"')]
    steps = {json.loads(line)['step'] for line in lines}
    missing = [due for due in range(3, step + 1, 3) if due not in steps]
    require(not missing, f'{where}: the checkpoint of step {step} is there, lines of metrics {missing} are not')
    require(step == 0 or files.get('identity.json', b'').endswith(b'}\n'), f'{where}: the identity is not there')


def continue_from(trials, files, name, expected):
    run = Run(trials, name, RECIPES['mlp'])
    for path, bytes_there in files.items():
        run.write(f'run/{path}', bytes_there)
    run.finish()
    run.require('this run is finished' in run.errors or run.went_on_from() == newest_in(files), 'it goes on from another step')
    remove_damaged(run, files)
    require_equal(expected, run)
    run.remove()


def power_loss(trials):
    (expected, calls), random = record(trials), trials.random()
    disk, promised, saving, losses, continued = Disk(), 0, 0, 0, 0
    often = max(1, len(calls) // (60 if trials.thorough else 8))
    for n, (call, path, detail, data) in enumerate(calls):
        disk.apply(call, path, detail, data)
        if call == 'rename' and '/step-' in detail:
            saving = int(detail.rsplit('-', 1)[1])
        if call == 'fsync' and path == 'run/checkpoints':
            promised = saving
        for variant in VARIANTS:
            files = disk.after_power_loss(variant, random)
            where = f'{variant} after call {n} ({call} {path})'
            step = newest_in(files)
            require(step >= promised, f'{where}: step {promised} was saved, the newest whole one is {step}')
            check_metrics(files, step, where)
            losses += 1
            if n % often == 0 and variant == VARIANTS[n // often % len(VARIANTS)]:
                continue_from(trials, files, f'power-{n}-{variant}', expected)
                continued += 1
    require(promised >= 40 - interval('mlp', 'checkpoint'), f'only {promised} was saved')
    return (f'power loss: {losses} disks, one for each of {len(calls)} calls and each of {len(VARIANTS)} fates of unsynchronised data: always an '
            f'intact checkpoint no older than the last one saved, with its metrics; {continued} of them resumed, with bitwise identical results')


def checks(trials):
    yield partial(power_loss, trials)

# SPDX-License-Identifier: Apache-2.0
"""Runs of the program in directories of their own, and what must be equal between them."""
import ctypes
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

TIMINGS = re.compile(r'.*_ms$|samples_per_s$|slowest_rank$|memory_bytes$|time$')
SAVED, KILLED = 75, -signal.SIGKILL
STOP_MASK = 1 << (signal.SIGTERM - 1)
PATIENCE = 600  # seconds that one process may take on a busy machine

xxhash = ctypes.CDLL('libxxhash.so.0').XXH3_64bits
xxhash.restype, xxhash.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]


class Failure(Exception):
    """A promise that was not kept."""


def require(condition, text):
    if not condition:
        raise Failure(text)


def damage_of(checkpoint):
    """What is wrong with a checkpoint's bytes, or None."""
    return damage_in(checkpoint.name, {path.name: path.read_bytes() for path in checkpoint.iterdir()})


def damage_in(name, files):
    """The same for the files of a directory of this name. Independent of the program's own reader."""
    if 'manifest.txt' not in files:
        return 'no manifest'
    lines = files['manifest.txt'].split(b'\n')
    if len(lines) < 4 or lines[-1] != b'' or lines[0] != b'trainer checkpoint 1':
        return 'manifest cut short'
    body = b'\n'.join(lines[:-2]) + b'\n'
    if b'whole %016x' % xxhash(body, len(body)) != lines[-2]:
        return 'manifest damaged'
    if f'step-{int(lines[1].split()[1]):08}' != name:
        return 'of another step'
    for line in lines[2:-2]:
        _, checksum, size, file = line.decode().split(' ')
        content = files.get(file, b'')
        if len(content) != int(size) or f'{xxhash(content, len(content)):016x}' != checksum:
            return f'{file} damaged'
    return None


def step_of(checkpoint):
    return int(checkpoint.name.removeprefix('step-'))


class Run:
    """A directory in which one command is started again and again."""

    def __init__(self, trainer, directory, arguments):
        self.trainer, self.directory, self.arguments = trainer, Path(directory), arguments
        self.output = self.directory / 'run'
        self.directory.mkdir(parents=True)

    def start(self, environment=None, more=(), prefix=()):
        log = open(self.directory / 'stderr.txt', 'w+')
        process = subprocess.Popen([*prefix, str(self.trainer), *self.arguments, *more], cwd=self.directory,
                                   stdout=subprocess.DEVNULL, stderr=log, env={'OMP_WAIT_POLICY': 'passive', **os.environ, **(environment or {})})
        log.close()
        return process

    def finish(self, environment=None, more=(), prefix=()):
        return self.start(environment, more, prefix).wait(PATIENCE)

    @property
    def errors(self):
        return (self.directory / 'stderr.txt').read_text(errors='replace')

    def checkpoints(self):
        """By their names, the newest first; a missing directory has none."""
        root = self.output / 'checkpoints'
        return sorted(root.glob('step-*'), key=step_of, reverse=True) if root.exists() else []

    def newest(self):
        """The step of the newest checkpoint; every one must be whole. 0: none."""
        for checkpoint in self.checkpoints():
            damage = damage_of(checkpoint)
            require(damage is None, f'{checkpoint}: {damage}')
        return step_of(self.checkpoints()[0]) if self.checkpoints() else 0

    def went_on_from(self):
        found = re.search(r'resuming after step (\d+)', self.errors)
        return int(found.group(1)) if found else 0

    def last_line(self):
        """The step of the last whole line of metrics."""
        path = self.output / 'metrics.jsonl'
        lines = path.read_bytes().split(b'\n')[:-1] if path.exists() else []
        return json.loads(lines[-1])['step'] if lines else 0

    def start_and_wait_for_handlers(self, environment=None, more=()):
        """Signals that come before main() cannot be caught; from here on they are."""
        process = self.start(environment, more)
        status = Path(f'/proc/{process.pid}/status')
        while process.poll() is None:
            caught = re.search(r'SigCgt:\s*(\w+)', status.read_text())
            if caught and int(caught.group(1), 16) & STOP_MASK:
                break
            time.sleep(0.002)
        return process


def content(run):
    """Everything of a finished run that must not depend on how often it was stopped, by name."""
    found = {}
    for name in ('model.safetensors', 'model_ema.safetensors'):
        path = run.output / name
        if path.exists():
            found[name] = path.read_bytes()
    lines = (run.output / 'metrics.jsonl').read_text().splitlines()
    found['metrics.jsonl'] = [{key: value for key, value in json.loads(line).items() if not TIMINGS.match(key)}
                              for line in lines]
    for checkpoint in run.checkpoints():
        for path in checkpoint.iterdir():
            if path.name == 'state.json':
                state = json.loads(path.read_text())
                del state['wall']
                found[f'{checkpoint.name}/{path.name}'] = json.dumps(state)
            elif path.name != 'manifest.txt':  # has the checksum of state.json
                found[f'{checkpoint.name}/{path.name}'] = path.read_bytes()
    return found


def require_equal(reference, run, every_checkpoint=True):
    """`reference` is content() of the uncut run. A run that was asked to stop has saved where it stopped, so only
    its last checkpoint must be one of the reference's."""
    mine = content(run)
    run.newest()
    last = f'{run.checkpoints()[0].name}/'
    for name, value in reference.items():
        if every_checkpoint or '/' not in name or name.startswith(last) or name in mine:
            require(name in mine, f'{run.directory}: {name} is missing')
            require(mine[name] == value, f'{run.directory}: {name} differs from that of the uncut run')
    require(any(name.startswith(last) for name in reference), f'{run.directory}: ends with {last}')
    if every_checkpoint:
        require(mine.keys() == reference.keys(), f'{run.directory}: more is left than by the uncut run')

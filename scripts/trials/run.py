# SPDX-License-Identifier: Apache-2.0
"""Starts the program in a directory of its own, and judges how it ended."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

from recipes import RECIPES

DATA, MEMORY, IO, SAVED, PEER_LOST, RECIPE = 65, 71, 74, 75, 76, 78  # exit codes of the program
KILLED = -signal.SIGKILL
NO_LOADER = 127  # a limit under which not even the program's libraries can be loaded
BROKEN_PIPE = 141  # ended by PIPE, as other tools that only print
WITHOUT_RECIPE = {'--version', '--help', 'schema', 'layers', 'doctor', 'completion', 'man', 'runs', 'inspect', 'import', 'report', 'watch', 'track', 'init'}
LAST_METRICS = 4096  # bytes, more than any line of metrics


class Failure(Exception):
    """A run that did not do what it must."""


def require(condition, text):
    if not condition:
        raise Failure(text)


def preload(library, prefix='FAULT_', **settings):
    """The environment in which a library of tests/faults disturbs the program."""
    return {'LD_PRELOAD': str(library), **{f'{prefix}{name.upper()}': str(value) for name, value in settings.items()}}


def step_of(checkpoint):
    return int(checkpoint.name.removeprefix('step-'))


class Run:
    """A directory with a recipe in `r.yaml`, in which the program is started, also again."""

    def __init__(self, trials, name, recipe=RECIPES['small'], words=()):
        self.trials, self.name, self.words, self.waited = trials, name, words, 0
        self.directory = trials.work / re.sub(r'[^\w.+-]+', '_', name)[:120]
        self.directory.mkdir()
        self.output = self.directory / 'run'
        self.write('r.yaml', recipe)

    def write(self, name, content):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def start(self, *words, prefix=(), environment=None, **streams):
        command = [str(self.trials.trainer), *self.words, *words]
        if not {'--config', '-c'} & set(command) and not any(word in WITHOUT_RECIPE for word in command[1:3]):
            command += ['--config', 'r.yaml']
        for name in ('stdout', 'stderr'):
            streams.setdefault(name, open(self.directory / name, 'wb'))
        return subprocess.Popen([*prefix, *command], cwd=self.directory, stdin=subprocess.DEVNULL,
                                env={**os.environ, 'OMP_WAIT_POLICY': 'passive', **(environment or {})}, **streams)

    def end(self, process, codes=(0,), says='', within=None):
        """Waits for the process; returns its exit code, which must be one of these. A failure needs a sentence."""
        began = time.monotonic()
        try:
            said = process.communicate(timeout=self.trials.patience)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failure(f'{self.name}: still running after {self.trials.patience} s') from None
        self.waited = time.monotonic() - began
        if said is not None:
            self.write('stderr', said)
        code = process.returncode
        self.require(code in codes, f'exit code {code}, expected one of {sorted(codes)}')
        self.require(not 0 < code < NO_LOADER or self.errors.strip(), f'exit code {code} without a word')
        self.require('internal error' not in self.errors, 'an internal error')
        self.require(says in self.errors or (code == 0 and len(codes) > 1), f'it does not say "{says}"')
        self.require(within is None or self.waited < within, f'the end took {self.waited:.1f} s, and {within} s are allowed')
        return code

    def finish(self, *words, codes=(0,), says='', within=None, **how):
        return self.end(self.start(*words, **how), codes, says, within)

    def wait_for(self, process, condition, what):
        """Until this is so, while the process runs; returns what the condition found."""
        end = time.monotonic() + self.trials.patience
        while not (found := condition()):
            self.require(process.poll() is None, f'ended with {process.returncode} before {what}')
            self.require(time.monotonic() < end, f'{what}: this did not come')
            time.sleep(0.01)
        return found

    def require(self, condition, text):
        if not condition:
            raise Failure(f'{self.name}: {text}\n  ' + '\n  '.join(self.errors.splitlines()[-12:]))

    @property
    def errors(self):
        path = self.directory / 'stderr'
        return path.read_text(errors='replace') if path.exists() else ''

    @property
    def printed(self):
        return (self.directory / 'stdout').read_bytes()

    def metrics(self):
        return [json.loads(line) for line in (self.output / 'metrics.jsonl').read_bytes().splitlines()]

    def last_step(self):
        """Of the last whole line of metrics; reads no more, as metrics of a long run are long."""
        try:
            with open(self.output / 'metrics.jsonl', 'rb') as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_METRICS))
                lines = file.read().split(b'\n')[:-1]
        except FileNotFoundError:
            return 0
        return json.loads(lines[-1])['step'] if lines else 0

    def checkpoints(self):
        """By their names, the newest first."""
        return sorted(self.output.glob('checkpoints/step-*'), key=step_of, reverse=True)

    def saved(self):
        """The step of the newest checkpoint; 0: none."""
        return max(map(step_of, self.checkpoints()), default=0)

    def went_on_from(self):
        found = re.search(r'resuming after step (\d+)', self.errors)
        return int(found[1]) if found else 0

    def weights(self):
        return (self.output / 'model.safetensors').read_bytes()

    def require_undisturbed(self, recipe='small'):
        self.require(self.weights() == self.trials.undisturbed(recipe).weights(), 'the weights differ from those of an undisturbed run')

    def goes_on(self):
        """The same command, undisturbed, ends with the bits of a run that never was."""
        self.finish()
        self.require_undisturbed()

    def remove(self):
        shutil.rmtree(self.directory)

# SPDX-License-Identifier: Apache-2.0
"""One attack: a command in a directory of its own, the exit codes that it may have, and what must hold afterwards."""
import functools
import os
import re
import shutil
import subprocess
import threading

PATIENCE = 120  # seconds that one process may take on a busy machine
NO_LOADER = 127  # a limit under which not even the program's libraries can be loaded
BROKEN_PIPE = 141  # ended by PIPE, as other tools that only print

# Two dozen steps of some milliseconds, saved every five.
RECIPE = '''version: 1
run: {name: small, seed: 3, output_dir: run}
model:
  input: [2, 8, 8]
  layers: [conv2d: {out_channels: 4, kernel_size: 3}, relu, flatten, linear: 5]
data: {format: synthetic, workers: 1, synthetic: {train_samples: 640, val_samples: 130}}
training: {max_duration: 24ba, global_batch_size: 64}
optimizer: {name: adamw, lr: 0.01}
validation: {interval: 12ba}
logging: {interval: 3ba}
checkpoint: {interval: 5ba}
device: {type: cpu, threads: 2}
'''
WITHOUT_RECIPE = {'--version', '--help', 'schema', 'layers', 'doctor', 'completion', 'man', 'runs', 'inspect', 'report', 'watch', 'init'}
ENDLESS = 'training.max_duration=3000000ba'


class Failure(Exception):
    """A promise that was not kept."""


class Context:
    def __init__(self, trainer, faults, memory_faults, work, thorough):
        self.trainer, self.faults, self.memory_faults, self.work, self.thorough = trainer, faults, memory_faults, work, thorough
        self.lock = threading.Lock()

    def place(self, name):
        return Place(self, name)

    @functools.cached_property
    def bits(self):
        """The weights of a run that nobody disturbed."""
        place = self.place('undisturbed')
        place.run([], {0})
        return place.weights()


class Place:
    """A directory with the recipe, in which commands are run."""

    def __init__(self, context, name):
        self.context, self.name = context, name
        self.directory = context.work / re.sub(r'[^\w.+-]+', '_', name)
        self.directory.mkdir()
        self.write('r.yaml', RECIPE)

    def write(self, name, content):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def start(self, arguments, prefix=(), environment=None, **streams):
        words = [str(self.context.trainer), *arguments]
        if not {'--config', '-c'} & set(words) and not any(word in WITHOUT_RECIPE for word in words[1:3]):
            words += ['--config', 'r.yaml']
        streams.setdefault('stdout', open(self.directory / 'stdout', 'wb'))
        streams.setdefault('stderr', subprocess.PIPE)  # which limits of file sizes leave alone
        streams.setdefault('stdin', subprocess.DEVNULL)
        return subprocess.Popen([*prefix, *words], cwd=self.directory,
                                env={**os.environ, 'OMP_WAIT_POLICY': 'passive', **(environment or {})}, **streams)

    def run(self, arguments, codes, says='', **how):
        """The exit code, which must be one of these. A failure without a sentence is none."""
        process = self.start(arguments, **how)
        return self.end(process, codes, says)

    def end(self, process, codes, says=''):
        try:
            said = process.communicate(timeout=PATIENCE)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failure(f'{self.name}: still running after {PATIENCE} s') from None
        if said is not None:
            self.write('stderr', said)
        code = process.returncode
        self.require(code in codes, f'exit {code}, expected one of {sorted(codes)}')
        self.require(code in (0, NO_LOADER, BROKEN_PIPE) or self.errors.strip(), f'exit {code} without a word')
        self.require('internal error' not in self.errors, 'an internal error')
        self.require(says in self.errors or code == 0 and 0 in codes, f'it does not say "{says}"')
        return code

    def require(self, condition, text):
        if not condition:
            raise Failure(f'{self.name}: {text}\n  ' + '\n  '.join(self.errors.splitlines()[-6:]))

    @property
    def errors(self):
        path = self.directory / 'stderr'
        return path.read_text(errors='replace') if path.exists() else ''

    @property
    def output(self):
        return (self.directory / 'stdout').read_bytes()

    def weights(self):
        return (self.directory / 'run' / 'model.safetensors').read_bytes()

    def goes_on(self):
        """The same command, undisturbed, ends with the bits of a run that never was."""
        self.run([], {0})
        self.require(self.weights() == self.context.bits, 'the weights differ from those of an undisturbed run')
        self.remove()

    def remove(self):
        shutil.rmtree(self.directory)


def simple(context, name, arguments, codes, says='', **how):
    """An attack that is one command."""
    def attack():
        place = context.place(name)
        place.run(arguments, codes, says, **how)
        place.remove()
    return attack

# SPDX-License-Identifier: Apache-2.0
"""Runs of the program on several ranks."""
import json
import os
import struct
import subprocess
from pathlib import Path

from recipes import RECIPES
from run import Run


def launch_words(launcher):
    """Of a command that starts ranks: more than there are cores, bound to none, by root too."""
    is_open_mpi = 'Open MPI' in subprocess.run([launcher, '--version'], capture_output=True, text=True, check=False).stdout
    return [launcher, *(['--allow-run-as-root', '--oversubscribe', '--bind-to', 'none'] if is_open_mpi else [])]


class Ranks(Run):
    """Processes of one thread that train in a directory."""
    variables = b'OMPI_COMM_WORLD_RANK=', b'PMI_RANK='  # that give a process its number

    def __init__(self, trials, name, recipe='mlp', words=()):
        super().__init__(trials, name, RECIPES.get(recipe, recipe), ['device.threads=1', *words])

    def begin(self, ranks, *words, **how):
        launcher = getattr(getattr(self.trials, 'options', None), 'launcher', 'auto')
        several = [f'parallelism.data={ranks}', f'parallelism.launcher={launcher}'] if ranks > 1 else []
        return self.start(*words, *several, **how)

    def train(self, ranks, *words, codes=(0,), **how):
        self.end(self.begin(ranks, *words, **how), codes)
        return self

    def moments(self):
        """What its newest checkpoint holds besides the weights."""
        return (self.checkpoints()[0] / 'optimizer.safetensors').read_bytes()

    def stored(self):
        """Type and bytes of each tensor of the trained network, by name."""
        data = self.weights()
        size, = struct.unpack_from('<Q', data)
        header = json.loads(data[8:8 + size])
        return {name: (about['dtype'], data[8 + size + about['data_offsets'][0]:8 + size + about['data_offsets'][1]])
                for name, about in header.items() if name != '__metadata__'}

    def tensors(self):
        """Name and numbers of each f32 tensor."""
        return {name: struct.unpack(f'<{len(data) // 4}f', data) for name, (dtype, data) in self.stored().items() if dtype == 'F32'}

    def parameters(self):
        """What is trained: running statistics may differ in the last bits."""
        return {name: data for name, data in self.stored().items() if 'running' not in name}

    def losses(self):
        return [line['loss'] for line in self.metrics() if line['split'] == 'train']

    def numbers(self):
        """All that metrics say, without what depends on the machine."""
        return [(line['step'], line['split'], line['loss'], line.get('top1')) for line in self.metrics()]

    def require_same(self, other, what):
        """Weights, moments and metrics."""
        for part in Ranks.weights, Ranks.moments, Ranks.numbers:
            self.require(part(self) == part(other), f'{what} has other {part.__name__}')

    def processes(self):
        """The ranks that train in it, by number."""
        found = {}
        for place in Path('/proc').glob('[0-9]*'):
            try:
                if Path(os.readlink(place / 'cwd')) != self.directory or os.readlink(place / 'exe') != str(self.trials.trainer):
                    continue
                for variable in (place / 'environ').read_bytes().split(b'\0'):
                    name, _, value = variable.partition(b'=')
                    if name + b'=' in self.variables:
                        found[int(value)] = int(place.name)
            except OSError:
                continue
        return found

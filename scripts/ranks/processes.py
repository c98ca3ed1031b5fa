# SPDX-License-Identifier: Apache-2.0
"""Runs of the program on several ranks."""
import json
import os
import signal
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runs import require, step_of

PEER_LOST, SAVED, REFUSED = 76, 75, 78
PATIENCE = 120


class Ranks:
    """One run's directory, and processes that train in it."""
    trainer = None  # the program, set once

    def __init__(self, scratch, name, recipe, *words):
        self.directory = scratch / name
        self.directory.mkdir()
        self.words = ['--config', str(recipe), 'device.threads=1', *words]

    def start(self, ranks, *more, environment=None, ignored=()):
        words = [*self.words, *more] + ([f'parallelism.data={ranks}'] if ranks > 1 else [])
        log = open(self.directory / 'stderr.txt', 'w')
        return subprocess.Popen([str(self.trainer), *words], cwd=self.directory, stdout=subprocess.DEVNULL, stderr=log,
                                env={**os.environ, 'OMP_WAIT_POLICY': 'passive', **(environment or {})},
                                preexec_fn=lambda: [signal.signal(number, signal.SIG_IGN) for number in ignored])

    def train(self, ranks, *more, code=0, environment=None):
        found = self.start(ranks, *more, environment=environment).wait(PATIENCE)
        require(found == code, f'{self.directory.name}: exit code {found}, not {code}:\n{self.errors}')
        return self

    @property
    def errors(self):
        return (self.directory / 'stderr.txt').read_text(errors='replace')

    def saved(self):
        """The step of the newest checkpoint."""
        return max((step_of(place) for place in self.directory.glob('run/checkpoints/step-*')), default=0)

    def weights(self):
        return (self.directory / 'run/model.safetensors').read_bytes()

    def averages(self):
        return (self.directory / 'run/model_ema.safetensors').read_bytes()

    def moments(self):
        """What its newest checkpoint holds besides the weights."""
        return max(self.directory.glob('run/checkpoints/step-*'), key=step_of).joinpath('optimizer.safetensors').read_bytes()

    def tensors(self):
        """Name and numbers of each f32 tensor of the trained network."""
        data = self.weights()
        size, = struct.unpack_from('<Q', data)
        header = json.loads(data[8:8 + size])
        found = {}
        for name, about in header.items():
            if name == '__metadata__' or about['dtype'] != 'F32':
                continue
            begin, end = about['data_offsets']
            found[name] = struct.unpack_from(f'<{(end - begin) // 4}f', data, 8 + size + begin)
        return found

    def losses(self, split='train'):
        lines = map(json.loads, (self.directory / 'run/metrics.jsonl').read_text().splitlines())
        return [line['loss'] for line in lines if line['split'] == split]

    def numbers(self):
        """All that metrics say, without what depends on the machine."""
        lines = map(json.loads, (self.directory / 'run/metrics.jsonl').read_text().splitlines())
        return [(line['step'], line['split'], line['loss'], line.get('top1')) for line in lines]


def side_by_side(checks):
    """Calls them, four at a time, since a run that is struck mostly waits, and prints what each returns."""
    with ThreadPoolExecutor(4) as pool:
        for line in pool.map(lambda check: check(), checks):
            print(line, flush=True)


def processes_of(directory):
    """The ranks that train in it, by number."""
    found = {}
    for place in Path('/proc').glob('[0-9]*'):
        try:
            if Path(os.readlink(place / 'cwd')) != directory or os.readlink(place / 'exe') != str(Ranks.trainer):
                continue
            for variable in (place / 'environ').read_bytes().split(b'\0'):
                if variable.startswith(b'OMPI_COMM_WORLD_RANK='):
                    found[int(variable.split(b'=')[1])] = int(place.name)
        except OSError:
            continue
    return found

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several ranks on CPUs, by MPI: what they compute, and what becomes of them when one stops or dies.

  python3 scripts/ranks [--trainer PROGRAM] [--keep DIRECTORY] [equal | faults]...

equal: losses and weights of 1, 2 and 4 ranks; equal bits where they are promised; runs that go on with another number of ranks.
faults: each rank killed or stopped at several moments; the others leave, and the run resumes to an undisturbed run's bits.
Each process computes with one thread. Needs mpirun. Exit code 1 where a promise was not kept.
"""
import argparse
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts/reliability'))
from networks import write_recipes  # noqa: E402
from runs import Failure, require, step_of  # noqa: E402

PEER_LOST, SAVED = 76, 75
PATIENCE = 120

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument('parts', nargs='*', choices=['equal', 'faults', []], help='default: both')
arguments.add_argument('--trainer', type=Path, default=ROOT / 'build/release/bin/trainer')
arguments.add_argument('--keep', type=Path, help='directory for the runs, which are kept')
arguments.add_argument('--short', action='store_true', help='fewer of them, without the deep network')
arguments.add_argument('--seed', type=int, default=1, help='of the moments at which ranks are killed')
options = arguments.parse_args()
options.trainer = options.trainer.resolve()


class Ranks:
    """One run's directory, and processes that train in it."""

    def __init__(self, scratch, name, recipe, *words):
        self.directory = scratch / name
        self.directory.mkdir()
        self.words = ['--config', str(recipe), 'device.threads=1', *words]

    def start(self, ranks, *more, environment=None):
        words = [*self.words, *more] + ([f'parallelism.data={ranks}'] if ranks > 1 else [])
        log = open(self.directory / 'stderr.txt', 'w')
        return subprocess.Popen([str(options.trainer), *words], cwd=self.directory, stdout=subprocess.DEVNULL, stderr=log,
                                env={**os.environ, 'OMP_WAIT_POLICY': 'passive', **(environment or {})})

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


def farthest(one, other, ignored=()):
    """Largest difference between two runs' weights, relative to a tensor's largest number."""
    a, b = one.tensors(), other.tensors()
    require(a.keys() == b.keys(), 'runs with other tensors')
    worst = 0
    for name in a:
        if any(part in name for part in ignored):
            continue
        largest = max(max(map(abs, a[name])), 1e-3)
        worst = max(worst, max(abs(x - y) for x, y in zip(a[name], b[name])) / largest)
    return worst


def spread(reference, others):
    """Of each step, the largest difference of the others' losses so far, relative to the reference's."""
    worst, found = 0, []
    for step, loss in enumerate(reference):
        worst = max([worst, *(abs(other[step] - loss) / max(abs(loss), 1e-3) for other in others)])
        found.append(worst)
    return found


def compare(scratch, name, recipe, rows, *words):
    """One process against 2 and 4 ranks, with micro-batches of one size.

    Rounding grows from step to step in a deep network. Allowed is three times what a second thread or another instruction set has
    changed so far, at least 1e-5.
    """
    words = [f'training.micro_batch_size={rows}', *words]
    alone = Ranks(scratch, f'{name}_1', recipe, *words).train(1).losses()
    threads = Ranks(scratch, f'{name}_threads', recipe, *words).train(1, 'device.threads=2').losses()
    other = Ranks(scratch, f'{name}_instructions', recipe, *words).train(1, environment={'ONEDNN_MAX_CPU_ISA': 'AVX2'}).losses()
    allowed = [max(1e-5, 3 * change) for change in spread(alone, [threads, other])]
    shares = []
    for ranks in 2, 4:
        shared = Ranks(scratch, f'{name}_{ranks}', recipe, *words).train(ranks)
        again = Ranks(scratch, f'{name}_{ranks}_again', recipe, *words).train(ranks)
        require(shared.weights() == again.weights(), f'{name}: {ranks} ranks have other bits the second time')
        require(len(shared.losses()) == len(alone), f'{name}: {ranks} ranks log another number of losses')
        changes = spread(alone, [shared.losses()])
        shares.append(max(change / most for change, most in zip(changes, allowed)))
        require(shares[-1] <= 1, f'{name}: losses of {ranks} ranks differ by {shares[-1]:.2f} of what is allowed')
    print(f'{name}: {len(alone)} losses of 2 and 4 ranks differ by at most {shares[0]:.2f} and {shares[1]:.2f} of what is allowed '
          f'({allowed[0]:.0e} to {allowed[-1]:.0e})')


def same_bits(scratch, name, recipe, *words):
    """Two ranks against one process with two micro-batches: running statistics may differ in the last bits, parameters not."""
    alone = Ranks(scratch, f'{name}_alone', recipe, *words).train(1)
    pair = Ranks(scratch, f'{name}_pair', recipe, *words).train(2)
    a, b = alone.tensors(), pair.tensors()
    for tensor in a:
        if 'running' not in tensor:
            require(a[tensor] == b[tensor], f'{name}: {tensor} of two ranks has other bits')
    print(f'{name}: two ranks have the parameter bits of one process with two micro-batches')


def equal(scratch, recipes):
    compare(scratch, 'mlp', recipes['mlp'], 16)
    compare(scratch, 'cnn', recipes['cnn'], 12)
    if not options.short:
        compare(scratch, 'resnet', recipes['resnet'], 4, 'training.global_batch_size=16', 'optimizer.lr=0.001', 'training.max_duration=12ba',
                'model.input=[3, 16, 16]', 'data.augment=[]')
    same_bits(scratch, 'mlp', recipes['mlp'], 'training.micro_batch_size=32')
    same_bits(scratch, 'cnn', recipes['cnn'], 'training.micro_batch_size=24')
    if not options.short:
        same_bits(scratch, 'resnet', recipes['resnet'], 'training.micro_batch_size=2', 'training.max_duration=6ba')
    same_bits(scratch, 'guards', recipes['mlp'], 'training.micro_batch_size=32', 'guards.nonfinite=skip', 'guards.skip_steps=[3, 3, 9, 11]',
              'training.ema={decay: 0.9}', 'optimizer={name: adamw, lr: 0.01, clip_norm: 0.5}')
    # Later on, a few samples decide, and rounding grows to what can be seen.
    words = ['training.micro_batch_size=12', 'validation.interval=100ba', 'training.max_duration=8ep']
    growing = Ranks(scratch, 'growing', recipes['cnn'], *words)
    whole = Ranks(scratch, 'whole', recipes['cnn'], *words).train(1)
    stops = []
    for ranks in 1, 2, 4:
        process, before = growing.start(ranks), growing.saved()
        while growing.saved() < before + 25:
            require(process.poll() is None, f'growing on {ranks} ranks:\n{growing.errors}')
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        require(process.wait(PATIENCE) == SAVED, f'growing on {ranks} ranks:\n{growing.errors}')
        stops.append(growing.saved())
    growing.train(1)
    found = farthest(whole, growing)
    require(found < 1e-4, f'1, 2, 4 and 1 ranks in turn differ by {found:.1e}')
    print(f'a run on 1, 2, 4 and 1 ranks, stopped after steps {stops}: weights differ by {found:.1e} of an undisturbed run\'s')


def processes_of(directory):
    """The ranks that train in it, by number."""
    found = {}
    for place in Path('/proc').glob('[0-9]*'):
        try:
            if Path(os.readlink(place / 'cwd')) != directory or os.readlink(place / 'exe') != str(options.trainer):
                continue
            for variable in (place / 'environ').read_bytes().split(b'\0'):
                if variable.startswith(b'OMPI_COMM_WORLD_RANK='):
                    found[int(variable.split(b'=')[1])] = int(place.name)
        except OSError:
            continue
    return found


def strike(run, ranks, victim, blow, moment, *more):
    """Trains, and does that to one rank; returns exit code and the seconds until all was over."""
    process = run.start(ranks, *more)
    end = time.monotonic() + PATIENCE
    while len(processes_of(run.directory)) < ranks:
        require(process.poll() is None and time.monotonic() < end, f'{run.directory.name}: ranks do not start:\n{run.errors}')
        time.sleep(0.01)
    time.sleep(moment)
    pids = processes_of(run.directory)
    if victim in pids:
        os.kill(pids[victim], blow)
    struck = time.monotonic()
    code = process.wait(PATIENCE)
    return code, time.monotonic() - struck


def faults(scratch, recipes):
    words = ['training.max_duration=20000ba', 'checkpoint.interval=20ba', 'validation.interval=100ba', 'logging.formats=[]']
    moments = random.Random(options.seed)
    blows = ((2, 0, signal.SIGKILL, PEER_LOST), (2, 1, signal.SIGKILL, PEER_LOST), (3, 1, signal.SIGSEGV, PEER_LOST),
             (2, 1, signal.SIGSTOP, PEER_LOST), (2, 0, signal.SIGSTOP, PEER_LOST), (2, 1, signal.SIGTERM, SAVED),
             (2, 0, signal.SIGUSR1, SAVED))
    for ranks, victim, blow, code in blows[1::2] if options.short else blows:
        for moment in moments.uniform(0, 0.3), moments.uniform(0.5, 2):
            name = f'{signal.Signals(blow).name} to rank {victim} of {ranks} after {moment:.2f} s'
            run = Ranks(scratch, name.replace(' ', '_'), recipes['mlp'], *words, 'training.global_batch_size=48')
            found, seconds = strike(run, ranks, victim, blow, moment, 'parallelism.deadline=4s')
            require(found == code, f'{name}: exit code {found}, not {code}:\n{run.errors}')
            require(seconds < 25, f'{name}: the end took {seconds:.0f} s')
            require(not processes_of(run.directory), f'{name}: processes are left')
            print(f'{name}: exit code {found} after {seconds:.1f} s, nothing is left')
    long = ['training.max_duration=15ep']
    run = Ranks(scratch, 'resumed', recipes['cnn'], *long)
    expected = Ranks(scratch, 'undisturbed', recipes['cnn'], *long).train(2)
    kills = 0
    for _ in range(6):
        code, _ = strike(run, 2, kills % 2, signal.SIGKILL, moments.uniform(0.2, 1.0))
        if code == 0:
            break
        kills += 1
    if code != 0:
        run.train(2)
    require(run.weights() == expected.weights(), 'a run whose ranks were killed has other bits')
    require(run.numbers() == expected.numbers(), 'a run whose ranks were killed has other metrics')
    print(f'{kills} times a rank was killed; resumed, the run has an undisturbed one\'s bits and metrics')


def main():
    if shutil.which('mpirun') is None:
        sys.exit('ranks: mpirun not found: install Open MPI (openmpi-bin)')
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        scratch = scratch.resolve()
        recipes = write_recipes(scratch)
        for part in options.parts or ['equal', 'faults']:
            {'equal': equal, 'faults': faults}[part](scratch, recipes)


try:
    main()
except Failure as problem:
    sys.exit(f'ranks: {problem}')

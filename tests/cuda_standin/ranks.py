#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several ranks of the CUDA backend on stand-ins for NVIDIA's libraries: their results must not depend on their number.

Two ranks must have parameters bitwise identical to those of one process with two micro-batches. All orders in which streams may
work, captured as a graph or not, must give bitwise identical results. Three ranks add up in another order: their losses may differ by
1e-5 in fp32. A rank that is killed ends the others with 76, and the resumed run is bitwise identical to an undisturbed one. The same
holds if a rank hangs, or if a link between two hosts is cut.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

SOURCES = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCES / 'scripts/trials'))
from ranks.processes import Ranks  # noqa: E402
from recipes import RECIPES, write_images  # noqa: E402
from run import PEER_LOST, SAVED, Failure, preload  # noqa: E402

PROGRAMS = Path(sys.argv[1]).resolve()
COMMON = ['device.type=cuda', 'data.format=synthetic', 'data.synthetic.val_samples=24', 'data.augment=[]', 'data.eval_transform=[]',
          'training.global_batch_size=12', 'logging.interval=1ba', 'device.threads=1', 'lr_scheduler={name: constant}', 'optimizer.lr=0.001']
MLP = ['fashion_mnist_mlp', 'training.max_duration=20ba', 'data.synthetic.train_samples=240', 'validation.interval=10ba',
       'parallelism.bucket=100KiB']
RESNET = ['resnet18_cifar10', 'model.input=[3, 16, 16]', 'training.max_duration=3ba', 'data.synthetic.train_samples=36',
          'validation.interval=3ba', 'parallelism.bucket=2MiB']
IMAGES = '''version: 1
run: {{name: images, seed: 1, output_dir: run}}
model: {{input: [3, 4, 4], layers: [flatten, linear: 8, relu, linear: 2]}}
data: {{format: image_folder, train: {0}/train, val: {0}/val, workers: 1}}
training: {{max_duration: 100ep, global_batch_size: 12}}
optimizer: {{name: adamw, lr: 0.001}}
'''


class Run(Ranks):
    """Ranks that NCCL connects."""
    variables = b'RANK=',

    def __init__(self, scratch, name, recipe, *words):
        super().__init__(SimpleNamespace(work=scratch, trainer=PROGRAMS / 'trainer', patience=300), name, words=[
            '--config', str(SOURCES / 'configs' / f'{recipe[0]}.yaml'), *COMMON, *recipe[1:], *words,
            'run.output_dir=run'])

    def start(self, *words, order='late', environment=None, **how):
        return super().start(*words, environment={'TRAINER_STANDIN_ORDER': order, 'LD_LIBRARY_PATH': str(PROGRAMS), 'XDG_CACHE_HOME':
                                                  str(self.directory / 'cache'), **(environment or {})}, **how)

    def losses(self):
        return [line['loss'] for line in self.metrics()]


def require(fits, text, why=''):
    print(('' if fits else 'FAILED: ') + text, flush=True)
    if not fits:
        sys.exit(why or 1)


def compare(scratch, name, recipe, *words):
    alone = Run(scratch, f'{name}_1', recipe, 'training.micro_batch_size=6', *words).train(1)
    pair = Run(scratch, f'{name}_2', recipe, 'training.micro_batch_size=6', *words).train(2)
    require(alone.parameters() == pair.parameters(),
            f'{name}: two ranks have the parameter bits of one process with two micro-batches')
    ways = [(order, graph) for order in ('late', 'copies_first', 'copies_last') for graph in ('true', 'false')]
    for order, graph in ways if name == 'mlp' else ways[3:4]:
        other = Run(scratch, f'{name}_{order}_{graph}', recipe, 'training.micro_batch_size=6', f'runtime.cuda_graph={graph}', *words)
        other.train(2, order=order)
        require(other.parameters() == pair.parameters() and other.losses() == pair.losses(),
                f'{name}: two ranks have these bits in the order {order}, graph {graph}')


def sharded(scratch):
    """Two ranks that share out the optimizer's moments, with guards. The second run is stopped after a save, and resumes."""
    words = ['optimizer={name: adamw, lr: 0.001, clip_norm: 0.5}', 'guards.nonfinite=skip', 'checkpoint.interval=10ba', 'training.max_duration=200ba']
    whole = Run(scratch, 'whole', MLP, *words).train(2)
    shared = Run(scratch, 'sharded', MLP, 'parallelism.shard_optimizer=true', *words)
    process = shared.begin(2)
    shared.wait_for(process, shared.saved, 'a first checkpoint')
    process.send_signal(signal.SIGTERM)
    shared.end(process, {SAVED})
    shared.train(2)
    require(shared.went_on_from() and whole.parameters() == shared.parameters() and whole.losses() == shared.losses() and
            whole.moments() == shared.moments(), 'two ranks that share out the moments, stopped and resumed, have the weights, losses and saved '
            'moments of two that do not')


def parts(scratch):
    """Ranks that hold parts of the parameters. With three the parts do not fill the whole. One run is stopped after a save, and resumes."""
    words = ['optimizer={name: adamw, lr: 0.001, clip_norm: 0.5}', 'guards.nonfinite=skip', 'training.micro_batch_size=2']
    key = 'parallelism.shard_parameters=true'
    pairs = 'parallelism.shard_parameters=2'
    for ranks, keys, precision, allowed in (2, key, 'fp32', 1e-5), (3, key, 'fp32', 1e-5), (4, pairs, 'fp32', 1e-5), (3, key, 'amp_fp16', 1 / 2048):
        name = f'parts_{ranks}_{precision}'
        both = [*words, f'training.precision={precision}', *(['training.micro_batch_size=3'] if ranks == 4 else [])]
        whole, cut = (Run(scratch, f'{name}_{bool(more)}', MLP, *both, *more).train(ranks) for more in ([], [keys]))
        apart = max(abs(a / b - 1) for a, b in zip(whole.losses(), cut.losses()))
        require(len(whole.losses()) == len(cut.losses()) and apart < allowed,
                f'{ranks} ranks with parts of the parameters in {precision}: losses differ by {apart:.1e}, allowed are {allowed:.1e}')
    other = Run(scratch, 'parts_single', MLP, *words, key, 'runtime.cuda_graph=false').train(3, order='copies_first')
    again = Run(scratch, 'parts_again', MLP, *words, key).train(3)
    require(other.losses() == again.losses() and other.parameters() == again.parameters(), 'captured or not, in any order: the same bits')
    stopped = Run(scratch, 'parts_stopped', MLP, *words, key, 'checkpoint.interval=5ba', 'training.max_duration=100ba')
    process = stopped.begin(2)
    stopped.wait_for(process, stopped.saved, 'a first checkpoint')
    process.send_signal(signal.SIGTERM)
    stopped.end(process, {SAVED})
    stopped.train(2)
    long = Run(scratch, 'parts_undisturbed', MLP, *words, key, 'training.max_duration=100ba').train(2)
    require(stopped.went_on_from() and stopped.parameters() == long.parameters() and stopped.losses() == long.losses(),
            'stopped and resumed, ranks with parts have the bits of an undisturbed run')


def apart(one, other):
    """The largest difference of two runs' losses, relative to the loss."""
    require(len(one.losses()) == len(other.losses()), f'{len(one.losses())} losses, as many of both runs')
    return max(abs(a / b - 1) for a, b in zip(one.losses(), other.losses()))


def operations(scratch):
    """Ranks that share operations against one, of a network with attention and tied logits of 53 classes too."""
    gpt = scratch / 'gpt'
    gpt.with_suffix('.yaml').write_text(RECIPES['gpt'])
    tokens = [str(gpt), 'training.max_duration=4ba', 'training.global_batch_size=8', 'validation.interval=2ba', 'validation.metrics=[]']
    words = ['optimizer={name: adamw, lr: 0.001, clip_norm: 0.5}', 'guards.nonfinite=skip', 'training.micro_batch_size=2']
    exact = {}
    for recipe, name, precision in (MLP, 'mlp', 'fp32'), (MLP, 'mlp', 'amp_fp16'), (tokens, 'gpt', 'fp32'), (tokens, 'gpt', 'amp_fp16'):
        both = [*words, f'training.precision={precision}']
        alone = Run(scratch, f'operations_{name}_{precision}', recipe, *both).train(1)
        # Each rank rounds its part of a sum: no more than the precision itself changes.
        allowed = max(1e-5, apart(exact.setdefault(name, alone), alone))
        for data, more in (1, []), (2, ['parallelism.shard_parameters=true']):
            shared = Run(scratch, f'operations_{name}_{precision}_{data}', recipe, *both, 'parallelism.tensor=2', *more).train(data)
            found = apart(alone, shared)
            require(found < allowed, f'{name}: two ranks that share operations in {precision}, {data} times: losses differ by {found:.1e}, '
                                     f'allowed are {allowed:.1e}')
    captured = Run(scratch, 'operations_captured', tokens, *words, 'parallelism.tensor=2').train(1)
    single = Run(scratch, 'operations_single', tokens, *words, 'parallelism.tensor=2', 'runtime.cuda_graph=false').train(1, order='copies_first')
    require(captured.losses() == single.losses() and captured.parameters() == single.parameters(),
            'ranks that share operations: captured or not, in any order: the same bits')


def stages(scratch):
    """Stages of a pipeline, the messages of which block until they are received."""
    gpt = scratch / 'stages_gpt'
    gpt.with_suffix('.yaml').write_text(RECIPES['gpt'])
    tokens = [str(gpt), 'training.max_duration=4ba', 'training.global_batch_size=8', 'validation.interval=2ba', 'validation.metrics=[]']
    words = ['optimizer={name: adamw, lr: 0.001, clip_norm: 0.5}', 'guards.nonfinite=skip', 'training.micro_batch_size=1']
    exact = None
    for precision in 'fp32', 'amp_fp16':
        both = [*words, f'training.precision={precision}']
        alone = Run(scratch, f'stages_alone_{precision}', tokens, *both).train(1)
        exact = exact or alone
        allowed = max(1e-5, apart(exact, alone))
        for data, *more in (1, 'parallelism.pipeline=2'), (1, 'parallelism.pipeline=4'), (2, 'parallelism.pipeline=2', 'parallelism.schedule.name=interleaved'):
            name = f'{more[-1]} x {data}'
            run = Run(scratch, f'stages_{precision}_{name}', tokens, *both, *more).train(data)
            found = apart(alone, run)
            require(found < allowed, f'{name} in {precision}: losses differ by {found:.1e}, allowed are {allowed:.1e}')
    # Without a limit of the norm only the scale of the loss decides, and the last stage alone has the loss.
    plain = ['optimizer={name: sgd, lr: 0.01}', 'training.micro_batch_size=1', 'training.precision=amp_fp16']
    alone, run = (Run(scratch, f'stages_scaled_{len(more)}', tokens, *plain, *more).train(1) for more in ([], ['parallelism.pipeline=2']))
    found = apart(alone, run)
    require(found < 1e-3, f'a scaled loss: losses differ by {found:.1e}')
    captured = Run(scratch, 'stages_captured', tokens, *words, 'parallelism.pipeline=2').train(1)
    single = Run(scratch, 'stages_single', tokens, *words, 'parallelism.pipeline=2', 'runtime.cuda_graph=false').train(1, order='copies_first')
    require(captured.losses() == single.losses() and captured.parameters() == single.parameters(),
            'stages: captured or not, in any order: the same bits')


def counts(scratch):
    """Three ranks with two micro-batches each, and guards. In fp16 a weight may round to its neighbour, a part in 2048 away."""
    words = ['training.micro_batch_size=2', 'guards.nonfinite=skip', 'optimizer={name: adamw, lr: 0.001, clip_norm: 0.5}']
    for precision, allowed in ('fp32', 1e-5), ('amp_fp16', 1 / 2048):
        alone, three = (Run(scratch, f'{precision}_{ranks}', MLP, *words, f'training.precision={precision}').train(ranks).losses()
                        for ranks in (1, 3))
        apart = max(abs(a / b - 1) for a, b in zip(alone, three))
        require(len(alone) == len(three) and apart < allowed,
                f'three ranks with two micro-batches each in {precision}: losses differ by {apart:.1e}, allowed are {allowed:.1e}')


def killed(scratch):
    long = [*MLP, 'training.max_duration=400ba', 'checkpoint.interval=20ba']
    expected = Run(scratch, 'undisturbed', long).train(2)
    run = Run(scratch, 'killed', long)
    process = run.begin(2)
    run.wait_for(process, run.saved, 'a first checkpoint')
    os.kill(run.processes()[1], signal.SIGKILL)
    run.end(process, {PEER_LOST}, 'rank 1 on ', within=60)
    require(not run.processes(), f'a killed rank: exit code {PEER_LOST} after {run.waited:.1f} s, it is named, nothing is left')
    require(run.train(2).parameters() == expected.parameters(), 'resumed, the run has an undisturbed one\'s bits')


def hangs(scratch):
    """The host of rank 1 hangs in its reading of step 49: rank 0 detects this and the place within a single deadline.

    Only the steps themselves synchronise the ranks: no lines of metrics, and no evaluation. When rank 1 has saved, its steps so far
    are computed, as they would be on a GPU. Rank 0 then waits for step 49, to save or to have room for step 52.
    """
    deadline = 6
    images = write_images(scratch / 'images', train=30, val=6)
    recipe = scratch / 'images.yaml'
    recipe.write_text(IMAGES.format(images))
    for interval in '1ba', '48ba':
        run = Run(scratch, f'hangs_{interval}', [recipe.with_suffix('')], 'data.format=image_folder', 'data.augment=[random_resized_crop: 4]',
                  'data.eval_transform=[resize: 6, center_crop: 4]', 'logging.interval=1000ba', 'validation.interval=100ep',
                  f'parallelism.timeout={deadline}s', f'checkpoint.interval={interval}', 'data.prefetch=4')
        log = run.directory / 'calls.txt'
        process = run.begin(2, environment=preload(PROGRAMS.parent / 'bin/libfaults.so', rank=1, path='images/train', calls='open', at=392,
                                                   action='stall', log=log))
        run.wait_for(process, lambda: log.exists() and 'stall' in log.read_text(), 'the call that hangs')
        run.end(process, {PEER_LOST}, within=2 * deadline)
        require(re.search(r'rank 1 on \S+, at step 49: awaiting data; others have waited for it', run.errors),
                f'a rank whose host hangs, saves each {interval}: exit code {PEER_LOST} after {run.waited:.1f} s, deadline {deadline} s; it is '
                'named', run.errors)


def eight(scratch):
    """Eight ranks on as many GPUs: each may take its GPU's memory, less what NCCL and CUDA take later. An eighth of it is too little."""
    for devices in '8', '1':  # each rank sees all of them, or its own
        run = Run(scratch, f'eight_{devices}', MLP, 'training.global_batch_size=16', 'training.max_duration=3ba')
        run.train(8, environment={'TRAINER_STANDIN_MEMORY': '1084', 'TRAINER_STANDIN_DEVICES': devices})
        require(run.last_step() == 3, f'eight ranks train on GPUs of 1084 MiB of their own, of which each leaves 1 GiB, {devices} in sight')


def fails_late(scratch):
    """NCCL reports a failed link only if it is asked."""
    run = Run(scratch, 'fails_late', [*MLP, 'training.max_duration=400ba'])
    process = run.begin(2, environment={'TRAINER_STANDIN_FAILS_LATE': '30'})
    run.end(process, {PEER_LOST}, "the ranks' collectives: NCCL 2.18.0 failed with", within=60)
    require(re.search(r'rank \d on \S+: ', run.errors), f'a link that NCCL loses: exit code {PEER_LOST}, the rank and NCCL\'s words', run.errors)


class Hosts:
    """Two hosts of this machine: network namespaces with host names of their own and a link between them."""
    names = [f'trainer{os.getpid()}{letter}' for letter in 'ab']

    def __init__(self):
        a, b = self.names
        for words in (f'netns add {a}', f'netns add {b}', f'link add v0 netns {a} type veth peer name v0 netns {b}',
                      f'-n {a} addr add 10.77.0.1/24 dev v0', f'-n {b} addr add 10.77.0.2/24 dev v0',
                      *(f'-n {name} link set {device} up' for name in self.names for device in ('lo', 'v0'))):
            subprocess.run(['ip', *words.split()], check=True)

    def inside(self, host, command):
        """The command line for it, on the host of that number."""
        return ['ip', 'netns', 'exec', self.names[host], 'unshare', '--uts', 'sh', '-c', 'hostname "$0"; exec "$@"',
                f'node{host}', *command]

    def cut(self):
        subprocess.run(['ip', '-n', self.names[1], 'link', 'set', 'v0', 'down'], check=True)

    def remove(self):
        for name in self.names:
            subprocess.run(['ip', 'netns', 'del', name], check=False)


def cut_off(scratch):
    """A rank on each of two hosts, which meet over the link. When it is cut, both leave and name the other."""
    if os.geteuid() != 0 or not shutil.which('ip'):
        print('left out: a link that is cut, which needs root and iproute2')
        return
    deadline = 3
    run = Run(scratch, 'cut_off', [*MLP, 'training.max_duration=100000ba', f'parallelism.timeout={deadline}s'])
    hosts = Hosts()
    try:
        ranks = []
        for rank in range(2):
            variables = {'RANK': rank, 'WORLD_SIZE': 2, 'LOCAL_RANK': 0, 'MASTER_ADDR': '10.77.0.1', 'MASTER_PORT': 29400,
                         'LD_LIBRARY_PATH': PROGRAMS, 'OMP_WAIT_POLICY': 'passive', 'XDG_CACHE_HOME': run.directory / 'cache'}
            ranks.append(subprocess.Popen(hosts.inside(rank, [PROGRAMS / 'trainer', *run.words]), cwd=run.directory, stdout=subprocess.DEVNULL,
                                          stderr=open(run.directory / f'stderr{rank}.txt', 'w'),
                                          env={**os.environ, **{name: str(value) for name, value in variables.items()}}))
        while not run.last_step():
            time.sleep(0.05)
            if any(rank.poll() is not None for rank in ranks):
                sys.exit('cut_off: a rank ended too early:\n' + ''.join((run.directory / f'stderr{rank}.txt').read_text() for rank in range(2)))
        secret = (run.directory / 'run/ranks.secret').stat()
        require(secret.st_mode & 0o777 == 0o600, 'the ranks share a secret that only its owner can read')
        hosts.cut()
        began = time.monotonic()
        codes = [rank.wait(60) for rank in ranks]
        took = time.monotonic() - began
        texts = [(run.directory / f'stderr{rank}.txt').read_text() for rank in range(2)]
        named = all(f'rank {1 - rank} on node{1 - rank} ' in texts[rank] for rank in range(2))
        require(codes == [PEER_LOST] * 2 and named and took < deadline + 10,
                f'a link that is cut: exit codes {codes} after {took:.1f} s, deadline {deadline} s; each names the other', ''.join(texts))
    finally:
        for rank in ranks:
            rank.kill()
        hosts.remove()


with tempfile.TemporaryDirectory() as folder:
    scratch = Path(folder).resolve()
    try:
        compare(scratch, 'mlp', MLP)
        compare(scratch, 'resnet', RESNET)
        sharded(scratch)
        parts(scratch)
        operations(scratch)
        stages(scratch)
        counts(scratch)
        killed(scratch)
        hangs(scratch)
        eight(scratch)
        fails_late(scratch)
        cut_off(scratch)
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')

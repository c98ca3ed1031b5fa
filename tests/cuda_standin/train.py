#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole training runs of the CUDA backend on stand-ins for NVIDIA's libraries: each shipped recipe, with small images.

Losses are compared with the CPU's, relative to them. The first in fp32 may differ by 1e-5. Each later one may differ by
1e-4, or by three times what another number of threads or another instruction set has changed on the CPU so far. In fp16
the first may differ by 1e-2. All orders in which streams may work, captured as a graph or not, must give bitwise identical
results. By default it runs ten steps in one order with a graph, for the MLP each order and samples on the device, and two steps
of deep networks; --all runs everything, for 20 steps.
"""
import argparse
import hashlib
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCES / 'scripts/trials'))
from checkpoints import TIMINGS  # noqa: E402

TINY, SMALL = ['model.input=[3, 16, 16]'], ['model.input=[3, 32, 32]']
RECIPES = {  # with settings that make them small, or add features
    'fashion_mnist_mlp': [], 'fashion_mnist_mlp, muon': ['optimizer={name: muon, clip_norm: 1}', 'training.micro_batch_size=2'],
    'fashion_mnist_cnn': [], 'mlp_amp': [], 'resnet18_cifar10': TINY,
    'unet_synthetic': SMALL, 'fashion_mnist_autoencoder': [],
    'fashion_mnist_mlp, folded': [  # large enough that a normalisation goes into its product
        'training.global_batch_size=16', 'training.micro_batch_size=16', 'data.synthetic.train_samples=320', 'model={input: [3, 64, 64], layers: ['
        '{conv2d: {out_channels: 8, kernel_size: 3, padding: 1, bias: false}}, batch_norm, relu, '
        '{conv2d: {out_channels: 64, kernel_size: 1, bias: false}}, batch_norm, relu, '
        '{conv2d: {out_channels: 8, kernel_size: 1, bias: false}}, batch_norm, relu, global_avg_pool2d, flatten, {linear: 10}]}'],
    'fashion_mnist_mlp, multi_label': ['loss=binary_cross_entropy', 'validation.metrics=[micro_f1, exact_match]'],
    'fashion_mnist_mlp, gelu_tanh': [
        'model={input: [1, 28, 28], layers: [flatten, {linear: 64}, gelu_tanh, {linear: 64}, gelu_tanh, {linear: 10}]}'],
    'image_folder_finetune': SMALL,
    'mobilenet_v2_imagenet': ['model.input=[3, 64, 64]'], 'resnet50_imagenet': ['model.input=[3, 64, 64]'],
}
DEEP = {'image_folder_finetune', 'mobilenet_v2_imagenet', 'resnet50_imagenet'}
SHALLOWEST = 'fashion_mnist_mlp'
ORDERS = ['late', 'copies_first', 'copies_last']
PRECISIONS = ['fp32', 'amp_fp16']

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument('programs', type=Path, help='folder with the program and the stand-in beside it')
arguments.add_argument('--all', action='store_true', help='every order, with and without a graph')
arguments.add_argument('--only', default='', help='recipes whose name contains this')
options = arguments.parse_args()
options.programs = options.programs.resolve()


def steps_of(recipe):
    return 20 if options.all else 2 if recipe in DEEP else 10


class Run:
    """One run of the program: its losses, and the values that must be equal for all orders."""

    def __init__(self, scratch, recipe, *words, threads=2, order='late', instructions='ALL', log=None, code=0, variables=None):
        out = scratch / 'run'
        steps = steps_of(recipe)
        subprocess.run(['rm', '-rf', out], check=True)
        command = [options.programs / 'trainer', '--config', SOURCES / f'configs/{recipe.split(",")[0]}.yaml', 'data.format=synthetic',
                   f'data.synthetic.train_samples={4 * steps}', 'data.synthetic.val_samples=8',
                   'data.augment=[]', 'data.eval_transform=[]', 'training.global_batch_size=4', 'training.micro_batch_size=4',
                   f'training.max_duration={steps}ba', 'validation.interval=10ba', 'logging.interval=1ba',
                   f'run.output_dir={out}', f'device.threads={threads}', 'lr_scheduler={name: constant}', 'optimizer.lr=0.001',
                   *RECIPES[recipe], *words]
        environment = {**os.environ, 'TRAINER_STANDIN_ORDER': order, 'OMP_WAIT_POLICY': 'passive', 'ONEDNN_MAX_CPU_ISA': instructions,
                       'LD_LIBRARY_PATH': str(options.programs), 'XDG_CACHE_HOME': str(scratch / 'cache'), **(variables or {})}
        if log:
            environment['TRAINER_STANDIN_LOG'] = str(log)
        done = subprocess.run(command, capture_output=True, text=True, cwd=scratch, env=environment)
        if done.returncode != code:
            sys.exit(f'{" ".join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}')
        self.text = done.stderr
        if code != 0:
            return
        states = list(out.glob('checkpoints/*/state.json'))
        if 'device.index=1' in words and not all('Second' in state.read_text() for state in states):
            sys.exit(f'{recipe}: device.index=1 is another GPU')
        lines = [json.loads(line) for line in (out / 'metrics.jsonl').read_text().splitlines()]
        self.losses = [line['loss'] for line in lines if line['split'] == 'train']
        kept = [{key: value for key, value in line.items() if not TIMINGS.match(key)}
                for line in lines]
        self.bits = hashlib.sha256((out / 'model.safetensors').read_bytes() + json.dumps(kept).encode()).hexdigest()


def check(fits, text):
    print(('' if fits else 'FAILED: ') + text, flush=True)
    return fits


def follows_cpu(recipe, scratch, losses):
    # Own kernels are bitwise identical for all instruction sets: oneDNN has a way of its own.
    cpu = [Run(scratch, recipe, 'device.type=cpu', 'training.precision=fp32', *words, threads=n, instructions=name).losses
           for n, name, words in ((1, 'ALL', ()), (2, 'ALL', ()), (2, 'SSE41', ()), (2, 'AVX2', ()),
                                  (2, 'ALL', ('runtime.winograd=off',)))]
    one = cpu[0]
    first = abs(losses[0] / one[0] - 1)
    bound, worst = 1e-4, 0.0
    for step, ours in enumerate(losses):
        bound = max(bound, *(3 * abs(other[step] / one[step] - 1) for other in cpu[1:]))
        worst = max(worst, abs(ours / one[step] - 1) / bound)
    return check(first <= 1e-5 and worst <= 1,
                 f'{recipe} fp32: first loss {losses[0]:.4f}, {first:.1e} from the CPU\'s; later ones at most '
                 f'{worst:.2f} of what is allowed') and one[0]


def finds_hidden_nan(scratch):
    """A relu with a mask hides a NaN from the loss; the gradients show it, and the step does not count."""
    recipe, words = 'fashion_mnist_mlp, folded', ['device.type=cuda', 'training.precision=amp_bf16']
    Run(scratch, recipe, *words)
    weights = scratch / 'nan.safetensors'
    stored = bytearray((scratch / 'run/model.safetensors').read_bytes())
    header = int.from_bytes(stored[:8], 'little')
    place = 8 + header + json.loads(stored[8:8 + header])['1.weight']['data_offsets'][0]
    stored[place:place + 4] = struct.pack('<f', math.nan)
    weights.write_bytes(stored)
    text = Run(scratch, recipe, *words, f'model.initial_weights={weights}', code=70).text
    lines = [json.loads(line) for line in (scratch / 'run/metrics.jsonl').read_text().splitlines()]
    told = [(line['updates'], line['reason']) for line in lines if line['split'] == 'guard']
    return check('gradients became infinite or NaN at step 1' in text and told == [(0, 'gradients')],
                 f'{recipe}: a NaN that the loss does not show: {told}')


def shares_a_cache(scratch):
    """The second run of a network reuses the first one's timings and plans, and is bitwise identical."""
    words = ['device.type=cuda', 'runtime.autotune=true']
    runs, built = [], []
    for name in 'first', 'second':
        log = scratch / f'{name}.log'
        runs.append(Run(scratch, 'fashion_mnist_cnn', *words, log=log))
        built.append(log.read_text().splitlines().count('a plan is built'))
    return check(built[0] > 0 and built[1] == 0 and runs[0].bits == runs[1].bits,
                 f'fashion_mnist_cnn: {built[0]} plans are built, then {built[1]}; bits are '
                 f'{"equal" if runs[0].bits == runs[1].bits else "different"}')


def ways(recipe):
    """Orders of streams, with settings, that must all give bitwise identical results."""
    if not options.all and recipe != SHALLOWEST:
        return [('copies_first', ['runtime.cuda_graph=true'])]
    found = [(order, [f'runtime.cuda_graph={graph}']) for order in ORDERS for graph in ('true', 'false')]
    if recipe == SHALLOWEST:  # samples on the device are copied once, after their memory has been cleared
        found.append(('copies_first', ['data.cache=device']))
        found.append(('late', ['device.index=1']))
    return found


def check_recipe(recipe, scratch):
    results, cpu = [], None
    for precision in PRECISIONS:
        runs = [Run(scratch, recipe, 'device.type=cuda', f'training.precision={precision}', *settings, order=order)
                for order, settings in ways(recipe)]
        kinds = len({run.bits for run in runs})
        results.append(check(kinds == 1, f'{recipe} {precision}: {len(runs)} runs of {steps_of(recipe)} steps have '
                             f'{"equal" if kinds == 1 else "different"} bits'))
        if precision == 'fp32':
            cpu = follows_cpu(recipe, scratch, runs[0].losses)
            results.append(cpu is not False)
        elif cpu:
            apart = abs(runs[0].losses[0] / cpu - 1)
            results.append(check(apart <= 1e-2, f'{recipe} {precision}: first loss {apart:.1e} from the CPU\'s in fp32'))
    return all(results)


def captures_without_early_starts(scratch):
    """A capture that fails with kernels that start early is made without them, and says so. TRAINER_PDL leaves the attempt out."""
    usual, tried, without = (Run(scratch, SHALLOWEST, 'device.type=cuda', variables=variables) for variables in (
        {}, {'TRAINER_STANDIN_REFUSES_EARLY_STARTS': '1'}, {'TRAINER_STANDIN_REFUSES_EARLY_STARTS': '1', 'TRAINER_PDL': '0'}))
    wrong = Run(scratch, SHALLOWEST, 'device.type=cuda', variables={'TRAINER_PDL': '2'}, code=64)
    warned = ['could not be captured with kernels that start early' in run.text for run in (usual, tried, without)]
    graph = 'no CUDA graph' not in tried.text
    return check(warned == [False, True, False] and graph and usual.bits == tried.bits == without.bits and
                 'TRAINER_PDL=2: expected 0, ' in wrong.text,
                 f'a capture without early starts: warnings {warned}, a graph {graph}')


def keeps_a_reserve(scratch):
    """A plan leaves room for what CUDA takes later: the stand-in's kernels take 200 MiB at the first launch."""
    words = ['device.type=cuda', 'model={input: [1, 28, 28], layers: [flatten, {linear: 10}]}', 'training.global_batch_size=65536',
             'training.micro_batch_size=auto', 'data.synthetic.train_samples=65536', 'training.max_duration=1ba']
    run = Run(scratch, SHALLOWEST, *words, variables={'TRAINER_STANDIN_MEMORY': '600'})
    small = Run(scratch, SHALLOWEST, *words, variables={'TRAINER_STANDIN_MEMORY': '300'}, code=71)
    return check('micro_batch_size=auto chose' in run.text and 'may need 512 MiB' in small.text and '300 MiB of 300 MiB free' in small.text,
                 'a plan leaves a reserve of the memory, and a GPU without one is refused')


def fuses_gelu():
    """The network with gelu_tanh trains with the products that compute it; in fp32 there are none."""
    recipe, found = 'fashion_mnist_mlp, gelu_tanh', {}
    for precision in PRECISIONS:
        done = subprocess.run(
            [options.programs / 'trainer', 'plan', '--config', SOURCES / 'configs/fashion_mnist_mlp.yaml', 'data={format: synthetic}',
             'device.type=cuda', f'training.precision={precision}', '--dump', 'program', *RECIPES[recipe]],
            capture_output=True, text=True, env={**os.environ, 'LD_LIBRARY_PATH': str(options.programs)})
        lines = [line for line in done.stdout.splitlines() if ' = linear' in line and 'gelu_tanh}' in line]
        found[precision] = len(lines), sum('linear_backward_data' in line for line in lines)
    return check(found['fp32'] == (0, 0) and found['amp_fp16'][0] >= 4 and found['amp_fp16'][1] >= 2,
                 f'{recipe}: products with gelu_tanh, and of them its gradients: {found}')


with tempfile.TemporaryDirectory() as folder:
    results = [check_recipe(recipe, Path(folder)) for recipe in RECIPES if options.only in recipe]
    if options.only in 'fashion_mnist_mlp, gelu_tanh':
        results.append(fuses_gelu())
    if options.only in SHALLOWEST:
        results += [captures_without_early_starts(Path(folder)), keeps_a_reserve(Path(folder))]
    if options.only in 'fashion_mnist_cnn':
        results.append(shares_a_cache(Path(folder)))
    if options.only in 'fashion_mnist_mlp, folded':
        results.append(finds_hidden_nan(Path(folder)))
sys.exit(0 if results and all(results) else 1)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of the program compared: each shipped recipe for a few steps on the CPU, with either build.

Weights, checkpoints' tensors and metrics without timings must be equal byte for byte, and a plan may not take more
memory than before. With --times N also the time of a step, in N alternating pairs: the median of the ratios and their
quartiles. Recipes with missing files get synthetic data. Each program uses the recipes of its own sources, so that
a renamed key is not a difference.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

# Lines that say nothing about results or can never be equal.
TIMINGS = {'time', 'samples_per_s', 'tokens_per_s', 'data_wait_ms', 'forward_ms', 'backward_ms', 'update_ms', 'memory_bytes', 'host_ms'}
SYNTHETIC = ['data.format=synthetic', 'data.synthetic.train_samples=640', 'data.synthetic.val_samples=64']
ACCUMULATED = ['training.micro_batch_size=8', 'training.ema={decay: 0.9}', 'optimizer.clip_norm=1', 'guards.spike=skip']
CASES = {  # recipe, and its overrides
    'fashion_mnist_mlp': [], 'fashion_mnist_cnn': [],
    'mlp_amp': ['training.precision=amp_bf16', 'device.emulate_bf16=true'],
    'resnet18_cifar10': SYNTHETIC, 'unet_synthetic': [], 'fashion_mnist_autoencoder': [], 'image_folder_finetune': SYNTHETIC,
    'mobilenet_v2_imagenet': SYNTHETIC, 'resnet50_imagenet': SYNTHETIC,
    'gpt_char_bible': ['data.train={text}', 'training.global_batch_size=4'],
}
# The same with gradients accumulated, averages, clipping and guards, and with mixed samples.
MORE = {'fashion_mnist_mlp': ACCUMULATED, 'resnet18_cifar10': SYNTHETIC + ACCUMULATED,
        'fashion_mnist_cnn': ['data.mix={mixup: 0.2, cutmix: 1}', 'optimizer={name: adamw, lr: 0.001}']}

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument('before', type=Path, help='sources with build/release/bin/trainer')
arguments.add_argument('after', type=Path, help='sources with build/release/bin/trainer')
arguments.add_argument('--steps', type=int, default=20)
arguments.add_argument('--times', type=int, default=0, metavar='N', help='pairs in which to time a step')
arguments.add_argument('--time-steps', type=int, default=60, help='steps of a run whose time is taken')
arguments.add_argument('--only', help='a regular expression of recipes')
options = arguments.parse_args()
os.environ.setdefault('OMP_WAIT_POLICY', 'passive')


def trainer(sources, recipe, overrides, *words):
    command = [sources.resolve() / 'build/release/bin/trainer', *words, '--config',
               sources.resolve() / f'configs/{recipe}.yaml', 'device.type=cpu', 'training.global_batch_size=32',
               *overrides]
    done = subprocess.run(command, capture_output=True, text=True, cwd=sources)
    if done.returncode != 0:
        raise SystemExit(f'{" ".join(map(str, command))}: exit {done.returncode}\n{done.stderr}')
    return done.stdout


def metrics_of(run):
    lines = [json.loads(line) for line in (run / 'metrics.jsonl').read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMINGS and not key.startswith(('time_', 'device_', 'flops_'))} for line in lines]


def tensors_of(run):
    """Bytes of the weights and of every checkpoint's tensors, by their path in the run."""
    return {str(file.relative_to(run)): file.read_bytes() for file in sorted(run.rglob('*.safetensors'))}


def arenas_of(sources, recipe, overrides):
    """Bytes planned, by kind; without the program's own, an estimate, and values that depend on it."""
    kinds = json.loads(trainer(sources, recipe, overrides, 'plan', '--json'))['memory']
    return {name: size for name, size in kinds.items()
            if name not in ('program_bytes', 'peak_bytes', 'available_bytes', 'peak_is_bound')}


def compare(recipe, overrides, work):
    runs, arenas = [], []
    for side, sources in (('before', options.before), ('after', options.after)):
        run = work / side
        trainer(sources, recipe, [*overrides, f'training.max_duration={options.steps}ba', 'validation.interval=10ba',
                                  'checkpoint.interval=10ba', 'logging.interval=1ba', f'run.output_dir={run}'])
        runs.append(run)
        arenas.append(arenas_of(sources, recipe, overrides))
    different = [name for name, of in (('metrics', metrics_of), ('tensors', tensors_of)) if of(runs[0]) != of(runs[1])]
    larger = [f'{name}: {arenas[0].get(name)} -> {size}' for name, size in arenas[1].items()
              if size > arenas[0].get(name, 0)]
    files = len(tensors_of(runs[0]))
    print(f'{recipe:24} {files} files, {len(metrics_of(runs[0]))} lines, {len(arenas[0])} sizes:',
          'differ: ' + ', '.join(different) if different else 'equal', '; '.join(larger), flush=True)
    return not different and not larger


def step_ms(sources, recipe, overrides, run):
    trainer(sources, recipe, [*overrides, f'training.max_duration={options.time_steps}ba', 'validation.interval=0ep',
                              'logging.interval=5ba', f'run.output_dir={run}'])
    lines = [line for line in map(json.loads, (run / 'metrics.jsonl').read_text().splitlines())
             if line['split'] == 'train']
    # From the times between lines, without the first five steps.
    return (lines[-1]['time'] - lines[0]['time']) / (lines[-1]['step'] - lines[0]['step']) * 1e3


def time_steps(recipe, overrides, work):
    ratios = []
    for turn in range(options.times):
        sides = [('before', options.before), ('after', options.after)]
        ms = {}
        for side, sources in sides if turn % 2 == 0 else sides[::-1]:
            ms[side] = step_ms(sources, recipe, overrides, work / f'{side}{turn}')
        ratios.append(ms['after'] / ms['before'])
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f'{recipe:24} step after / before {middle:.3f} ({low:.3f} to {high:.3f}), {len(ratios)} pairs', flush=True)


good = True
with tempfile.TemporaryDirectory() as folder:
    text = Path(folder) / 'text.txt'
    text.write_text(' '.join(random.Random(1).choices(['one', 'or', 'another', 'word', 'after', 'the', 'first.'], k=40000)))
    for number, (recipe, overrides) in enumerate([*CASES.items(), *MORE.items()]):
        if options.only and not re.search(options.only, recipe):
            continue
        work = Path(folder) / str(number)
        overrides = [word.replace('{text}', str(text)) for word in overrides]
        if options.times:
            time_steps(recipe, overrides, work)
        else:
            good &= compare(recipe, overrides, work)
raise SystemExit(0 if good else 1)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What smaller networks cost in accuracy: the shipped CNN on Fashion-MNIST, trained on for two epochs from the same dense weights, by this program and
by PyTorch's tools (compression_peer.py).

  scripts/bench/compression.py --python PYTHON [--seeds 3] [--rows 50,80,2:4] [--work FOLDER] [--out FILE]

PYTHON has PyTorch, numpy, torch-pruning, onnxruntime and nncf with openvino. FOLDER keeps the runs; dense ones that are there are used again. Prints a row for each way with the mean over the seeds, and the points below dense and below PyTorch.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / 'configs/fashion_mnist_cnn.yaml'
FINE_TUNING = ['training.max_duration=2ep', 'optimizer.lr=0.01', 'lr_scheduler.warmup=0ba', 'checkpoint.interval=0s', 'checkpoint.keep_best=none',
               'validation.interval=0ep', 'logging.formats=[]']


def masked(share, scope='global'):
    return {'ours': [f'compression.prune.sparsity={share}', f'compression.prune.scope={scope}', 'compression.prune.end=1ep',
                     'compression.prune.every=50ba'],
            'peer': ['--sparsity', str(share), '--scope', scope]}


ROWS = {
    'dense': {'ours': [], 'peer': []},
    '50': masked(0.5), '80': masked(0.8), '90': masked(0.9), '95': masked(0.95), '98': masked(0.98),
    '50 of each layer': masked(0.5, 'layer'), '80 of each layer': masked(0.8, 'layer'),
    '2:4': {'ours': ['compression.prune.sparsity=0.5', 'compression.prune.pattern=2:4', 'compression.prune.except=[conv1.*]'],
            'peer': ['--pattern', '2:4']},
    'half the multiply-adds': {'keep': 0.62, 'peer': ['--keep', '0.62']},
    'int8 after training': {'int8': ['--all']},
    'int8 while training': {'rounding': ['compression.quantize.weight_bits=7'], 'peer': ['--qat']},
    '4-bit weights in powers of two': {'rounding': ['compression.quantize.weight_bits=4', 'compression.quantize.scales=power_of_two']},
    'a quarter of the channels': {'keep': 0.25, 'peer': ['--keep', '0.25']},
    'the same with distillation': {'keep': 0.25, 'distillation': True},
}


def train(options, directory, overrides, recipe=RECIPE):
    subprocess.run([options.trainer, '--config', recipe, f'run.output_dir={directory}', *overrides], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return 100 * json.loads((directory / 'summary.json').read_text())['validation']['last']['top1']


def peer(options, weights, seed, arguments):
    done = subprocess.run([options.python, Path(__file__).with_name('compression_peer.py'), weights, '--seed', str(seed), *arguments], check=True,
                          capture_output=True, text=True)
    return 100 * json.loads(done.stdout)['top1']


def trained_on(options, run, row, seed, directory):
    """This program's top1 after training on, from the weights of a dense run."""
    if 'keep' in row:
        smaller = directory.with_name(directory.name + '_network')
        subprocess.run([options.trainer, 'prune', run, '--keep', str(row['keep']), '--out', smaller], check=True, stdout=subprocess.DEVNULL)
        loss = []
        if 'distillation' in row:
            teacher = f'{{recipe: {RECIPE}, weights: {run / "model.safetensors"}}}'
            loss = [f'loss={{name: distillation, teacher: {teacher}, temperature: 4, alpha: 0.9}}']
        return train(options, directory, [f'run.seed={seed}', *FINE_TUNING, *loss], smaller / 'recipe.yaml')
    if 'rounding' in row:
        train(options, directory, [f'run.seed={seed}', f'model.initial_weights={run}/model.safetensors', *FINE_TUNING, *row['rounding']])
        return quantised(options, directory, {'int8': ['--all']}, directory)
    return train(options, directory, [f'run.seed={seed}', f'model.initial_weights={run}/model.safetensors', *FINE_TUNING, *row['ours']])


def quantised(options, run, row, directory):
    """This program's top1 in 8 bits."""
    weights = directory.with_suffix('.safetensors')
    subprocess.run([options.trainer, 'quantize', run, '--weights', run / 'model.safetensors', '--out', weights, *row['int8']], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    told = subprocess.run([options.trainer, 'eval', run, '--weights', weights, '--json'], check=True, capture_output=True, text=True).stdout
    return 100 * json.loads(told.strip().splitlines()[-1])['top1']


def quantised_by_peers(options, run, directory):
    """The better of onnxruntime's and NNCF's top1 in 8 bits, from this program's ONNX model."""
    model = directory.with_suffix('.onnx')
    subprocess.run([options.trainer, 'export', run, '--weights', run / 'model.safetensors', '--out', model], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    done = subprocess.run([options.python, Path(__file__).with_name('compression_int8_peer.py'), model], check=True, capture_output=True, text=True)
    return 100 * max(json.loads(done.stdout.strip().splitlines()[-1]).values())  # NNCF prints before it


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--python', default=sys.executable)
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--rows', default=','.join(ROWS))
    parser.add_argument('--trainer', default=ROOT / 'build/release/bin/trainer')
    parser.add_argument('--work', type=Path)
    parser.add_argument('--out', type=Path)
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix='compression-'))
    dense = {}
    for seed in range(1, options.seeds + 1):
        summary = work / f'dense{seed}/summary.json'
        dense[seed] = 100 * json.loads(summary.read_text())['validation']['last']['top1'] if summary.exists() else train(options, work / f'dense{seed}', [f'run.seed={seed}', 'checkpoint.keep_best=none', 'logging.formats=[]'])
    lines = [f'dense weights: {statistics.mean(dense.values()):.2f} % ({", ".join(f"{value:.2f}" for value in dense.values())})', '',
             '| row | this program, % | below dense | PyTorch, % | below PyTorch |', '|---|---|---|---|---|']
    print('\n'.join(lines), flush=True)
    for name in options.rows.split(','):
        row, ours, theirs = ROWS[name], [], []
        for seed in dense:
            run, directory = work / f'dense{seed}', work / f'{name.replace(":", "_")}_{seed}'
            if 'int8' in row:
                ours.append(quantised(options, run, row, directory))
                theirs.append(quantised_by_peers(options, run, directory))
            else:
                ours.append(trained_on(options, run, row, seed, directory))
                if 'peer' in row:
                    theirs.append(peer(options, run / 'model.safetensors', seed, row['peer']))
        own, before = statistics.mean(ours), statistics.mean(dense.values())
        beside = f'{statistics.mean(theirs):.2f} | {statistics.mean(theirs) - own:+.2f}' if theirs else '– | –'
        lines.append(f'| {name} | {own:.2f} | {before - own:+.2f} | {beside} |')
        print(lines[-1], flush=True)
    if options.out:
        options.out.write_text('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares prediction in 8 bits with prediction in f32, and with onnxruntime and OpenVINO on the exported qdq model: two threads, random weights,
in turns.

    scripts/setup.sh --tests --bench
    build/openvino/bin/python scripts/bench/int8.py [--turns 5] [--batches 1,32] [--isa AVX2] [RECIPE...]

Each turn measures all of them, one after the other: the median of some runs after a warm-up. Printed are the medians of the turns and the ratios
with their range; above 1 our 8 bits are faster. --isa limits oneDNN's instructions (ONEDNN_MAX_CPU_ISA), in 8 bits and f32; the peers then are left out.
Nothing else may run meanwhile.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts/export'))

import onnx  # noqa: E402
from compare import Network  # noqa: E402
from inference import SETTINGS, ours, seconds  # noqa: E402
from inference_peers import PEERS  # noqa: E402


def quantised(network, overrides):
    """The network with weights of 8 bits for what is faster so, and what quantize prints."""
    path = network.path('int8.safetensors')
    told = subprocess.run([network.trainer, 'quantize', '--config', network.recipe, '--weights', network.weights, '--as-written', '--samples', '64',
                           '--out', path, *overrides], check=True, capture_output=True, text=True).stdout
    return Network(pathlib.Path(network.trainer).parent, network.recipe, overrides, weights=path), told.strip()


def compare(trainer, wide, narrow, batch, turns, with_peers):
    runs = max(5, 40 // batch)
    peers = {}
    if with_peers:
        path = narrow.export('--dialect', 'qdq')
        name, values = narrow.inputs(onnx.load(path), batch)
        peers = {peer: prepare(path) for peer, prepare in PEERS.items()}
    columns = {'f32': lambda: ours(trainer, wide, batch, runs),
               **{peer: lambda compute=compute: seconds(compute, name, values, runs) for peer, compute in peers.items()}}
    narrow_again = Network(pathlib.Path(trainer).parent, narrow.recipe, [*narrow.overrides, f'run.resume={narrow.weights}'], weights=narrow.weights)
    measured = [(ours(trainer, narrow_again, batch, runs), [measure() for measure in columns.values()]) for _ in range(turns)]
    text = f'batch {batch}: {1e3 * statistics.median(own for own, _ in measured):.2f} ms'
    for place, column in enumerate(columns):
        ratios = [others[place] / own for own, others in measured]
        text += (f'; {column} {1e3 * statistics.median(others[place] for _, others in measured):.2f} ms, {statistics.median(ratios):.2f} '
                 f'({min(ratios):.2f} to {max(ratios):.2f})')
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--turns', type=int, default=5)
    parser.add_argument('--batches', default='1,32')
    parser.add_argument('--isa')
    parser.add_argument('--bin', type=pathlib.Path, default=ROOT / 'build/release/bin')
    parser.add_argument('recipes', nargs='*', default=['resnet50_imagenet', 'resnet18_cifar10', 'mobilenet_v2_imagenet', 'vit_tiny_imagenet',
                                                       'fashion_mnist_cnn', 'fashion_mnist_mlp'])
    given = parser.parse_args()
    if given.isa:
        os.environ['ONEDNN_MAX_CPU_ISA'] = given.isa
    for recipe in given.recipes:
        overrides = [*SETTINGS, 'data={format: synthetic}']
        wide = Network(given.bin, ROOT / 'configs' / f'{recipe}.yaml', overrides)
        try:
            narrow, told = quantised(wide, overrides)
        except subprocess.CalledProcessError as problem:
            print(f'{recipe}: {problem.stderr.strip().splitlines()[-1]}', flush=True)
            continue
        sizes = [os.path.getsize(network.weights) for network in (narrow, wide)]
        print(f'{recipe}: {told.rpartition("/")[2]}; {sizes[0] / sizes[1]:.3f} of the bytes', flush=True)
        for batch in map(int, given.batches.split(',')):
            print(f'  {compare(str(given.bin / "trainer"), wide, narrow, batch, given.turns, not given.isa)}', flush=True)


if __name__ == '__main__':
    main()

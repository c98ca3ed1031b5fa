#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares prediction here with onnxruntime on the exported model: f32, two threads, random weights, in turns.

    scripts/setup.sh --tests
    build/onnx/bin/python scripts/bench/inference.py [--turns 5] [--batches 1,32] [RECIPE...]

Each turn measures both programs, one after the other: the median of some runs after a warm-up. Printed are the medians of the turns and
the ratio with its range; above 1 this program is faster. Nothing else may run meanwhile.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts/export'))

import onnx  # noqa: E402
import onnxruntime  # noqa: E402

from compare import Network  # noqa: E402

THREADS, WARM_UP = 2, 5
SETTINGS = ['training.precision=fp32', 'device.type=cpu', f'device.threads={THREADS}']


def ours(trainer, network, batch, runs):
    """Seconds of a batch."""
    command = [trainer, 'time', '--config', network.recipe, '--purpose', 'predict', '--batch', str(batch), '--iterations', str(runs), '--json',
               *network.overrides]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return told['timings'][0]['seconds']['p50']


class OnnxRuntime:
    def __init__(self, path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])

    def seconds(self, name, values, runs):
        spent = []
        for run in range(WARM_UP + runs):
            begin = time.perf_counter()
            self.session.run(None, {name: values})
            if run >= WARM_UP:
                spent.append(time.perf_counter() - begin)
        return statistics.median(spent)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--turns', type=int, default=5)
    parser.add_argument('--batches', default='1,32')
    parser.add_argument('--bin', type=pathlib.Path, default=ROOT / 'build/release/bin')
    parser.add_argument('recipes', nargs='*', default=['resnet18_cifar10', 'resnet50_imagenet', 'mobilenet_v2_imagenet', 'fashion_mnist_cnn',
                                                       'fashion_mnist_mlp', 'vit_tiny_imagenet', 'gpt_char_bible'])
    given = parser.parse_args()
    for name in given.recipes:
        network = Network(given.bin, ROOT / 'configs' / f'{name}.yaml', SETTINGS)
        path = network.export()
        model, theirs = onnx.load(path), OnnxRuntime(path)
        for batch in map(int, given.batches.split(',')):
            runs = max(5, 40 // batch)
            input_name, values = network.inputs(model, batch)
            pairs = [(ours(str(given.bin / 'trainer'), network, batch, runs), theirs.seconds(input_name, values, runs))
                     for _ in range(given.turns)]
            ratios = [other / own for own, other in pairs]
            own, other = (1e3 * statistics.median(times) for times in zip(*pairs))
            print(f'{name}, batch {batch}: {own:.2f} ms, onnxruntime {other:.2f} ms, {statistics.median(ratios):.2f} times as fast '
                  f'({min(ratios):.2f} to {max(ratios):.2f})', flush=True)


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares prediction here with onnxruntime and OpenVINO on the exported model: f32, two threads, random weights, in turns.

    scripts/setup.sh --tests --bench
    build/openvino/bin/python scripts/bench/inference.py [--turns 5] [--batches 1,32] [--processes] [RECIPE...]

Each turn measures all programs, one after the other: the median of some runs after a warm-up. Printed are the medians of the turns and
the ratio with its range; above 1 this program is faster. With --processes it measures whole processes instead, which answer once and end:
the time to the end and the peak of resident memory. Ours decodes an image file for that; the others get zeros. The recipe must be one of
images. Nothing else may run meanwhile.
"""
import argparse
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts/export'))

import onnx  # noqa: E402
from compare import Network  # noqa: E402
from inference_peers import PEERS, THREADS  # noqa: E402

WARM_UP = 5
SETTINGS = ['training.precision=fp32', 'device.type=cpu', f'device.threads={THREADS}']


def ours(trainer, network, batch, runs):
    """Seconds of a batch."""
    command = [trainer, 'time', '--config', network.recipe, '--purpose', 'predict', '--batch', str(batch), '--iterations', str(runs), '--json',
               *network.overrides]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return told['timings'][0]['seconds']['p50']


def seconds(compute, name, values, runs):
    spent = []
    for run in range(WARM_UP + runs):
        begin = time.perf_counter()
        compute(name, values)
        if run >= WARM_UP:
            spent.append(time.perf_counter() - begin)
    return statistics.median(spent)


def compare_batches(network, name, path, given, turns, batches):
    model, peers = onnx.load(path), {peer: prepare(path) for peer, prepare in PEERS.items()}
    for batch in batches:
        runs = max(5, 40 // batch)
        input_name, values = network.inputs(model, batch)
        turns_of = [[ours(given, network, batch, runs)] + [seconds(compute, input_name, values, runs) for compute in peers.values()]
                    for _ in range(turns)]
        report(f'{name}, batch {batch}', turns_of, 1e3, 'ms')


def report(title, turns, factor, unit):
    """Of turns, each with our figure and then the peers'."""
    own, *others = (factor * statistics.median(column) for column in zip(*turns))
    text = f'{title}: {own:.2f} {unit}'
    for column, (peer, other) in enumerate(zip(PEERS, others), 1):
        ratios = [turn[column] / turn[0] for turn in turns]
        text += f'; {peer} {other:.2f} {unit}, {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})'
    print(text, flush=True)


# A small process of its own: a child's peak includes what its parent had when it was forked.
MEASURE = """
import os, resource, sys, time
begin = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
status = os.waitpid(child, 0)[1]
print(status, time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def spend(command):
    """Seconds and the peak of resident memory in MiB of a process."""
    measured = subprocess.run([sys.executable, '-I', '-S', '-c', MEASURE, *command], check=True, stdout=subprocess.PIPE, text=True)
    status, spent, peak = map(float, measured.stdout.split())
    assert status == 0, f'{command} ended with {status}'
    return spent, peak / 1024


def write_bmp(path, size):
    """A square image."""
    header = struct.pack('<2sIHHIIiiHHIIiiII', b'BM', 54 + 4 * size * size, 0, 0, 54, 40, size, size, 1, 32, 0, 0, 0, 0, 0, 0)
    path.write_bytes(header + bytes(index * 37 % 251 for index in range(4 * size * size)))


def compare_processes(network, name, path, given, turns):
    model = onnx.load(path, load_external_data=False).graph.input[0]
    sizes = [dim.dim_value or 1 for dim in model.type.tensor_type.shape.dim]
    image = pathlib.Path(network.folder.name) / 'image.bmp'
    write_bmp(image, max(sizes))
    commands = [[given, 'predict', '--config', network.recipe, '--weights', network.weights, '--as-written', '--batch', '1', str(image),
                 *network.overrides]]
    program = str(pathlib.Path(__file__).with_name('inference_peers.py'))
    commands += [[sys.executable, program, peer, path, model.name, *map(str, sizes)] for peer in PEERS]
    for command in commands:
        spend(command)  # the files are in the page cache then
    spent = [[spend(command) for command in commands] for _ in range(turns)]
    report(f'{name}, to the end of the process', [[time_and_peak[0] for time_and_peak in turn] for turn in spent], 1e3, 'ms')
    report(f'{name}, peak memory', [[time_and_peak[1] for time_and_peak in turn] for turn in spent], 1, 'MiB')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--turns', type=int, default=5)
    parser.add_argument('--batches', default='1,32')
    parser.add_argument('--processes', action='store_true')
    parser.add_argument('--bin', type=pathlib.Path, default=ROOT / 'build/release/bin')
    parser.add_argument('recipes', nargs='*', default=['resnet18_cifar10', 'resnet50_imagenet', 'mobilenet_v2_imagenet', 'fashion_mnist_cnn',
                                                       'fashion_mnist_mlp', 'vit_tiny_imagenet', 'gpt_char_bible'])
    given = parser.parse_args()
    trainer = str(given.bin / 'trainer')
    for name in given.recipes:
        network = Network(given.bin, ROOT / 'configs' / f'{name}.yaml', SETTINGS)
        path = network.export()
        if given.processes:
            compare_processes(network, name, path, trainer, given.turns)
        else:
            compare_batches(network, name, path, trainer, given.turns, map(int, given.batches.split(',')))


if __name__ == '__main__':
    main()

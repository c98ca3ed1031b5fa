#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the shares of a device's rates by which `trainer plan` predicts times with published results for ResNet-50 on an
H100: the same shares, the same gap between kernels, their kernels.

  PyTorch, AMP, eager, NCHW       2,791 images/s   lambdal/deeplearning-benchmark, pytorch-train-throughput-v2-fp16.csv
  MXNet of MLPerf Training 4.0    7,156 images/s   mlcommons/training_results_v4.0, NVIDIA, eos_ngc24.04_mxnet, a GPU of eight

Usage: published.py TRAINER. Fails if a prediction is more than a fifth off. The program's own is printed beside PyTorch's
kernels and claims nothing: those of PyTorch and MXNet are known from their sources, not from a profile.
"""
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OFF = 0.20
HALF = 2  # bytes of an activation and of a weight as it is multiplied


def convolutions():
    """(input elements of an image, output elements, weights, FLOPs forward, whether a residual sum follows) of ResNet-50 v1.5."""
    def convolution(inputs, size, outputs, after, kernel, ends=False):
        weights = inputs * outputs * kernel ** 2
        return inputs * size ** 2, outputs * after ** 2, weights, 2 * weights * after ** 2, ends

    found = [convolution(3, 224, 64, 112, 7)]
    channels, size = 64, 56
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            after = size // (2 if block == 0 and width > 64 else 1)
            found += [convolution(channels, size, width, size, 1), convolution(width, size, width, after, 3),
                      convolution(width, after, 4 * width, after, 1, ends=True)]
            if block == 0:
                found.append(convolution(channels, size, 4 * width, after, 1))
            channels, size = 4 * width, after
    return found


class Step:
    """Adds up kernels of (bytes, FLOPs)."""

    def __init__(self, rates, shares, batch):
        self.rates, self.shares, self.batch, self.seconds, self.bytes, self.kernels = rates, shares, batch, 0, 0, 0

    def kernel(self, elements_of_image=0, flops_of_image=0, weights_bytes=0):
        moved = self.batch * elements_of_image * HALF + weights_bytes
        self.seconds += max(moved / (self.rates['memoryBytesPerSecond'] * self.shares['share_of_memory_rate']),
                            self.batch * flops_of_image / (self.rates['f16FlopsPerSecond'] * self.shares['share_of_arithmetic_rate']))
        self.seconds += self.shares['seconds_per_kernel']
        self.bytes += moved
        self.kernels += 1

    def images_per_second(self):
        return self.batch / self.seconds


def pytorch(step):
    """Eager, images with their channels first: cuDNN's kernels for tensor cores need them last, so each product is put between
    transpositions of its images. Normalisation reads twice, relu and the residual sum are kernels of their own."""
    for x, y, w, flops, ends in convolutions():
        step.kernel(weights_bytes=6 * w)
        for a, b in ((x, y), (y, x)):  # forward, data's gradient
            step.kernel(2 * a)
            step.kernel(a + b, flops, HALF * w)
            step.kernel(2 * b)
        step.kernel(2 * x)
        step.kernel(2 * y)
        step.kernel(x + y, flops, HALF * w)
        step.kernel(weights_bytes=6 * w)
        for walk in (y, 2 * y, 2 * y, 3 * y):  # batch norm: forward, backward
            step.kernel(walk)
        for walk in (2 * y, 3 * y):  # relu
            step.kernel(walk)
        if ends:
            step.kernel(3 * y)
            step.kernel(3 * y)
        step.kernel(weights_bytes=5 * 4 * w)


def mlperf(step):
    """Channels last; a convolution also outputs statistics, normalisation and relu come before the next one. Their gradient's sums
    are outputs of the data's gradient, and one pass computes the gradient from them. Residual sums are passes of their own."""
    for x, y, w, flops, ends in convolutions():
        step.kernel(x + y, flops, HALF * w)
        step.kernel(x + 2 * y, flops, HALF * w)  # the data's gradient, which also reads relu's and normalisation's x
        step.kernel(x + y, flops, HALF * w)
        step.kernel(3 * y)  # the gradient from its sums
        if ends:
            step.kernel(3 * y)
            step.kernel(3 * y)
    step.kernel(weights_bytes=25_500_000 * 5 * 4)


def main():
    trainer = sys.argv[1]
    planned = json.loads(subprocess.run(
        [trainer, 'plan', '--json', '--config', ROOT / 'configs/resnet50_imagenet.yaml', 'device.type=cuda', 'device.model=h100',
         'training.precision=amp_fp16', 'training.global_batch_size=256', 'training.micro_batch_size=256'],
        check=True, capture_output=True, text=True).stdout)['predicted']
    rates = json.loads((ROOT / 'configs/devices/h100.json').read_text())['rates']
    failed = False
    found = {}
    for name, kernels, batch, published in (('PyTorch', pytorch, 256, 2791), ('MLPerf', mlperf, 400, 7156)):
        step = Step(rates, planned, batch)
        kernels(step)
        found[name] = step.images_per_second()
        off = found[name] / published - 1
        failed |= abs(off) > OFF
        print(f'{name}: {step.kernels} kernels, {step.bytes / batch / 1e6:.0f} MB an image; predicted {found[name]:.0f} images/s, '
              f'published {published}: {off:+.0%}')
    ours = planned['samples_per_second']
    print(f'ours: {planned["kernels"]} kernels, {planned["bytes"] / 256 / 1e6:.0f} MB an image; predicted {ours:.0f} images/s, '
          f'{ours / found["PyTorch"]:.2f} times PyTorch\'s kernels')
    sys.exit(failed)


if __name__ == '__main__':
    main()

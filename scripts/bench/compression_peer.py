#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of scripts/bench/compression.py: trains the shipped CNN on from given weights, made smaller by PyTorch's own tools, and prints
its share of right answers on all test images.

  compression_peer.py WEIGHTS [--sparsity 0.8 [--scope layer] | --pattern 2:4 | --keep 0.6 | --qat] [--epochs 2] [--seed 1]

--keep removes channels with Torch-Pruning. Needs PyTorch, numpy, and torch-pruning (1.6.1) for that.
"""
import argparse
import gzip
import json
import math
import struct
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.ao import quantization
from torch.nn.utils import prune

DATA = Path('/usr/share/datasets/fashion-mnist')


def images(split):
    pixels = np.frombuffer(gzip.open(DATA / f'{split}-images-idx3-ubyte.gz').read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    labels = np.frombuffer(gzip.open(DATA / f'{split}-labels-idx1-ubyte.gz').read(), np.uint8, offset=8)
    return (torch.tensor(pixels).float() / 255 - 0.2860) / 0.3530, torch.tensor(labels).long()


def read_weights(path):
    """A safetensors file of f32."""
    data = Path(path).read_bytes()
    length, = struct.unpack('<Q', data[:8])
    header = json.loads(data[8:8 + length])
    header.pop('__metadata__', None)
    at = 8 + length
    return {name: torch.tensor(np.frombuffer(data[at + about['data_offsets'][0]:at + about['data_offsets'][1]], '<f4').reshape(about['shape']).copy())
            for name, about in header.items()}


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(64 * 12 * 12, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = F.dropout(x, 0.25, self.training).flatten(1)
        return self.fc2(F.dropout(F.relu(self.fc1(x)), 0.5, self.training))


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return sum((model(part).argmax(1) == labels).sum().item() for part, labels in zip(x.split(1000), y.split(1000))) / len(y)


def layers_of(model):
    return [module for module in model.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]


def prune_to(model, share, scope):
    for layer in layers_of(model):
        if prune.is_pruned(layer):
            prune.remove(layer, 'weight')
    if scope == 'global':
        prune.global_unstructured([(layer, 'weight') for layer in layers_of(model)], prune.L1Unstructured, amount=share)
        return
    for layer in layers_of(model):
        prune.l1_unstructured(layer, 'weight', amount=share)


def prune_two_of_four(model):
    """PyTorch has no tool for that: masks as NVIDIA's makes them, applied by PyTorch's."""
    for layer in layers_of(model):
        weight = layer.weight.detach()
        if weight.shape[1] % 4:
            continue
        groups = weight.transpose(0, 1).reshape(weight.shape[1] // 4, 4, -1)
        mask = torch.zeros_like(groups).scatter_(1, groups.abs().topk(2, 1).indices, 1)
        prune.custom_from_mask(layer, 'weight', mask.reshape(weight.transpose(0, 1).shape).transpose(0, 1))


def remove_channels(model, keep):
    import torch_pruning
    example = torch.zeros(1, 1, 28, 28)
    pruner = torch_pruning.pruner.MagnitudePruner(
        model.eval(), example, importance=torch_pruning.importance.MagnitudeImportance(p=1), pruning_ratio=1 - keep, round_to=8,
        ignored_layers=[model.fc2])
    pruner.step()
    return torch_pruning.utils.count_ops_and_params(model, example)[0]


class Rounded(nn.Module):
    """PyTorch's own quantisation while training, with its settings for x86. It needs each function as a module."""

    def __init__(self, model):
        super().__init__()
        self.layers = nn.Sequential(
            quantization.QuantStub(), nn.Sequential(model.conv1, nn.ReLU()), nn.Sequential(model.conv2, nn.ReLU()), nn.MaxPool2d(2),
            nn.Dropout(0.25), nn.Flatten(), nn.Sequential(model.fc1, nn.ReLU()), nn.Dropout(0.5), model.fc2, quantization.DeQuantStub())

    def forward(self, x):
        return self.layers(x)


def rounded(model):
    made = Rounded(model).train()
    made.qconfig = quantization.get_default_qat_qconfig('x86')
    for name in ('1', '2', '6'):
        made = quantization.fuse_modules_qat(made, [f'layers.{name}.0', f'layers.{name}.1'])
    return quantization.prepare_qat(made)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('weights')
    parser.add_argument('--sparsity', type=float)
    parser.add_argument('--pattern', choices=['unstructured', '2:4'], default='unstructured')
    parser.add_argument('--scope', choices=['global', 'layer'], default='global')
    parser.add_argument('--keep', type=float)
    parser.add_argument('--qat', action='store_true')
    parser.add_argument('--epochs', type=int, default=2)
    parser.add_argument('--batch', type=int, default=128)
    parser.add_argument('--lr', type=float, default=0.01)
    parser.add_argument('--every', type=int, default=50)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--threads', type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    model = LeNet()
    model.load_state_dict(read_weights(options.weights))
    x, y = images('train')
    per_epoch = len(x) // options.batch
    steps, end = options.epochs * per_epoch, per_epoch
    if options.pattern == '2:4':
        prune_two_of_four(model)
    work = remove_channels(model, options.keep) if options.keep else None
    model = rounded(model) if options.qat else model
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9, weight_decay=5e-4)
    for step in range(steps):
        if options.pattern != '2:4' and options.sparsity and step <= end and (step % options.every == 0 or step == end) and step > 0:
            prune_to(model, options.sparsity * (1 - (1 - step / end) ** 3), options.scope)  # the parameters stay the same objects
        if step % per_epoch == 0:
            order = torch.randperm(len(x))
        for group in optimizer.param_groups:
            group['lr'] = options.lr * (1 + math.cos(math.pi * step / steps)) / 2
        chosen = order[step % per_epoch * options.batch:][:options.batch]
        batch = x[chosen]
        flipped = torch.rand(len(chosen)) < 0.5
        batch[flipped] = batch[flipped].flip(3)
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(batch), y[chosen]).backward()
        optimizer.step()
    answer = quantization.convert(model.eval()) if options.qat else model
    print(json.dumps({'multiply_adds': work, 'top1': accuracy(answer, *images('t10k'))}))


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Noise removed from Fashion-MNIST: our network, the same in PyTorch, and filters with their best settings.

  denoise.py TRAINER [--std 25 50] [--epochs 3] [--images 2000] [--twins 1]

Prints the peak signal-to-noise ratio of each, the mean over test images, where black is 0 and white 255. All remove Gaussian noise that was cut
at black and white. Filters read bytes, as `trainer` gives them; their settings are chosen on the images that they are measured on. Last, the
ratios of our network in micro-batches of other sizes.

Needs numpy, torch, scipy, opencv-python-headless, and bm3d (4.0.3) for its row.
"""
import argparse
import gzip
import itertools
import json
import math
import subprocess
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / 'configs/denoise_fashion_mnist.yaml'
DATA = Path('/usr/share/datasets/fashion-mnist')


def images_of(split):
    pixels = gzip.open(DATA / f'{split}-images-idx3-ubyte.gz').read()
    return np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 28, 28)


def psnr(a, b):
    """Of bytes or numbers from 0 to 255, the mean over the images."""
    errors = ((a.astype(np.float64) - b.astype(np.float64)) ** 2).mean(axis=(1, 2))
    return float((10 * np.log10(255 ** 2 / np.maximum(errors, 255 ** 2 * 1e-10))).mean())


def filters(std):
    """Name, setting, and a function of an image of bytes."""
    for side in [3, 5]:
        yield 'median', f'size {side}', lambda x, s=side: cv2.medianBlur(x, s)
    for sigma in [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2]:
        yield 'gaussian', f'sigma {sigma}', lambda x, s=sigma: cv2.GaussianBlur(x, (0, 0), s)
    for color, space in itertools.product([0.8, 1.2, 1.6, 2, 2.5, 3, 4, 6], [0.6, 0.8, 1.0, 1.5, 2.0]):
        yield ('bilateral', f'sigma_color {color * std:g}, sigma_space {space}',
               lambda x, c=color * std, s=space: cv2.bilateralFilter(x, 0, c, s))
    try:
        import bm3d
    except ImportError:
        return
    for factor in [0.7, 0.85, 1.0]:
        yield ('bm3d', f'sigma {factor * std:g}',
               lambda x, s=factor * std: bm3d.bm3d(x.astype(np.float32), s).clip(0, 255))


def measure_filters(std, count):
    clean = images_of('t10k')[:count]
    noisy = np.random.default_rng(1).normal(clean, std).clip(0, 255).round().astype(np.uint8)
    print(f'std {std}: noisy {psnr(noisy, clean):.2f} dB')
    best = {}
    for name, setting, apply in filters(std):
        few = slice(0, 200) if name == 'bm3d' else slice(None)
        found = psnr(np.stack([apply(image) for image in noisy[few]]), clean[few])
        best[name] = max(best.get(name, (-math.inf, '')), (found, setting))
    for name, (found, setting) in best.items():
        print(f'std {std}: {name} {found:.2f} dB ({setting})', flush=True)


def train_ours(trainer, std, epochs, folder):
    words = [trainer, '--config', RECIPE, f'model.layers[0].noise.gaussian={std}', f'training.max_duration={epochs}ep',
             f'run.output_dir={folder}/{std}']
    subprocess.run(words, check=True, capture_output=True)
    found = {}
    for rows in [None, 1, 7, 1000]:
        sizes = [] if rows is None else [f'training.global_batch_size={rows}', f'training.micro_batch_size={rows}']
        text = subprocess.run([trainer, 'eval', f'{folder}/{std}', '--json', *sizes], check=True, capture_output=True, text=True).stdout
        found[rows] = json.loads(text)['psnr']
    print(f'std {std}: ours {found[None]:.3f} dB; of micro-batches of 1, 7 and 1000: '
          f'{max(abs(value / found[None] - 1) for value in found.values()):.1e} apart', flush=True)


def twin():
    layers = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
              nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 1, 3, padding=1)]
    return nn.Sequential(*layers)


def train_twin(std, epochs, seed):
    torch.manual_seed(seed)
    train, test = (torch.tensor(images_of(split)).float()[:, None] / 255 for split in ['train', 't10k'])
    noisy = lambda x: (x + std / 255 * torch.randn_like(x)).clamp(0, 1)
    model, rows, warmup, peak = twin(), 64, 100, 2e-3
    optimizer = torch.optim.Adam(model.parameters(), lr=peak)
    steps = epochs * (len(train) // rows)
    for step in range(steps):
        if step % (len(train) // rows) == 0:
            order = torch.randperm(len(train))
        x = train[order[step % (len(train) // rows) * rows:][:rows]]
        rate = min(1, (step + 1) / warmup) if step < warmup else (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2
        optimizer.param_groups[0]['lr'] = peak * rate
        read = noisy(x)
        loss = ((read + model(read) - x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        restored = torch.cat([read + model(read) for read in noisy(test).split(500)])
    print(f'std {std}: PyTorch {psnr(255 * restored[:, 0].numpy(), 255 * test[:, 0].numpy()):.3f} dB (seed {seed})', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('trainer')
    parser.add_argument('--std', type=int, nargs='+', default=[25, 50])
    parser.add_argument('--epochs', type=int, default=3)
    parser.add_argument('--images', type=int, default=2000, help='for the filters')
    parser.add_argument('--twins', type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        for std in options.std:
            measure_filters(std, options.images)
            train_ours(Path(options.trainer).resolve(), std, options.epochs, folder)
            for seed in range(options.twins):
                train_twin(std, options.epochs, seed + 1)


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/denoising.md: Fashion-MNIST with noise, and what each filter makes of it.

  filter_pictures.py [FOLDER]     (default: docs)

Rows are images, columns the clean image, the noisy one, and the filters `median`, `gaussian` and `bilateral`, computed by OpenCV, whose results
the tests compare ours with. Needs numpy and opencv-python-headless.
"""
import gzip
import sys
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
IMAGES = Path('/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz')
CHOSEN = [0, 6, 8, 19]  # a boot, a coat, a sandal, a shirt
SCALE, GAP = 3, 6


def gaussian_noise(random, image):
    return np.clip(np.round(random.normal(image, 25)), 0, 255).astype(np.uint8)


def salt_and_pepper(random, image):
    draw = random.random(image.shape)
    return np.where(draw < 0.05, 0, np.where(draw < 0.1, 255, image)).astype(np.uint8)


def columns(clean, noisy):
    return [clean, noisy, cv2.medianBlur(noisy, 3), cv2.GaussianBlur(noisy, (0, 0), 0.7), cv2.bilateralFilter(noisy, 0, 60, 1.0)]


def draw(path, images, add_noise):
    random = np.random.default_rng(3)
    rows = []
    for image in images:
        cells = [np.kron(cell, np.ones((SCALE, SCALE), np.uint8)) for cell in columns(image, add_noise(random, image))]
        rows.append(np.hstack([np.pad(cell, GAP, constant_values=255) for cell in cells]))
    cv2.imwrite(str(path), np.vstack(rows), [cv2.IMWRITE_PNG_COMPRESSION, 9])
    print(f'{path.name}: {path.stat().st_size} bytes')


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / 'docs'
    pixels = np.frombuffer(gzip.open(IMAGES).read(), np.uint8, offset=16).reshape(-1, 28, 28)
    draw(folder / 'filters-gaussian.png', pixels[CHOSEN], gaussian_noise)
    draw(folder / 'filters-salt-and-pepper.png', pixels[CHOSEN], salt_and_pepper)


if __name__ == '__main__':
    main()

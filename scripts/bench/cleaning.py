#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes planted in Fashion-MNIST, and how many of them `trainer data check` finds.

  cleaning.py TRAINER [--duplicates 200] [--compressed 100] [--quality 75] [--wrong 3000] [--epochs 3] [--seed 1]

- The data as they are: equal images and images that look alike.
- Copies of training images among those of training and validation: all must be found, and no others.
- Images compressed again by JPEG: pairs with their originals, and pairs of such an image with any other.
- Wrong labels: of two runs that train on one half each, the precision among as many suspects as labels are wrong. If cleanlab is there, its
  ranking of the same probabilities (self_confidence) must be ours.

Needs numpy and opencv-python-headless; cleanlab (2.9.0) for its ranking. Exit code 1 if planted mistakes are missed.
"""
import argparse
import gzip
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np

DATA = Path('/usr/share/datasets/fashion-mnist')
RECIPE = '''version: 1
run: {name: clean, seed: 1}
model:
  input: [1, 28, 28]
  layers:
    - conv2d: {out_channels: 16, kernel_size: 3, padding: 1}
    - relu
    - max_pool2d: {kernel_size: 2, stride: 2}
    - conv2d: {out_channels: 32, kernel_size: 3, padding: 1}
    - relu
    - max_pool2d: {kernel_size: 2, stride: 2}
    - flatten
    - linear: 128
    - relu
    - linear: 10
data: {format: idx, train: train, val: t10k}
training: {max_duration: 3ep, global_batch_size: 64}
optimizer: {name: adam, lr: 0.001}
'''


def load(split):
    images = np.frombuffer(gzip.open(DATA / f'{split}-images-idx3-ubyte.gz').read(), np.uint8, offset=16).reshape(-1, 28, 28)
    return images.copy(), np.frombuffer(gzip.open(DATA / f'{split}-labels-idx1-ubyte.gz').read(), np.uint8, offset=8).copy()


class Set:
    """Fashion-MNIST in a folder of its own, which a check may change."""

    def __init__(self, folder, trainer):
        self.folder, self.trainer = Path(folder), trainer
        self.folder.mkdir()
        self.parts = {'train': load('train'), 't10k': load('t10k')}

    def write(self):
        (self.folder / 'r.yaml').write_text(RECIPE)
        for split, (images, labels) in self.parts.items():
            (self.folder / f'{split}-images-idx3-ubyte').write_bytes(struct.pack('>4I', 0x803, len(images), 28, 28) + images.tobytes())
            (self.folder / f'{split}-labels-idx1-ubyte').write_bytes(struct.pack('>2I', 0x801, len(labels)) + labels.tobytes())

    def add(self, split, images, labels):
        """Returns the numbers of the images that come last."""
        old, old_labels = self.parts[split]
        self.parts[split] = np.concatenate([old, images]), np.concatenate([old_labels, labels])
        return range(len(old), len(old) + len(images))

    def run(self, *words):
        return subprocess.run([self.trainer, *map(str, words)], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def check(self, *words):
        return json.loads(self.run('data', 'check', '--json', *words))


def samples(row):
    return frozenset((sample['split'], int(sample['sample'])) for sample in row['samples'])


def check_duplicates(data, random, count):
    images, labels = data.parts['train']
    originals = random.choice(len(images), count, replace=False)
    half = count // 2
    copies = [('train', i) for i in data.add('train', images[originals[:half]], labels[originals[:half]])]
    copies += [('val', i) for i in data.add('t10k', images[originals[half:]], labels[originals[half:]])]
    data.write()
    found = {samples(row) for row in data.check('--config', 'r.yaml')['exact_duplicates']}
    planted = {frozenset([('train', int(original)), copy]) for original, copy in zip(originals, copies)}
    print(f'{count} copies planted: {len(found & planted)} found, {len(found - planted)} others', flush=True)
    return found == planted


def check_compressed(data, random, count, quality):
    images, labels = data.parts['train']
    originals = random.choice(len(images), count, replace=False)
    again = [cv2.imdecode(cv2.imencode('.jpg', images[i], [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_GRAYSCALE) for i in originals]
    places = data.add('train', np.stack(again), labels[originals])
    data.write()
    new = {('train', place) for place in places}
    rows = {samples(row) for row in data.check('--config', 'r.yaml')['near_duplicates']}
    touching = {row for row in rows if row & new}
    planted = {frozenset([('train', int(original)), ('train', place)]) for original, place in zip(originals, places)}
    false = len(touching - planted)
    print(f'{count} images compressed again (JPEG {quality}): {len(touching & planted)} found, {false} false pairs, '
          f'{100 * false / max(len(touching), 1):.1f} %', flush=True)
    return len(touching & planted) >= 0.95 * count and false <= 0.01 * len(touching)


def check_labels(data, random, count, epochs):
    images, labels = data.parts['train']
    wrong = random.choice(len(images), count, replace=False)
    labels[wrong] = (labels[wrong] + random.integers(1, 10, count)) % 10
    data.write()
    runs = []
    for seed in [1, 2]:
        data.run('--config', 'r.yaml', 'data.val=null', 'data.val_fraction=0.5', f'run.seed={seed}', f'run.output_dir=half{seed}',
                 f'training.max_duration={epochs}ep')
        runs += ['--run', f'half{seed}']
    judged = data.check('--suspects', 10**9, *runs)['suspects']
    bad = {int(i) for i in wrong} & {int(row['sample']) for row in judged}
    first = {int(row['sample']) for row in judged[:len(bad)]}
    print(f'{count} wrong labels, {len(bad)} of them judged among {len(judged)} samples: precision {len(first & bad) / len(bad):.3f} among the first '
          f'{len(bad)}', flush=True)
    return compare_ranking(data)


def compare_ranking(data):
    """One run's ranking beside cleanlab's."""
    try:
        from cleanlab.rank import get_label_quality_scores, order_label_issues
    except ImportError:
        print('cleanlab is not there: its ranking is not compared')
        return True
    ours = data.check('--suspects', 10**9, '--run', 'half1')['suspects']
    lines = [json.loads(line) for line in data.run('predict', 'half1', '--all', '--format', 'jsonl').splitlines()]
    # predict numbers the samples of the split, data check those of the file, both ascending.
    numbers = sorted(int(row['sample']) for row in ours)
    labels = np.array([line['label'] for line in lines])
    probabilities = np.array([line['probabilities'] for line in lines])
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    scores = get_label_quality_scores(labels, probabilities, method='self_confidence')
    theirs = order_label_issues(np.ones(len(labels), bool), labels, probabilities, rank_by='self_confidence')
    rank = {numbers[place]: i for i, place in enumerate(theirs)}
    # Printed probabilities are rounded, so that equal ones may come in any order.
    by_number = dict(zip(numbers, scores))
    moved = [row for i, row in enumerate(ours) if abs(by_number[int(row['sample'])] - by_number[numbers[theirs[i]]]) > 1e-6]
    print(f'cleanlab: {len(ours) - len(moved)} of {len(ours)} samples have its rank, the first is number {rank[int(ours[0]["sample"])] + 1} there')
    return not moved


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('trainer', type=lambda path: Path(path).resolve())
    for name, default in [('duplicates', 200), ('compressed', 100), ('quality', 75), ('wrong', 3000), ('epochs', 3), ('seed', 1)]:
        parser.add_argument(f'--{name}', type=int, default=default)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        fresh = lambda name: Set(Path(folder) / name, options.trainer)
        data = fresh('plain')
        data.write()
        report = data.check('--config', 'r.yaml')
        print(', '.join(f'{key} {len(rows)}' for key, rows in report.items() if isinstance(rows, list)), flush=True)
        well = [check_duplicates(fresh('copies'), random, options.duplicates),
                check_compressed(fresh('compressed'), random, options.compressed, options.quality),
                check_labels(fresh('labels'), random, options.wrong, options.epochs)]
    sys.exit(0 if all(well) else 1)


if __name__ == '__main__':
    main()

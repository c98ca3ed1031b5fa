#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs images with the program and reads the shards with the Python package webdataset: the same files under ascending keys, with
the labels of their folders. Run by a Python that has the package (scripts/setup.sh --tests).
Usage: read_back.py TRAINER
"""

import pathlib
import subprocess
import sys
import tempfile

import webdataset

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "trials"))
from recipes import png  # noqa: E402

RECIPE = """version: 1
model: {input: [3, 8, 8], layers: [flatten, linear: 3]}
data:
  format: image_folder
  train: images
  augment: [random_resized_crop: 8]
training: {max_duration: 1ba, global_batch_size: 1}
optimizer: {name: sgd, lr: 0.1}
"""


def pack(trainer, folder, out, *options):
    words = [trainer, "data", "pack", "--config", "r.yaml", "--format", "webdataset", "--out", out, *options]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def read(folder, pattern):
    return list(webdataset.WebDataset(str(folder / pattern), shardshuffle=False, empty_check=False))


def main(trainer):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "r.yaml").write_text(RECIPE)
        expected = []
        for label, label_name in enumerate(("ant", "bee", "cat")):
            (folder / "images" / label_name).mkdir(parents=True)
            for number in range(3):
                width, height = 9 + number, 10 + label
                row = bytes([0]) + bytes((7 * number + 31 * label + i) % 256 for i in range(3 * width))
                image = png(width, height, height * row)
                (folder / "images" / label_name / f"{number}.png").write_bytes(image)
                expected.append((f"{len(expected):09}", label, image))
        pack(trainer, folder, "shards", "--shard-samples", "4")
        found = read(folder, "shards/train_{000000..000002}.tar")
        assert [(s["__key__"], int(s["cls"]), s["png"]) for s in found] == expected, found
        pack(trainer, folder, "small.tar", "--resize", "6", "--quality", "80")
        found = read(folder, "small.tar")
        assert [(s["__key__"], int(s["cls"])) for s in found] == [row[:2] for row in expected], found
        assert all(s["jpg"].startswith(b"\xff\xd8") and s["jpg"].endswith(b"\xff\xd9") for s in found), found
    print("9 samples, unchanged and as JPEG: read by webdataset as they were written")


if __name__ == "__main__":
    main(str(pathlib.Path(sys.argv[1]).resolve()))

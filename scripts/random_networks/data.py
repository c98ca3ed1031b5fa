# SPDX-License-Identifier: Apache-2.0
"""Small data sets in formats that the program reads, and the batches that it makes of them."""
import struct
import zlib
from dataclasses import dataclass

import torch

from order import batch_of, windows_of


def png(pixels):
    """Of bytes (3, H, W)."""
    height, width = pixels.shape[1:]
    rows = b"".join(b"\0" + bytes(row.T.flatten().tolist()) for row in pixels.transpose(0, 1))
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))  # noqa: E731
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@dataclass
class Images:
    """Bytes (N, C, H, W), and a label for each image, or for each class whether the image has it. One channel goes into IDX files,
    three into a folder of PNG files with a CSV file of labels."""
    pixels: torch.Tensor
    targets: torch.Tensor
    mean: float
    std: float

    def write(self, folder):
        augment = [{"normalize": {"mean": [self.mean], "std": [self.std]}}]
        if self.pixels.shape[1] == 1:
            count, _, height, width = self.pixels.shape
            images = struct.pack(">IIII", 0x803, count, height, width) + bytes(self.pixels.flatten().tolist())
            (folder / "d-images-idx3-ubyte").write_bytes(images)
            (folder / "d-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + bytes(self.targets.tolist()))
            return {"format": "idx", "train": "d", "augment": augment}
        (folder / "d").mkdir()
        sets = self.targets.dim() == 2
        rows = ["file," + (",".join(f"c{c}" for c in range(self.targets.shape[1])) if sets else "label")]
        for i, (pixels, target) in enumerate(zip(self.pixels, self.targets)):
            (folder / f"d/{i:04}.png").write_bytes(png(pixels))
            rows.append(f"{i:04}.png," + (",".join(map(str, target.tolist())) if sets else f"c{target}"))
        (folder / "d/labels.csv").write_text("\n".join(rows) + "\n")
        size = self.pixels.shape[2]
        as_it_is = [{"resize": size}, {"center_crop": size}]  # which says that all images have one size
        return {"format": "image_folder", "train": "d", "labels": "labels.csv", "augment": [*as_it_is, *augment]}

    def batch(self, seed, samples, step, compares_inputs):
        _, chosen = batch_of(seed, len(self.pixels), samples, step)
        inputs = (self.pixels[chosen].double() / 255 - self.mean) / self.std
        return inputs, inputs if compares_inputs else self.targets[chosen]


@dataclass
class Tokens:
    """A stream of tokens and the length of a window."""
    stream: torch.Tensor
    length: int

    def write(self, folder):
        (folder / "d.bin").write_bytes(struct.pack(f"<{len(self.stream)}H", *self.stream.tolist()))
        return {"format": "tokens", "train": "d.bin"}

    def batch(self, seed, samples, step, compares_inputs):
        begins = windows_of(seed, len(self.stream), self.length, samples, step)
        return tuple(torch.stack([self.stream[at + begin:at + begin + self.length] for begin in begins]) for at in (0, 1))


def draw_images(d, samples, channels, classes, has_sets):
    height = d.between(5, 12)
    width = height if channels == 3 else d.between(5, 12)
    pixels = torch.randint(256, (samples, channels, height, width), generator=d.generator)
    if has_sets:
        targets = torch.randint(2, (samples, classes), generator=d.generator)
    else:
        targets = torch.cat([torch.arange(classes), torch.randint(classes, (samples,), generator=d.generator)])[:samples]
    return Images(pixels, targets, d.real(0.3, 0.6), d.real(0.2, 0.6))


def draw_tokens(d, windows, vocabulary):
    length = d.between(3, 9)
    return Tokens(torch.randint(vocabulary, ((windows + 1) * length + d.between(0, 2),), generator=d.generator), length)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/pictures: small WebP and BMP files, each beside the RGB pixels that Pillow reads from it
(NAME.rgb, planar). Needs Pillow and NumPy.
"""

import io
import pathlib
import struct

import numpy as np
from PIL import Image

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "pictures"
HEIGHT, WIDTH = 23, 19


def picture(height=HEIGHT, width=WIDTH):
    """Slopes, an edge and noise."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(5).integers(0, 40, (height, width))
    colours = np.stack([9 * x + noise, 200 - 6 * y, 255 * (x > y)], axis=-1)
    return Image.fromarray(np.clip(colours, 0, 255).astype(np.uint8))


def see_through():
    alpha = np.linspace(0, 255, HEIGHT * WIDTH).reshape(HEIGHT, WIDTH).astype(np.uint8)
    image = picture()
    image.putalpha(Image.fromarray(alpha))
    return image


def put(name, data):
    (FOLDER / name).write_bytes(data)
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    (FOLDER / f"{name}.rgb").write_bytes(np.ascontiguousarray(pixels.transpose(2, 0, 1)).tobytes())


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def webp():
    put("lossy.webp", saved(picture(), "WEBP", quality=60))
    put("larger.webp", saved(picture(45, 70), "WEBP", quality=80))
    put("lossless.webp", saved(picture(), "WEBP", lossless=True))
    put("lossy_alpha.webp", saved(see_through(), "WEBP", quality=60, exact=True))
    put("lossless_alpha.webp", saved(see_through(), "WEBP", lossless=True, exact=True))
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: stands on its right side; Pillow gives the pixels as stored
    put("turned.webp", saved(picture(), "WEBP", lossless=True, exif=exif))
    moving = saved(picture(), "WEBP", save_all=True, append_images=[picture().rotate(90)])
    (FOLDER / "animated.webp").write_bytes(moving)


def bmp_file(bits, rows, palette=b"", height=HEIGHT, compression=0, masks=b"", head=40, colours=0):
    """By hand what Pillow does not write. `rows` are already in the file's order, without padding."""
    data = b"".join(row + b"\0" * (-len(row) % 4) for row in rows)
    offset = 14 + head + len(palette) + (len(masks) if head == 40 else 0)
    if head == 12:
        dib = struct.pack("<IHHHH", 12, WIDTH, height, 1, bits)
    else:
        dib = struct.pack("<IiiHHIIiiII", head, WIDTH, height, 1, bits, compression, len(data), 0, 0, colours, 0)
        dib = (dib + masks).ljust(head, b"\0") if head > 40 else dib + masks
    return struct.pack("<2sIHHI", b"BM", offset + len(data), 0, 0, offset) + dib + palette + data


def packed(indices, bits):
    """Rows of indices, the first in the highest bits."""
    per = 8 // bits
    rows = []
    for row in indices:
        row = list(row) + [0] * (-len(row) % per)
        rows.append(bytes(sum(int(row[i + k]) << (8 - bits * (k + 1)) for k in range(per)) for i in range(0, len(row), per)))
    return rows


def bmp():
    put("rgb24.bmp", saved(picture(), "BMP"))
    put("rgb32.bmp", saved(see_through(), "BMP"))
    put("grey8.bmp", saved(picture().convert("L"), "BMP"))
    put("palette8.bmp", saved(picture().quantize(200), "BMP"))
    put("black_white1.bmp", saved(picture().convert("1"), "BMP"))
    random = np.random.default_rng(6)
    colours = lambda count, size=4: random.integers(0, 256, (count, size)).astype(np.uint8).tobytes()
    put("palette4.bmp", bmp_file(4, packed(random.integers(0, 16, (HEIGHT, WIDTH)), 4), colours(16)))
    put("palette4_of_11.bmp", bmp_file(4, packed(random.integers(0, 11, (HEIGHT, WIDTH)), 4), colours(11), colours=11))
    put("palette1.bmp", bmp_file(1, packed(random.integers(0, 2, (HEIGHT, WIDTH)), 1), colours(2)))
    put("os2_palette8.bmp", bmp_file(8, packed(random.integers(0, 256, (HEIGHT, WIDTH)), 8), colours(256, 3), head=12))
    rows = [random.integers(0, 256, WIDTH * 4).astype(np.uint8).tobytes() for _ in range(HEIGHT)]
    put("downwards24.bmp", bmp_file(24, [row[: WIDTH * 3] for row in rows], height=-HEIGHT))
    put("downwards1.bmp", bmp_file(1, packed(random.integers(0, 2, (HEIGHT, WIDTH)), 1), colours(2), height=-HEIGHT))
    masks = struct.pack("<III", 0xFF000000, 0xFF0000, 0xFF00)
    put("fields32.bmp", bmp_file(32, rows, compression=3, masks=masks))
    masks = struct.pack("<IIII", 0xFF, 0xFF00, 0xFF0000, 0xFF000000)
    put("fields32_v4.bmp", bmp_file(32, rows, compression=3, masks=masks, head=108))


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    webp()
    bmp()
    print(f"{FOLDER.name}: {sum(file.stat().st_size for file in FOLDER.iterdir())} bytes")

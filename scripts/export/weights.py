# SPDX-License-Identifier: Apache-2.0
"""Random weights for a recipe's network, in a safetensors file."""
import json
import re
import struct
import subprocess

import numpy

LINE = re.compile(r"^(parameter|state) @(\S+): f32\[([0-9,]+)\]")


def tensors_of(trainer, recipe, overrides):
    """Names and shapes of the parameters and running statistics."""
    command = [trainer, "plan", "--config", recipe, "--dump", "program:after=forward", *overrides]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = (LINE.match(line) for line in text.splitlines())
    return {match[2]: [int(size) for size in match[3].split(",")] for match in found if match}


def draw(generator, name, shape):
    """Numbers for which activations neither vanish nor grow: matrices keep variances, factors are around 1."""
    if name.endswith("running_var"):
        return generator.uniform(0.5, 1.5, shape)
    if len(shape) == 1 or min(shape) == max(shape) == 1:
        near_one = name.endswith("weight") or "scale" in name
        return generator.uniform(0.5, 1.5, shape) if near_one else generator.normal(0, 0.1, shape)
    inputs = numpy.prod(shape[1:]) if len(shape) > 2 else min(shape[1], shape[0])
    return generator.normal(0, inputs**-0.5, shape)


def write_weights(path, trainer, recipe, overrides=(), seed=1):
    generator = numpy.random.default_rng(seed)
    shapes, header, begin = tensors_of(trainer, recipe, overrides), {}, 0
    for name, shape in shapes.items():
        end = begin + 4 * int(numpy.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes.items():
            file.write(draw(generator, name, shape).astype("<f4").tobytes())

# SPDX-License-Identifier: Apache-2.0
"""What the scripts that write tests/fixtures/*.safetensors share."""

import contextlib
import json
import pathlib
import struct

import numpy as np
import torch

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures"


def save(path, tensors):
    """The safetensors format: length of the header, the header as JSON, the data."""
    header, data = {}, b""
    for key, value in tensors.items():
        array = np.ascontiguousarray(torch.as_tensor(value).detach().numpy(), dtype="<f4")
        header[key] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def write(name, tensors):
    path = FIXTURES / (name + ".safetensors")
    save(path, tensors)
    print(f"{path.name}: {path.stat().st_size} bytes")


def f32(*shape):
    """Numbers that fp32 holds exactly, in double: both sides start from the same values."""
    return torch.randn(*shape).float().double()


@contextlib.contextmanager
def apart():
    """What is drawn within has a seed of its own: additions leave the numbers of everything else as they are."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        yield

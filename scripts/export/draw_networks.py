# SPDX-License-Identifier: Apache-2.0
"""Draws the networks of tests/export/random_networks.jsonl, a recipe in each line, as scripts/random_networks does. Needs PyTorch;
comparing them does not.

    python3 scripts/export/draw_networks.py 50 >tests/export/random_networks.jsonl
"""
import itertools
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / folder) for folder in ("random_networks", "fixtures", "bench")]

import torch  # noqa: E402

import draw  # noqa: E402

TOKENS, CLASSES, LENGTH = 11, 5, 12


def is_exported(d):
    """Whether all windows of adaptive pools have one size."""
    names = list(d.outputs)
    for layer in d.layers:
        for kind, keys in layer.items():
            if kind == "adaptive_avg_pool2d":
                into = d.outputs[names[names.index(keys["name"]) - 1]].shape[2:]
                if any(size % out for size, out in zip(into, keys["output_size"], strict=True)):
                    return False
    return True


def network(seed):
    """Of tokens, of images, or from images to images; nothing if it is not exported."""
    kind = ("tokens", "images", "tokens", "images", "reconstruction")[seed % 5]
    d = draw.Draw(seed, torch.zeros(2, 1))
    if kind == "tokens":
        x = torch.randint(0, TOKENS, (2, LENGTH), generator=d.generator)
    else:
        x = torch.rand(2, d.one_of([1, 3]), d.between(8, 16), d.between(8, 16), generator=d.generator, dtype=torch.float64)
    d.outputs = {"input": x}
    outputs = TOKENS if kind == "tokens" else CLASSES
    if kind == "tokens":
        draw.network_of_tokens(d, outputs)
    elif kind == "images":
        draw.network_of_images(d, outputs)
    else:
        draw.network_of_inputs(d)
    if not is_exported(d):
        return None
    data = {"format": "text", "train": "none.txt", "val": None} if kind == "tokens" else {"format": "synthetic"}
    return {"version": 1, "data": data, "loss": {"name": "mse" if kind == "reconstruction" else "cross_entropy"},
            "model": {"input": [*x.shape[1:]], "input_kind": "tokens" if kind == "tokens" else "pixels", "layers": d.layers},
            "validation": {"metrics": []}}


drawn = filter(None, map(network, itertools.count(1)))
for recipe in itertools.islice(drawn, int(sys.argv[1])):
    print(json.dumps(recipe))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/torchvision.safetensors: logits and short trainings of torchvision's networks.

Weights, statistics and images are drawn from their names by the rule that tests/ops/torchvision_test.cpp has too, so that
the file holds results only. Needs what make_fixtures.py needs.
"""

import math

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from fixture_file import write
from make_fixtures import normal, uniform

SAMPLES, SIDE, CLASSES, STEPS = 4, 64, 1000, 3

# Features of VGG-16's classifier, whose 4096 would be most of the time of its test.
VGG_FEATURES = 256

# Gain: 2 is Kaiming's for relu. MobileNetV3's projections have none, and its logits would reach hundreds.
# Rate of learning: as large as rounding allows; none: not trained, VGG-16 for the time that takes, DenseNet-121 because its
# norms over as few as 16 pixels multiply rounding.
NETWORKS = {
    "vgg16": (2, None),
    "densenet121": (2, None),
    "mobilenet_v3_large": (1.5, 1e-3),
    "efficientnet_b0": (2, 1e-3),
    "convnext_tiny": (2, 1e-3),
}


def drawn(name, shape, gain):
    """Matrices and kernels by Kaiming's rule, fan-in; factors and variances around 1; the others around 0."""
    if len(shape) > 1 and name.endswith(".weight"):
        return normal(name, shape, math.sqrt(gain / math.prod(shape[1:])))
    if name.endswith((".weight", ".running_var", ".layer_scale")):
        return uniform(name, shape, 0.5, 1.5)
    return uniform(name, shape, -0.1, 0.1)


def shipped(name):
    model = getattr(torchvision.models, name)()
    if name == "vgg16":
        layers = model.classifier
        layers[0] = nn.Linear(layers[0].in_features, VGG_FEATURES)
        layers[3] = nn.Linear(VGG_FEATURES, VGG_FEATURES)
        layers[6] = nn.Linear(VGG_FEATURES, CLASSES)
    return model


def network(name, dtype):
    model = shipped(name)
    gain, _ = NETWORKS[name]
    model.load_state_dict({key: value if key.endswith(".num_batches_tracked") else drawn(key, value.shape, gain)
                           for key, value in model.state_dict().items()})
    for module in model.modules():  # nothing random
        if isinstance(module, (nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = 0
    return model.to(dtype)


@torch.no_grad()
def logits_of(model, images):
    return model.eval()(images).double()


def results(name, dtype, threads=2, layout=torch.contiguous_format):
    """Logits of the first weights; with a rate also the loss of each step, and logits of the last weights."""
    images = uniform("images.0", (SAMPLES, 3, SIDE, SIDE), -math.sqrt(3), math.sqrt(3)).to(dtype, memory_format=layout)
    labels = uniform("labels.0", (SAMPLES,), 0, CLASSES).floor().long()
    torch.set_num_threads(threads)
    model, (_, rate) = network(name, dtype).to(memory_format=layout), NETWORKS[name]
    found = {"logits": logits_of(model, images)}
    if rate is None:
        return found
    optimizer, losses = torch.optim.SGD(model.train().parameters(), lr=rate), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return found | {"losses": torch.tensor(losses, dtype=torch.float64), "trained_logits": logits_of(model, images)}


def main():
    out = {}
    for name in NETWORKS:
        exact = results(name, torch.float64)
        narrow = [results(name, torch.float32, threads, layout) for threads in (1, 2)
                  for layout in (torch.contiguous_format, torch.channels_last)]
        for key, value in exact.items():
            spread = max((run[key] - value).abs().max() for run in narrow)
            out[f"{name}/{key}"] = value[:2] if value.dim() == 2 else value
            out[f"{name}/{key}_spread"] = spread.reshape(1)
            print(name, key, "deviation", value.std().item(), "fp32 off by", spread.item())
    write("torchvision", out)


if __name__ == "__main__":
    main()

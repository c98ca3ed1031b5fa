#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/torchvision_tensors.txt: names and shapes of what torchvision's networks hold.

Needs torchvision. One line each: network, name, shape; batches that a norm has seen are left out, nothing reads them.
"""

import pathlib

import torchvision

TARGET = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "torchvision_tensors.txt"
NETWORKS = ["resnet18", "resnet50", "mobilenet_v2"]

lines = []
for network in NETWORKS:
    for name, tensor in getattr(torchvision.models, network)().state_dict().items():
        if not name.endswith(".num_batches_tracked"):
            lines.append(f"{network} {name} {'x'.join(map(str, tensor.shape))}\n")
TARGET.write_text("".join(lines))
print(f"{TARGET.name}: {len(lines)} lines")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares predictions with and without the passes that serve only them, on all shipped networks, f32, random weights, 3 samples:
prepare_weights must change no bit of the logits, fuse_addend at most 1e-6 of the largest.

    scripts/setup.sh --tests
    build/onnx/bin/python scripts/export/passes.py [NETWORK...]
"""
import pathlib
import sys

import onnx

from check import ROOT, recipes
from compare import Network, difference

LIMITS = {"prepare_weights": 0, "fuse_addend": 1e-6}


def main():
    failures = 0
    for name, recipe, overrides in recipes(small=False):
        if isinstance(recipe, dict) or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        network = Network(ROOT / "build/release/bin", recipe, overrides)
        _, values = network.inputs(onnx.load(network.export(), load_external_data=False), 3)
        expected = network.logits(values)
        changes = {disabled: difference(network.logits(values, disabled), expected) for disabled in LIMITS}
        failures += any(change > LIMITS[disabled] for disabled, change in changes.items())
        print(name, *(f"{disabled} {change:.1e}" for disabled, change in changes.items()), sep="  ", flush=True)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Exports networks with random weights, opsets 17 and 23, checks the files with onnx.checker, and compares onnxruntime's logits with
those of this program, at batches 1 and 7.

    scripts/setup.sh --tests
    build/onnx/bin/python scripts/export/check.py             all shipped recipes, and all that CI checks; minutes
    build/onnx/bin/python scripts/export/check.py --small     what CI checks: small networks

--bin names the folder of the programs `trainer` and `export_logits`.
"""
import argparse
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "export"

from compare import Network, Refused, compare  # noqa: E402
from options import check_options  # noqa: E402
from rounding import check_rounding  # noqa: E402

CROP = "[{resize: 32}, {center_crop: 32}]"
SMALL_IMAGES = ["model.input=[3, 32, 32]", f"data.augment={CROP}", f"data.eval_transform={CROP}"]
# Shipped recipes with shorter sequences or smaller images. The largest are left to the check of all.
SMALL = {
    "fashion_mnist_mlp": [], "fashion_mnist_cnn": [], "fashion_mnist_autoencoder": [], "unet_synthetic": [],
    "mlp_amp": ["training.precision=fp32"], "gpt_char_bible": ["model.input=[16]"], "resnet18_cifar10": [],
    **{f"{name}_imagenet": SMALL_IMAGES for name in (
        "convnext_tiny", "efficientnet_b0", "mobilenet_v2", "mobilenet_v3_large", "vit_tiny")},
}
# In the check of all. Llama 8B has blocks like those of Llama 135M, and does not fit in the memory of a usual machine.
TOO_LARGE = {"llama_8b_tokens"}
SHORTER = {"llama_135m_tokens": ["model.input=[64]"], "gpt2_tokens": ["model.input=[64]"]}


def recipes(small):
    """Name, recipe and overrides of every network."""
    found = [(path.stem, path, []) for path in sorted(CASES.glob("*.yaml"))]
    lines = (CASES / "random_networks.jsonl").read_text().splitlines()
    found += [(f"random {number}", json.loads(line), []) for number, line in enumerate(lines, 1)]
    shipped = SMALL if small else {path.stem: SHORTER.get(path.stem, []) for path in sorted((ROOT / "configs").glob("*.yaml"))
                                 if path.stem not in TOO_LARGE}
    precision = [] if small else ["training.precision=fp32"]
    return found + [(name, ROOT / "configs" / f"{name}.yaml", [*keys, *precision]) for name, keys in shipped.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("names", nargs="*", help="networks to check (default: all)")
    given = parser.parse_args()
    failures, worst, count = 0, 0, 0
    for name, recipe, overrides in recipes(given.small):
        if given.names and name not in given.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(recipe, dict):
                path = pathlib.Path(folder) / "recipe.yaml"
                path.write_text(json.dumps(recipe))
                recipe = path
            try:
                away = compare(Network(given.bin, recipe, overrides))
            except Exception as problem:  # all are failures of this network
                failures += 1
                print(f"{name}: {type(problem).__name__}: {problem} {getattr(problem, 'stderr', '') or ''}", flush=True)
                continue
        count, worst = count + 1, max(worst, away)
        if not given.small or given.names:
            print(f"{name}: {away:.1e}", flush=True)
    print(f"{count} networks agree, the largest difference is {worst:.1e}; {failures} fail")
    if not given.names:
        failures += check_options(given.bin) + check_rounding(given.bin)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Trains random networks with this program and with PyTorch, from the same weights on the same batches, and compares losses and
weights: MLPs, CNNs and transformers with every optimiser under every loss.

    scripts/setup.sh --bench
    build/bench/bin/python scripts/random_networks --count 300

PyTorch computes in f64, and once more in f32: the distance of f32 from f64 is the effect of rounding in this network. A difference is
that of a tensor's weights (2-norm) relative to the distance that they moved, and for a loss relative to the loss. The program's may be
--rounding times PyTorch's own, and at least --least. Lion's steps are signs: if its mixture is 0 except for rounding, an element may
move the other way. So of its tensors one element in a thousand, and at least one, is left out. Larger differences are printed with
their seed and kept as a folder with the recipe: --seed N --count 1 repeats one.
"""
import argparse
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "bench"), str(HERE.parent / "fixtures")]

import torch  # noqa: E402

import data  # noqa: E402
import draw  # noqa: E402
from fixture_file import save  # noqa: E402
from peer import train  # noqa: E402

LOSSES = "cross_entropy", "focal", "binary_cross_entropy", "mse"
OPTIMIZERS = "sgd", "adam", "adamw", "lars", "lion", "rmsprop", "muon"

arguments = argparse.ArgumentParser(prog="random_networks", description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--seed", type=int, default=1, help="of the first network; each further one has the next seed")
arguments.add_argument("--count", type=int, default=28, help="networks (28: each optimiser under each loss)")
arguments.add_argument("--rounding", type=float, default=50)
arguments.add_argument("--least", type=float, default=1e-4)
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--trainer", default=str(ROOT / "build/release/bin/trainer"))
arguments.add_argument("--folder", default=str(ROOT / "build/random_networks"), help="for what differs")
options = arguments.parse_args()
torch.set_num_threads(options.threads)


class Drawn:
    """A recipe, its data, and the weights that it begins with."""

    def __init__(self, seed):
        optimizer, loss = OPTIMIZERS[seed % len(OPTIMIZERS)], LOSSES[seed // len(OPTIMIZERS) % len(LOSSES)]
        d = draw.Draw(seed, torch.zeros(2, 1))
        micro, parts, steps, classes = d.between(2, 5), d.one_of([1, 1, 2, 3]), d.between(5, 20), d.between(2, 6)
        self.batch, self.micro, self.steps, self.seed = micro * parts, micro, steps, seed
        samples = max(classes, self.batch * d.between(1, 4) + d.between(0, self.batch - 1))
        if loss in ("cross_entropy", "focal") and d.maybe(0.4):
            self.data = data.draw_tokens(d, samples, classes + 3)
            x, kind, outputs = self.data.stream[:self.data.length].repeat(2, 1), "tokens", classes + 3
        else:
            channels = 3 if loss == "binary_cross_entropy" else d.one_of([1, 3])
            self.data = data.draw_images(d, samples, channels, classes, loss == "binary_cross_entropy")
            x, kind, outputs = self.data.pixels[:2].double() / 255, "pixels", classes
        d.outputs = {"input": x}
        self.shape = [*x.shape[1:]]
        self.network = (draw.network_of_tokens(d, outputs) if kind == "tokens" else
                        draw.network_of_inputs(d) if loss == "mse" else draw.network_of_images(d, outputs))
        self.values, self.compares_inputs, freeze = d.values, loss == "mse", d.freeze()
        self.statistics = {name: torch.full_like(value, float(name.endswith("var"))) for name, value in d.statistics.items()}
        self.recipe = {
            "version": 1, "run": {"name": "n", "seed": seed, "output_dir": "run"},
            "model": {"input": self.shape, "input_kind": kind, "layers": d.layers, "initial_weights": "start.safetensors",
                      "freeze": freeze},
            "data": {}, "training": {"max_duration": f"{steps}ba", "global_batch_size": self.batch, "micro_batch_size": micro},
            "loss": draw.loss(d, loss, outputs), "optimizer": draw.optimizer(d, optimizer, freeze), "lr_scheduler": draw.schedule(d, steps),
            "memory": {"recompute": d.one_of(["none", "none", "cheap", "full"])}, "logging": {"interval": "1ba", "formats": []},
            "validation": {"metrics": []}}

    def write(self, folder):
        self.recipe["data"] = {**self.data.write(folder), "val": None, "workers": 0}
        save(folder / "start.safetensors", {**self.values, **self.statistics})
        (folder / "recipe.yaml").write_text(json.dumps(self.recipe, indent=1))

    def batches(self):
        for step in range(self.steps):
            inputs, targets = self.data.batch(self.seed, self.batch, step, self.compares_inputs)
            yield inputs.split(self.micro), targets

    def peer(self, dtype):
        return train(self.recipe, self.values, self.statistics, list(self.batches()), dtype)


def load(path):
    raw = path.read_bytes()
    length, = struct.unpack("<Q", raw[:8])
    tensors = {}
    for name, about in json.loads(raw[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = about["data_offsets"]
        numbers = torch.frombuffer(bytearray(raw[8 + length + begin:8 + length + end]), dtype=torch.float32)
        tensors[name] = numbers.double().reshape(about["shape"])
    return tensors


def trained(folder):
    """Losses and weights of this program, or its output in place of them."""
    command = [options.trainer, "train", "--config", "recipe.yaml"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                         env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
    if ran.returncode != 0:
        return None, f"exit {ran.returncode}: {ran.stderr[-2000:]}"
    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line], load(folder / "run/model.safetensors")


def differences(found, expected, start, optimizer):
    """Of losses and of each tensor, by name."""
    losses = {"loss": max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(found[0], expected[0], strict=True))}
    weights = {}
    for name, value in expected[1].items():
        way = (value - start[name]).norm().item()
        least = 1e-6 * start[name].norm().item() + 1e-9  # the resolution of f32 for a short distance
        away = (found[1][name].double() - value).flatten().abs().sort().values
        left_out = -(-away.numel() // 1000) if optimizer == "lion" else 0
        weights[name] = away[:away.numel() - left_out].norm().item() / max(way, 1e3 * least)
    return {**losses, **weights}


def compare(drawn, folder):
    """The largest difference, PyTorch's own, and the error; nothing for a network that diverges."""
    drawn.write(folder)
    exact = drawn.peer(torch.float64)
    if not all(abs(loss) < 1e4 for loss in exact[0]):
        return None
    start, optimizer = {**drawn.values, **drawn.statistics}, drawn.recipe["optimizer"]["name"]
    rounding = max(differences(drawn.peer(torch.float32), exact, start, optimizer).values())
    losses, weights = trained(folder)
    if losses is None:
        return 1, rounding, [weights]
    if set(weights) != set(exact[1]):
        return 1, rounding, [f"other tensors: {sorted(set(weights) ^ set(exact[1]))}"]
    found = differences((losses, weights), exact, start, optimizer)
    limit = max(options.least, options.rounding * rounding)
    return max(found.values()), rounding, [f"{name}: {value:.2g}" for name, value in found.items() if not value <= limit]


def main():
    worst, counts, failures, unstable = defaultdict(lambda: (0, 0)), Counter(), 0, 0
    for seed in range(options.seed, options.seed + options.count):
        drawn = Drawn(seed)
        kinds = drawn.recipe["optimizer"]["name"], drawn.recipe["loss"]["name"], drawn.network
        with tempfile.TemporaryDirectory() as temporary:
            result = compare(drawn, pathlib.Path(temporary))
            if result is None:
                unstable += 1
                continue
            found, rounding, wrong = result
            for kind in kinds:
                worst[kind] = max(worst[kind], (found, rounding))
                counts[kind] += 1
            if wrong:
                failures += 1
                kept = pathlib.Path(options.folder) / str(seed)
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(temporary, kept)
                print(f"seed {seed} ({', '.join(kinds)}; rounding {rounding:.2g}; {kept}): {'; '.join(wrong)}", flush=True)
    for kind in sorted(counts):
        found, rounding = worst[kind]
        print(f"{kind:22} {counts[kind]:4} networks, largest difference {found:.1e}, where PyTorch's own in f32 is {rounding:.1e}")
    print(f"{options.count - unstable} networks compared, {failures} differ, {unstable} left out because their loss explodes")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())

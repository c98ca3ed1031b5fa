#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ours and PyTorch on one GPU in one run, turn about; prints the median ratio with its spread.

Each turn is a fresh process on either side. PyTorch runs in each of its modes once to find the best one, which then takes
the turns; so do we, with and without runtime.autotune. --json gets the figures by the ids of docs/gpu-evidence.tsv.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "scripts/bench"))
from windows import spread, train_records  # noqa: E402

# Recipe, batch, images per step and second that memory allows with the best known fusions (an H200; 0: not derived).
CASES = {"resnet50": ("resnet50_imagenet", 256, 14700), "resnet18": ("resnet18_cifar10", 32, 0), "gpt2": ("gpt2_tokens", 16, 0)}
SGD, ADAMW = "optimizer={name: sgd, lr: 0.01, momentum: 0.9}", "optimizer={name: adamw, lr: 1.0e-4, weight_decay: 0}"

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("network", choices=sorted(CASES))
arguments.add_argument("--trainer", default=os.path.join(ROOT, "build/gpu/bin/trainer"))
arguments.add_argument("--precision", default="amp_fp16")
arguments.add_argument("--turns", type=int, default=5)
arguments.add_argument("--steps", type=int, default=100, help="steps of one window")
arguments.add_argument("--modes", default="eager,compile,graph", help="of PyTorch's; autotune takes minutes")
arguments.add_argument("--json", help="a file for the figures")
options = arguments.parse_args()
recipe, batch, roofline = CASES[options.network]
WINDOWS = 5


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def ours(*words):
    with tempfile.TemporaryDirectory() as directory:
        output_of([options.trainer, "--config", f"{ROOT}/configs/{recipe}.yaml", f"run.output_dir={directory}/run",
                   "device.type=cuda", f"training.precision={options.precision}", "data={format: synthetic}",
                   f"training.global_batch_size={batch}", f"training.micro_batch_size={batch}",
                   ADAMW if options.network == "gpt2" else SGD, "lr_scheduler=constant", "loss=cross_entropy",
                   f"training.max_duration={(WINDOWS + 2) * options.steps}ba", "validation.interval=0ep",
                   f"logging.interval={options.steps}ba", *words])
        records = train_records(directory + "/run")
        summary = json.load(open(directory + "/run/summary.json"))
    return {"ms_per_step": [batch / r["samples_per_s"] * 1e3 for r in records], "summary": summary,
            "host_ms": [r["host_ms"] for r in records if "host_ms" in r]}


def theirs(mode):
    return json.loads(output_of([sys.executable, HERE + "/peer_torch.py", options.network, "--batch", str(batch),
                                 "--mode", mode, "--precision", options.precision, "--steps", str(options.steps),
                                 "--windows", str(WINDOWS)]))


def median(run):
    return statistics.median(run["ms_per_step"])


modes = {mode: theirs(mode) for mode in options.modes.split(",")}
for mode, run in modes.items():
    print(f"PyTorch {run['version']} {mode}: {median(run):.3f} ms/step", flush=True)
best = min(modes, key=lambda mode: median(modes[mode]))
turns = {mode: [] for mode in dict.fromkeys(["eager", best])}
tuning = {words: median(ours(*words)) for words in ((), ("runtime.autotune=true",))}
for words, time in tuning.items():
    print(f"ours {' '.join(words) or 'without autotune'}: {time:.3f} ms/step", flush=True)
mine, words = [], min(tuning, key=tuning.get)
for turn in range(options.turns):
    mine.append(ours(*words))
    for mode in turns:
        turns[mode].append(theirs(mode))
    print(f"turn {turn + 1}: ours {median(mine[-1]):.3f} ms, PyTorch {best} {median(turns[best][-1]):.3f} ms", flush=True)

figures = {}
ratios = "; ".join(f"{spread([median(p) / median(u) for u, p in zip(mine, runs)], '.3g')} times PyTorch {mode}"
                   for mode, runs in turns.items())
rate = [batch / median(u) * 1e3 for u in mine]
tokens = 1024 if options.network == "gpt2" else 1
ratios += f"; ours with {' '.join(words) or 'no autotune'}, {max(tuning.values()) / min(tuning.values()):.3g} times as fast as the other way"
unit = "tokens/s" if options.network == "gpt2" else "images/s"
figures[options.network + "_speed"] = f"{ratios}; {spread([tokens * each for each in rate], '.3g')} {unit}, {options.turns} turns"
summary = mine[-1]["summary"]
if roofline:
    figures[options.network + "_roofline"] = f"{100 * statistics.median(rate) / roofline:.0f} % of {roofline} images/s"
if options.network != "resnet18":
    used = summary.get("device", {}).get("memory_bytes", 0)
    figures[options.network + "_memory"] = (f"{used:.0f} bytes in use, {summary['memory']['planned_bytes']} planned; "
                                            f"{used / turns[best][-1]['reserved_bytes']:.2f} of PyTorch's reserved")
else:
    host = [ms for run in mine for ms in run["host_ms"]]
    figures["resnet18_host"] = f"{spread([1e3 * ms for ms in host], '.3g') if host else 'not measured'} us of host time a step"
for name, figure in figures.items():
    print(f"{name}: {figure}")
if options.json:
    json.dump(figures, open(options.json, "w"), indent=1)

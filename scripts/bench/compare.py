#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ours and PyTorch on the same machine in one run, alternating; prints the median ratio with its spread.

Each turn is a fresh process on either side. A turn during which the rest of the machine used more than 5 % of a
core is thrown away and repeated. PyTorch runs tuned: an OpenMP build of OpenBLAS (a pthreads one fights with
PyTorch's own threads) and a malloc that keeps freed pages; it gets the faster of its two layouts.
"""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from windows import spread, timed, train_records, until_clean

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("network", choices=["mlp", "lenet", "resnet18", "resnet50"])
arguments.add_argument("--turns", type=int, default=6)
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--steps", type=int, default=0, help="steps of one window; default: about a second's worth")
arguments.add_argument("--trainer", default=os.path.join(ROOT, "build/release/bin/trainer"))
arguments.add_argument("--python", default="/usr/bin/python3", help="an interpreter that has torch")
arguments.add_argument("--recipe", help="another recipe for our side")
arguments.add_argument("--set", action="append", default=[], help="an override for our side (may be repeated)")
arguments.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="bf16: mixed with fp32")
arguments.add_argument("--first-step", action="store_true",
                       help="only start-up: from the start of the process to the end of the first step, on synthetic data")
options = arguments.parse_args()
WINDOWS = 6
# Recipe, batch size, steps of one window, whether both sides get synthetic data.
RECIPES = {
    "mlp": ("fashion_mnist_mlp", 128, 300, False),
    "lenet": ("fashion_mnist_cnn", 128, 30, False),
    "resnet18": ("resnet18_cifar10", 128, 1, True),
    "resnet50": ("resnet50_imagenet", 16, 1, True),
}
recipe, batch, default_steps, synthetic = RECIPES[options.network]
recipe = options.recipe or f"{ROOT}/configs/{recipe}.yaml"
steps = options.steps or default_steps
# Both sides do the same arithmetic: no augmentation, no decay, one learning rate.
PRECISION = {"fp32": "fp32", "bf16": "amp_bf16"}[options.precision]
SAME_WORK = [f"training.precision={PRECISION}", "optimizer={name: sgd, lr: 0.01, momentum: 0.9}",
             "lr_scheduler=constant", "loss=cross_entropy", f"training.global_batch_size={batch}", f"training.micro_batch_size={batch}",
             "validation.interval=0ep"]


def tuned_environment():
    """Without variables that cap OpenBLAS, with an OpenMP OpenBLAS unpacked beside, not installed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    cache = os.path.join(tempfile.gettempdir(), "openblas-openmp")
    if not glob.glob(cache + "/usr/lib/*/openblas-openmp/libblas.so.3"):
        os.makedirs(cache, exist_ok=True)
        subprocess.run("apt-get download libopenblas0-openmp && dpkg -x libopenblas0-openmp_*.deb .", shell=True,
                       cwd=cache, check=True, stdout=subprocess.DEVNULL)
    library = glob.glob(cache + "/usr/lib/*/openblas-openmp/libblas.so.3")[0]
    env.update(LD_LIBRARY_PATH=os.path.dirname(library), MALLOC_MMAP_MAX_="0",
               MALLOC_TRIM_THRESHOLD_=str(1 << 36), MALLOC_TOP_PAD_=str(1 << 28))
    return env


def ours():
    directory = tempfile.mkdtemp()
    command = [options.trainer, "--config", recipe, "device.type=cpu", f"run.output_dir={directory}/run",
               f"training.max_duration={(WINDOWS + 2) * steps}ba", f"logging.interval={steps}ba",
               f"device.threads={options.threads}", *SAME_WORK]
    if synthetic:
        command += ["data={format: synthetic}"]
    else:
        command += ['data.val=""', "data.augment=[{normalize: {mean: [0.286], std: [0.353]}}]"]
    if options.network == "lenet":
        command += ["model.layers[5].dropout.p=0", "model.layers[9].dropout.p=0"]
    _, foreign = timed(command + options.set, os.environ)
    records = train_records(directory + "/run")
    summary = json.load(open(directory + "/run/summary.json"))
    shutil.rmtree(directory)
    windows = [batch / r["samples_per_s"] * 1e3 for r in records]
    parts = {k: statistics.median(r[k] for r in records)
             for k in ("data_wait_ms", "forward_ms", "backward_ms", "update_ms")}
    return {"ms_per_step": windows, "first_step_s": summary["training"]["first_step_seconds"],
            "peak_rss_mib": summary["memory"]["peak_bytes"] / 2**20, **parts}, foreign


def theirs(layout):
    command = [options.python, HERE + "/peer_torch.py", options.network, "--layout", layout, "--steps", str(steps),
               "--windows", str(WINDOWS), "--threads", str(options.threads), "--batch", str(batch),
               "--precision", options.precision]
    if synthetic:
        command += ["--data", "synthetic"]
    output, foreign = timed(command, tuned_environment())
    return json.loads(output), foreign


def first_steps():
    """Start-up alone, without the time to read a data set on either side."""
    def ours_once():
        with tempfile.TemporaryDirectory() as directory:
            _, foreign = timed([options.trainer, "--config", recipe, "device.type=cpu",
                                f"run.output_dir={directory}/run", "training.max_duration=1ba",
                                "validation.interval=0ep", "data.format=synthetic"], os.environ)
            return json.load(open(directory + "/run/summary.json"))["training"]["first_step_seconds"], foreign

    def theirs_once():
        output, foreign = timed([options.python, HERE + "/peer_torch.py", options.network, "--data", "synthetic",
                                 "--steps", "1", "--windows", "0"], tuned_environment())
        return json.loads(output)["first_step_s"], foreign

    pairs = [(until_clean(ours_once), until_clean(theirs_once)) for _ in range(options.turns)]
    print(f"{options.network}: start of process to end of first step, s: ours {spread([u for u, _ in pairs])}, "
          f"PyTorch {spread([p for _, p in pairs])}; share {spread([u / p for u, p in pairs])}")


if options.first_step:
    first_steps()
    sys.exit()
layouts = ["nchw"] if options.network == "mlp" else ["nchw", "nhwc"]
rows = []
for turn in range(options.turns):
    us = until_clean(ours)
    peers = {layout: until_clean(lambda: theirs(layout)) for layout in layouts}
    best = min(peers.values(), key=lambda p: statistics.median(p["ms_per_step"]))
    rows.append((us, best))
    print(f"turn {turn + 1}: ours {statistics.median(us['ms_per_step']):.3f} ms, "
          f"PyTorch {best['version']} {best['layout']} {statistics.median(best['ms_per_step']):.3f} ms", flush=True)
ratio = [statistics.median(p["ms_per_step"]) / statistics.median(u["ms_per_step"]) for u, p in rows]
print(f"{options.network}, {options.precision}, batch {batch}, {options.threads} threads, {options.turns} turns: "
      f"times as fast as PyTorch {rows[0][1]['version']}: {spread(ratio)}")
print(f"  ms/step: ours {spread([statistics.median(u['ms_per_step']) for u, _ in rows])}, "
      f"PyTorch {spread([statistics.median(p['ms_per_step']) for _, p in rows])}")
print(f"  start of process to end of first step, s: ours {spread([u['first_step_s'] for u, _ in rows])}, "
      f"PyTorch {spread([p['first_step_s'] for _, p in rows])}")
print(f"  peak resident MiB: ours {spread([u['peak_rss_mib'] for u, _ in rows])}, "
      f"PyTorch {spread([p['peak_rss_mib'] for _, p in rows])}")
parts = ("data_wait_ms", "forward_ms", "backward_ms", "update_ms")
print("  ours: " + ", ".join(f"{k[:-3]} {statistics.median(u[k] for u, _ in rows):.3f} ms" for k in parts))

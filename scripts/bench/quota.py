#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training within a quota of processor time, as in a pod: as the program decides, and with fixed numbers of threads, in turns.

  scripts/bench/quota.py [--percent 100 150] [--turns 5] [--threads 1 2] [--recipe R.yaml] [--steps 400]

Makes a control group below its own for each run, so it needs rights to /sys/fs/cgroup.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--percent", type=int, nargs="+", default=[100], help="of one core")
arguments.add_argument("--turns", type=int, default=5)
arguments.add_argument("--threads", type=int, nargs="+", default=[1, 2])
arguments.add_argument("--recipe", default=ROOT / "configs/fashion_mnist_cnn.yaml")
arguments.add_argument("--steps", type=int, default=400)
arguments.add_argument("--trainer", default=ROOT / "build/release/bin/trainer")
options = arguments.parse_args()


class Quota:
    """A control group of version 1 or 2 with a quota, for the time of a `with`."""

    def __init__(self, percent):
        self.percent = percent
        top = pathlib.Path("/sys/fs/cgroup")
        self.is_2 = (top / "cgroup.controllers").exists()
        pattern = r"0::(.*)" if self.is_2 else r"\d+:(?:[^:]*,)?cpu(?:,[^:]*)?:(.*)"
        groups = pathlib.Path("/proc/self/cgroup").read_text()
        own = re.search(f"^{pattern}$", groups, re.MULTILINE).group(1).lstrip("/")
        above = (top if self.is_2 else top / "cpu") / own
        self.path = above / f"trainer-bench-{os.getpid()}"

    def __enter__(self):
        self.path.mkdir()
        if self.is_2:
            (self.path / "cpu.max").write_text(f"{self.percent * 1000} 100000")
        else:
            (self.path / "cpu.cfs_period_us").write_text("100000")
            (self.path / "cpu.cfs_quota_us").write_text(f"{self.percent * 1000}")
        return self

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def __exit__(self, *_):
        while True:
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)  # until the kernel has forgotten the last process


def steps_per_second(percent, overrides):
    with tempfile.TemporaryDirectory() as folder, Quota(percent) as quota:
        command = [options.trainer, "--config", options.recipe, "data.format=synthetic", f"training.max_duration={options.steps}ba",
                   "validation.interval=0ep", "checkpoint.interval=0ep", f"run.output_dir={folder}/run", *overrides]
        subprocess.run(list(map(str, command)), check=True, capture_output=True, preexec_fn=quota.enter)
        summary = json.loads(pathlib.Path(folder, "run/summary.json").read_text())
    return summary["steps"] / summary["training"]["seconds"]


for percent in options.percent:
    sides = {"as decided": []} | {f"{n} threads": [f"device.threads={n}"] for n in options.threads}
    found = {name: [] for name in sides}
    for _ in range(options.turns):
        for name, overrides in sides.items():
            found[name].append(steps_per_second(percent, overrides))
    print(f"{percent} % of a core, steps/s: " + "; ".join(
        f"{name} {statistics.median(all_):.2f} ({min(all_):.2f} to {max(all_):.2f})" for name, all_ in found.items()), flush=True)

# SPDX-License-Identifier: Apache-2.0
"""Measuring on a machine that may have other work: measurements during it are discarded."""
import json
import os
import resource
import statistics
import subprocess
import sys
import time

MOST_FOREIGN_CPU = 0.05  # cores
TRIES = 10


def busy_seconds():
    fields = [int(v) for v in open("/proc/stat").readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def timed(command, env, allowed=lambda: 0.0):
    """Output of a command, and the cores that everything else used meanwhile, but for `allowed` processor seconds."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy, began = busy_seconds() - allowed(), time.perf_counter()
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout, max(0.0, (busy_seconds() - allowed() - busy - own) / wall)


def until_clean(turn, most=MOST_FOREIGN_CPU):
    """The result of a turn during which the rest of the machine used at most this many cores."""
    for _ in range(TRIES):
        result, foreign = turn()
        if foreign <= most:
            return result
        print(f"  thrown away: the rest of the machine used {foreign:.2f} cores", flush=True)
    sys.exit("the machine is too busy for a comparison")


def train_records(run):
    """The lines of training in a run's metrics, without the first two, in which it warms up."""
    lines = [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
    return [line for line in lines if line["split"] == "train"][2:]


def spread(values, form=".2f"):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the ranks of a pipeline wait for each other, beside the timeline that their own measured operations make.

  scripts/bench/pipeline_idle.py [--schedule 1f1b | gpipe | interleaved] [--stages 2]

Trains a GPT of 6 blocks on ranks of one thread and profiles some steps. Each rank's operations between two messages, or two phases, are one unit
of the schedule. A timeline in which each unit begins when its rank and its input are ready gives the idle share that these times allow. Operations that are
timed wait for the device, so on GPUs both shares are of such steps.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

from windows import MOST_FOREIGN_CPU, spread, timed, until_clean

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS, MICRO_BATCHES, SAMPLES = 5, 8, 16
OPERATIONS = 2  # row of a profile

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--schedule", default="1f1b", choices=["1f1b", "gpipe", "interleaved"])
arguments.add_argument("--stages", type=int, default=2, help="ranks of the pipeline")
arguments.add_argument("--trainer", default=os.path.join(ROOT, "build/release/bin/trainer"))
arguments.add_argument("--set", action="append", default=[], help="an override (may be repeated)")
arguments.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
arguments.add_argument("--most-difference", type=float, default=5, metavar="POINTS", help="exit code 1 if the two differ by more")
arguments.add_argument("--most-foreign", type=float, default=MOST_FOREIGN_CPU, metavar="CORES", help="cores that the rest of the machine may use")
options = arguments.parse_args()
CHUNKS = 2 if options.schedule == "interleaved" else 1


def profile():
    """Events of all ranks, and the cores that others used."""
    with tempfile.TemporaryDirectory() as directory:
        threads = ["device.threads=1"] if options.device == "cpu" else []
        command = [options.trainer, "--config", f"{ROOT}/configs/gpt_char_bible.yaml", f"device.type={options.device}", f"run.output_dir={directory}/run",
                   f"training.max_duration={STEPS + 3}ba", "lr_scheduler=constant", "validation.interval=0ep", "checkpoint.interval=0s",
                   "data={format: synthetic}", f"training.global_batch_size={SAMPLES}",
                   f"training.micro_batch_size={SAMPLES // MICRO_BATCHES}", f"parallelism.pipeline={options.stages}",
                   f"parallelism.schedule.name={options.schedule}", *threads, *options.set, "--profile", str(STEPS)]
        _, foreign = timed(command, os.environ)
        return json.load(open(f"{directory}/run/trace.json"))["traceEvents"], foreign


def is_message(event):
    return event["name"].split()[0] in ("exchange_start", "collective_done")


def units_of(events):
    """Phase, begin, end and computed time of each unit, in microseconds, from one rank's operations of a step."""
    units, ended = [], True
    for event in events:
        if is_message(event):
            ended = True
            continue
        begin, end = event["ts"], event["ts"] + event["dur"]
        if ended or units[-1]["phase"] != event["cat"]:
            units.append({"phase": event["cat"], "begin": begin, "computed": 0})
        ended = False
        units[-1]["end"] = end
        units[-1]["computed"] += event["dur"]
    return units


def numbered(units, rank):
    """The units with stage, phase and micro-batch: a rank computes those of a stage and phase in the order of their micro-batches. What
    follows them adds gradients up over the ranks."""
    expected = 2 * MICRO_BATCHES * CHUNKS
    if len(units) < expected:
        sys.exit(f"rank {rank} has {len(units)} units in a step, not {expected}")
    units = units[:expected]
    if CHUNKS == 1:
        seen = {"forward": 0, "backward": 0}
        for unit in units:
            unit["key"] = rank, unit["phase"], seen[unit["phase"]]
            seen[unit["phase"]] += 1
        return units
    counts = {"forward": 0, "backward": 0}
    for unit in units:  # groups of as many micro-batches as ranks, stage after stage; backward from the last stage on
        number = counts[unit["phase"]]
        counts[unit["phase"]] += 1
        group, within = divmod(number, options.stages * CHUNKS)
        chunk, place = divmod(within, options.stages)
        if unit["phase"] == "backward":
            chunk = CHUNKS - 1 - chunk
        unit["key"] = chunk * options.stages + rank, unit["phase"], group * options.stages + place
    return units


def timeline(ranks):
    """When the last unit ends, if each begins once its rank and its input are ready."""
    last, ends, position = options.stages * CHUNKS - 1, {}, [0] * len(ranks)
    free = [0.0] * len(ranks)
    while any(position[rank] < len(units) for rank, units in enumerate(ranks)):
        moved = False
        for rank, units in enumerate(ranks):
            while position[rank] < len(units):
                stage, phase, number = units[position[rank]]["key"]
                if phase == "forward":
                    needed = [(stage - 1, phase, number)] if stage > 0 else []
                else:
                    needed = [(stage + 1, phase, number)] if stage < last else [(stage, "forward", number)]
                if any(each not in ends for each in needed):
                    break
                free[rank] = max([free[rank], *(ends[each] for each in needed)]) + units[position[rank]]["computed"]
                ends[units[position[rank]]["key"]] = free[rank]
                position[rank] += 1
                moved = True
        if not moved:
            sys.exit("the measured units wait for each other in a circle")
    return max(free)


def shares(events):
    """The idle share of each step, as measured and in the timeline of its own units."""
    found = []
    operations = [[event for event in events if event["ph"] == "X" and event["tid"] == OPERATIONS and event["pid"] == rank]
                  for rank in range(options.stages)]
    steps = [[event for event in events if event["ph"] == "X" and event["cat"] == "step" and event["pid"] == rank] for rank in range(options.stages)]
    for number in range(STEPS):
        ranks = []
        for rank in range(options.stages):
            step = steps[rank][number]
            own = [event for event in operations[rank] if step["ts"] <= event["ts"] < step["ts"] + step["dur"] and event["cat"] != "update"]
            ranks.append(numbered(units_of(own), rank))
        computed = sum(unit["computed"] for units in ranks for unit in units)
        took = max(units[-1]["end"] for units in ranks) - min(units[0]["begin"] for units in ranks)
        found.append((1 - computed / (len(ranks) * took), 1 - computed / (len(ranks) * timeline(ranks))))
    return found


def main():
    events = until_clean(profile, options.most_foreign)
    found = shares(events)
    measured, allowed = ([each[i] for each in found] for i in range(2))
    difference = statistics.median(measured) - statistics.median(allowed)
    print(f"{options.schedule}, {options.stages} ranks: idle {spread([100 * share for share in measured], '.1f')} % of {STEPS} steps, "
          f"{spread([100 * share for share in allowed], '.1f')} % in the timeline of the measured operations: {100 * difference:.1f} points more")
    if 100 * abs(difference) > options.most_difference:
        sys.exit(f"the difference is more than {options.most_difference:g} points")


main()

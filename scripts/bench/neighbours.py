#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training beside busy processes: the share of its quiet speed that each side keeps.

  scripts/bench/neighbours.py [lenet | resnet18 ...] [--environment NAME=VALUE] [--quiet-pairs 20]

A round measures our program, a second time with --environment if given, and the newest PyTorch, each beside 0, 1, 2 and
4 processes that only compute. With T threads beside N of them on C cores, a fair share is C / (T + N), or all of the quiet
speed if there are enough cores. --quiet-pairs compares our program alone, without and with --environment.
"""
import argparse
import os
import statistics
import subprocess
import sys

from sides import NETWORKS, TRAINER, Peer, our_turn
from windows import spread, timed, until_clean

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("networks", nargs="*", help=f"of {', '.join(NETWORKS)}; default: lenet resnet18")
arguments.add_argument("--neighbours", type=int, nargs="+", default=[0, 1, 2, 4], help="busy processes, 0 first")
arguments.add_argument("--rounds", type=int, default=5)
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--steps", type=int, default=0, help="steps of one window; default: about a quiet second's worth")
arguments.add_argument("--trainer", default=TRAINER)
arguments.add_argument("--peer", default="newest", help="debian, newest, an interpreter that has torch, or none")
arguments.add_argument("--environment", action="append", default=[], metavar="NAME=VALUE",
                       help="also measure ours with this variable (may be repeated)")
arguments.add_argument("--quiet-pairs", type=int, default=0, metavar="N", help="only N pairs without neighbours")
options = arguments.parse_args()
if options.neighbours[0] != 0:
    arguments.error("--neighbours: the quiet speed is what all else is compared with, so 0 comes first")
VARIABLES = dict(word.split("=", 1) for word in options.environment)


class Neighbours:
    """Processes that only compute, for the time of a `with`."""

    def __init__(self, count):
        self.count, self.processes = count, []

    def __enter__(self):
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.count)]
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def seconds(self):
        """Processor time that they have used."""
        ticks = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/stat") as file:
                ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def timed(self, command, environment):
        """As windows.timed; these processes do not count as others."""
        return timed(command, environment, allowed=self.seconds)


def step_ms(measure, count):
    def turn():
        with Neighbours(count) as neighbours:
            result, foreign = measure(neighbours.timed)
        return statistics.median(result["ms_per_step"]), foreign
    return until_clean(turn)


def sides_of(network):
    """Each side's name, and its measurement."""
    def ours(environment):
        return lambda run: our_turn(network, run, steps=options.steps, threads=options.threads, trainer=options.trainer, environment=environment)

    sides = {"ours": ours({})}
    if VARIABLES:
        sides["ours, " + " ".join(options.environment)] = ours(VARIABLES)
    if options.peer != "none" and not options.quiet_pairs:
        peer = Peer(options.peer)
        ways = [way for way in peer.ways(network) if len(way) == 1]
        way = min(ways, key=lambda w: step_ms(lambda run: peer.turn(network, w, run, steps=options.steps, threads=options.threads), 0))
        sides[f"PyTorch {' '.join(way)}"] = lambda run: peer.turn(network, way, run, steps=options.steps, threads=options.threads)
    return sides


def beside_neighbours(network):
    sides = sides_of(network)
    found = {(name, count): [] for name in sides for count in options.neighbours}
    for number in range(1, options.rounds + 1):
        for count in options.neighbours:
            for name, measure in sides.items():
                found[name, count].append(step_ms(measure, count))
        print(f"{network}, round {number}: " + "; ".join(
            f"{name} " + " ".join(f"{found[name, count][-1]:.1f}" for count in options.neighbours) for name in sides) + " ms", flush=True)
    cores = len(os.sched_getaffinity(0))
    for count in options.neighbours:
        fair = min(1.0, cores / (options.threads + count))
        shares = "; ".join(f"{name} {spread([q / b for q, b in zip(found[name, 0], found[name, count])])}" for name in sides)
        print(f"{network}, {count} busy processes on {cores} cores, share of quiet speed (fair: {fair:.2f}): {shares}")


def quiet_pairs(network):
    (_, plain), (name, changed) = sides_of(network).items()
    ratios = []
    for _ in range(options.quiet_pairs):
        before, after = step_ms(plain, 0), step_ms(changed, 0)
        ratios.append(after / before)
    print(f"{network}, quiet: time of a step with {name} over that of ours, {len(ratios)} pairs: {spread(ratios)}", flush=True)


for network in options.networks or ["lenet", "resnet18"]:
    if options.quiet_pairs:
        quiet_pairs(network)
    else:
        beside_neighbours(network)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ours and PyTorch on the same machine in one run, alternating; prints the median ratio with its spread.

Each turn is a fresh process on either side. A turn during which the rest of the machine used more than 5 % of a core is thrown
away and repeated. A peer runs in each of its ways (layouts, eager and compiled) in the first turn, then in those that were within
a tenth of its fastest; the fastest of each turn counts. `scripts/setup.sh --bench` installs the peers: PyTorch of Debian,
tuned (debian), and the newest from PyPI (newest).
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

from sides import INSTRUCTIONS, NETWORKS, PARTS, ROOT, TRAINER, Peer, our_turn
from windows import spread, timed, until_clean

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("network", choices=NETWORKS)
arguments.add_argument("--turns", type=int, default=6)
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--steps", type=int, default=0, help="steps of one window; default: about a second's worth")
arguments.add_argument("--trainer", default=TRAINER)
arguments.add_argument("--peer", action="append", help="debian, newest, or an interpreter that has torch (may be repeated); "
                       "default: debian and newest")
arguments.add_argument("--instructions", choices=INSTRUCTIONS, help="compute as on a processor that has no more")
arguments.add_argument("--recipe", help="another recipe for our side")
arguments.add_argument("--set", action="append", default=[], help="an override for our side (may be repeated)")
arguments.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="bf16: mixed with fp32")
arguments.add_argument("--first-step", action="store_true",
                       help="only start-up: from the start of the process to the end of the first step, on synthetic data")
options = arguments.parse_args()
environment = INSTRUCTIONS.get(options.instructions, {})
peers = [Peer(name, environment) for name in options.peer or ["debian", "newest"]]
NEAR_THE_FASTEST = 1.1


def ms(result):
    return statistics.median(result["ms_per_step"])


def first_steps():
    """Start-up alone, without the time to read a data set on either side."""
    recipe = options.recipe or f"{ROOT}/configs/{NETWORKS[options.network][0]}.yaml"

    def ours():
        with tempfile.TemporaryDirectory() as directory:
            _, foreign = timed([options.trainer, "--config", recipe, "device.type=cpu", f"run.output_dir={directory}/run",
                                "training.max_duration=1ba", "validation.interval=0ep", "data.format=synthetic"],
                               {**os.environ, **environment})
            with open(directory + "/run/summary.json") as file:
                return json.load(file)["training"]["first_step_seconds"], foreign

    def theirs(peer):
        result, foreign = peer.turn(options.network, ("nchw",), timed, steps=1, windows=0, synthetic=True)
        return result["first_step_s"], foreign

    rows = [(until_clean(ours), [until_clean(lambda p=peer: theirs(p)) for peer in peers]) for _ in range(options.turns)]
    for i, peer in enumerate(peers):
        print(f"{options.network}: start of process to end of first step, s: ours {spread([u for u, _ in rows])}, "
              f"PyTorch ({peer.name}) {spread([p[i] for _, p in rows])}; share {spread([u / p[i] for u, p in rows])}")


def turn(ways):
    """One turn of either side: our figures, and those of each peer's ways."""
    common = {"steps": options.steps, "threads": options.threads, "precision": options.precision}
    us = until_clean(lambda: our_turn(options.network, timed, recipe=options.recipe, trainer=options.trainer, more=options.set,
                                      environment=environment, **common))
    them = {peer: {way: until_clean(lambda p=peer, w=way: p.turn(options.network, w, timed, **common)) for way in ways[peer]}
            for peer in peers}
    return us, them


def report(peer, rows):
    ours = [us for us, _ in rows]
    best = [min(them[peer].items(), key=lambda item: ms(item[1])) for _, them in rows]
    theirs = [result for _, result in best]
    print(f"{options.network}, {options.precision}, {options.threads} threads, {options.instructions or 'all instructions'}, "
          f"{len(rows)} turns: times as fast as PyTorch {theirs[0]['version']}: "
          f"{spread([ms(p) / ms(u) for u, p in zip(ours, theirs)])}")
    print(f"  PyTorch was fastest with: {', '.join(sorted({' '.join(way) for way, _ in best}))}")
    for name, unit, value in (("step", "ms", ms), ("start of process to end of first step", "s", lambda r: r["first_step_s"]),
                              ("peak resident", "MiB", lambda r: r["peak_rss_mib"])):
        print(f"  {name}, {unit}: ours {spread([value(u) for u in ours])}, PyTorch {spread([value(p) for p in theirs])}")


def main():
    if options.first_step:
        first_steps()
        return
    ways = {peer: peer.ways(options.network) for peer in peers}
    rows = []
    for number in range(1, options.turns + 1):
        rows.append(turn(ways))
        us, them = rows[-1]
        print(f"turn {number}: ours {ms(us):.3f} ms; " + "; ".join(
            f"{peer.name} {' '.join(way)} {ms(result):.3f}" for peer in peers for way, result in them[peer].items()), flush=True)
        if number == 1:
            ways = {peer: [way for way, result in them[peer].items()
                           if ms(result) <= NEAR_THE_FASTEST * min(map(ms, them[peer].values()))] for peer in peers}
    for peer in peers:
        report(peer, rows)
    print("  ours: " + ", ".join(f"{part[:-3]} {statistics.median(us[part] for us, _ in rows):.3f} ms" for part in PARTS))


if __name__ == "__main__":
    sys.exit(main())

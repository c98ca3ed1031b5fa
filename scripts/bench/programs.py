#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of the program on the same machine in one run, alternating: how much faster the second is, with the spread, and how
far their losses differ. For builds with other libraries, which need not be bitwise identical (same_bits.py is for those).

Each program is a path, perhaps of a script that starts one in another tree (a change of root, a container) with the same paths
to recipes and temporary files. A turn during which the rest of the machine used more than 5 % of a core is repeated.
"""
import argparse
import os
import statistics

from sides import INSTRUCTIONS, NETWORKS, our_turn
from windows import spread, timed, until_clean

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("before")
arguments.add_argument("after")
arguments.add_argument("networks", nargs="*", default=[*NETWORKS], metavar="network", help=", ".join(NETWORKS))
arguments.add_argument("--turns", type=int, default=5)
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
arguments.add_argument("--instructions", choices=INSTRUCTIONS, help="compute as on a processor that has no more")
options = arguments.parse_args()


def turn(program, network):
    return until_clean(lambda: our_turn(network, timed, trainer=os.path.abspath(program), threads=options.threads,
                                        precision=options.precision, environment=INSTRUCTIONS.get(options.instructions)))


def step_ms(result):
    return statistics.median(result["ms_per_step"])


def apart(before, after):
    """The largest difference of two losses, relative to the first."""
    return max(abs(a - b) / abs(a) for a, b in zip(before["losses"], after["losses"]))


def main():
    for network in options.networks:
        rows = [(turn(options.before, network), turn(options.after, network)) for _ in range(options.turns)]
        print(f"{network}, {options.precision}, {options.instructions or 'all instructions'}: times as fast as before "
              f"{spread([step_ms(a) / step_ms(b) for a, b in rows])}; step, ms: before {spread([step_ms(a) for a, _ in rows])}, "
              f"after {spread([step_ms(b) for _, b in rows])}; peak, MiB: {spread([a['peak_rss_mib'] for a, _ in rows])}, "
              f"{spread([b['peak_rss_mib'] for _, b in rows])}; losses differ by at most {max(apart(a, b) for a, b in rows):.1e}",
              flush=True)


if __name__ == "__main__":
    main()

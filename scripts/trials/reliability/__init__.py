# SPDX-License-Identifier: Apache-2.0
"""Proves on the program itself that a run cannot be lost: kills, disturbs and stops it, and compares bits.

The last part, ranks, is left out unless it is named or --thorough: it is what `scripts/ranks faults` does, with several processes that
share a run, one of which is killed. It needs mpirun.
"""
import time
from pathlib import Path

from reliability import asked, damage, power, ranks_lost, saves, soak, stops, sweeps

PARTS = {'stops': stops.checks, 'saves': saves.checks, 'asked': asked.checks, 'damage': damage.checks, 'power': power.checks,
         'soak': soak.checks, 'sweeps': sweeps.checks, 'ranks': ranks_lost.checks}
PATIENCE, SEED = 600, int(time.time())
AT_ONCE = 1  # some measure times


def parts_of(options):
    return options.parts or [part for part in PARTS if part != 'ranks' or options.thorough]


def add_options(parser):
    parser.add_argument('--thorough', action='store_true', help='200 kills, 100 signals, every error number')
    parser.add_argument('--kills', type=int)
    parser.add_argument('--signals', type=int)
    parser.add_argument('--summary', type=Path, help='a page whose table of outcomes is replaced')

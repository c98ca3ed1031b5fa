# SPDX-License-Identifier: Apache-2.0
"""What scripts/ranks was asked for, and where it finds what it shares with scripts/reliability."""
import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts/reliability'))


def parse(text):
    arguments = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('parts', nargs='*', choices=['equal', 'faults', 'port', 'agree', []], help='default: all')
    arguments.add_argument('--trainer', type=Path, default=ROOT / 'build/release/bin/trainer')
    arguments.add_argument('--faults', type=Path, help='libfaults.so of the tests; default: beside the program')
    arguments.add_argument('--keep', type=Path, help='directory for the runs, which are kept')
    arguments.add_argument('--short', action='store_true', help='fewer of them, without the deep network')
    arguments.add_argument('--seed', type=int, default=1, help='of the moments and phases in which ranks are killed')
    arguments.add_argument('--seconds', type=float, help='for which strangers come to the port; default: 60, or 3 with --short')
    chosen = arguments.parse_args()
    chosen.trainer = chosen.trainer.resolve()
    chosen.faults = (chosen.faults or chosen.trainer.parent / 'libfaults.so').resolve()
    return chosen

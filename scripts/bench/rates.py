#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `trainer tune lr` suggests beside the best of twelve rates: trains a shipped recipe with each.

  scripts/bench/rates.py RECIPE [KEY=VALUE...] [--metric top1] [--repeats N] [--from RATE --to RATE]

Prints the metric after training with each of twelve rates from --from to --to, and with the rates of the curve's steepest place, its longest
valley, and a tenth of where it diverged. Exit code 1 if the suggestion is more than 0.5 points below the best.
"""
import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def value_of(options, work, rate):
    directory = work / f'{rate:.4g}'
    done = subprocess.run([options.trainer, '--config', options.recipe, *options.overrides, f'optimizer.lr={rate}', f'run.output_dir={directory}',
                           'checkpoint.interval=0s', 'checkpoint.keep_best=none', 'logging.formats=[]', 'guards.nonfinite=stop'],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if done.returncode != 0:
        return math.nan
    return 100 * json.loads((directory / 'summary.json').read_text())['validation']['last'][options.metric]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('recipe')
    parser.add_argument('overrides', nargs='*')
    parser.add_argument('--metric', default='top1')
    parser.add_argument('--repeats', type=int, default=1)
    parser.add_argument('--from', type=float, default=1e-4, dest='low')
    parser.add_argument('--to', type=float, default=3)
    parser.add_argument('--trainer', default=ROOT / 'build/release/bin/trainer')
    options = parser.parse_intermixed_args()
    work = Path(tempfile.mkdtemp(prefix='rates-'))
    tuned = subprocess.run([options.trainer, 'tune', 'lr', '--config', options.recipe, *options.overrides, '--json', '--repeats',
                            str(options.repeats)], check=True, capture_output=True, text=True)
    found = json.loads(tuned.stdout)
    rates = [options.low * (options.to / options.low) ** (i / 11) for i in range(12)]
    values = {rate: value_of(options, work, rate) for rate in rates}
    for rate, value in values.items():
        print(f'{rate:10.4g} {value:7.2f}', flush=True)
    best = max(value for value in values.values() if not math.isnan(value))
    for name in ('steepest', 'valley', 'tenth_of_divergence', 'suggestion'):
        if name in found:
            print(f'{name}: {found[name]:.4g} gives {value_of(options, work, found[name]):.2f}, the best of twelve {best:.2f}', flush=True)
    sys.exit(0 if value_of(options, work, found['suggestion']) >= best - 0.5 else 1)


if __name__ == '__main__':
    main()

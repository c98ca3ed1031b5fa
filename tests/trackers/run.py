#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs with an MLflow server that is well, slow, gone or hostile: run.py TRAINER [CASE...]

What the stand-in (server.py) has must equal metrics.jsonl, whatever happened. Exit code 1: a case failed.
"""
import concurrent.futures
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True  # into the sources
import wandb_file
from server import Server, Store, basic, bearer

TRAINER = Path(sys.argv[1]).resolve()
PATIENCE = 120
SAVED = 75
AXES = {'step', 'updates', 'epoch', 'time', 'split', 'event', 'reason', 'non_finite'}
TIMES = ('_ms', '_per_s', 'time_', 'device_', 'memory_bytes')  # of a process: they differ after a resume
SECRET = 'secret-3f9a'
RECIPE = '''version: 1
run: {name: small, seed: 3, output_dir: run}
model:
  input: [2, 8, 8]
  layers: [conv2d: {out_channels: 4, kernel_size: 3}, relu, flatten, linear: 5]
data: {format: synthetic, workers: 1, synthetic: {train_samples: 640, val_samples: 130}}
training: {max_duration: STEPSba, global_batch_size: 64}
optimizer: {name: adamw, lr: 0.01}
validation: {interval: 100ba}
logging: {interval: 3ba, mlflow: {uri: "URI", experiment: "of a test"}}
checkpoint: {interval: 500ba}
device: {type: cpu, threads: 1}
'''


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


class Run:
    """A directory with a recipe, in which the program is started."""

    def __init__(self, folder, uri, steps=120):
        self.folder, self.output = folder, folder / 'run'
        (folder / 'r.yaml').write_text(RECIPE.replace('STEPS', str(steps)).replace('URI', uri))

    def start(self, *words, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith('MLFLOW_')}
        environment.update({'HOME': str(self.folder), 'OMP_WAIT_POLICY': 'passive', 'no_proxy': '127.0.0.1', **variables})
        with open(self.folder / 'errors', 'wb') as errors:
            return subprocess.Popen([TRAINER, *(words or ('r.yaml',))], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=errors)

    def end(self, process, code=0):
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failure(f'still running after {PATIENCE} s') from None
        expect(process.returncode == code, f'exit code {process.returncode}, expected {code}:\n{self.errors}')
        return self.errors

    def train(self, *words, code=0, **variables):
        return self.end(self.start(*words, **variables), code)

    def track(self, *words, code=0, **variables):
        return self.train('track', 'run', *words, code=code, **variables)

    def wait_for(self, process, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            expect(process.poll() is None, f'ended with {process.returncode} before {what}:\n{self.errors}')
            expect(time.monotonic() < end, f'{what}: this did not come')
            time.sleep(0.02)

    @property
    def errors(self):
        lines = (self.folder / 'errors').read_text(errors='replace').splitlines(keepends=True)
        return ''.join(line for line in lines if not line.startswith('step'))

    def lines(self):
        path = self.output / 'metrics.jsonl'
        return path.read_bytes().splitlines() if path.exists() else []


def curves_of_lines(run):
    """The values of each curve and step in metrics.jsonl."""
    curves = {}
    for line in map(json.loads, run.lines()):
        for key, value in line.items():
            if key not in AXES:
                curves.setdefault((f'{line["split"]}/{key}', line['step']), []).append('NaN' if value is None else value)
    return curves


def compare(run, store, status='FINISHED', with_times=True):
    """The server has one run, with exactly the curves of the lines; without times only those that a resume repeats."""
    expect(len(store.runs) == 1, f'{len(store.runs)} runs on the server')
    tracked = next(iter(store.runs.values()))
    found = {}
    for key, step, _, value in tracked['metrics']:
        found.setdefault((key, step), []).append(value)
    expected = curves_of_lines(run)
    expect(len(expected) > 100, 'hardly any lines')
    for point in found.keys() | expected.keys():
        expect(len(found.get(point, [])) <= 1, f'{point}: {found.get(point)}')
        if with_times or not any(part in point[0] for part in TIMES):
            expect(found.get(point) == expected.get(point), f'{point}: {found.get(point)} in place of {expected.get(point)}')
    expect(tracked['info']['status'] == status, f'status {tracked["info"]["status"]}')
    expect(tracked['params'].get('optimizer.lr') == '0.01', 'no parameters')
    expect(tracked['tags'].get('trainer.directory') == str(run.output), 'no tags')
    return tracked


def compare_files(run, store):
    prefix = f'{next(iter(store.runs.values()))["info"]["artifact_uri"].split(":/")[1]}'
    expect(store.files.get(f'{prefix}/summary.json') == (run.output / 'summary.json').read_bytes(), f'files: {list(store.files)}')
    page = store.files.get(f'{prefix}/report.html', b'')
    expect(page.startswith(b'<!DOCTYPE html>') and b'running' not in page[:4000], 'no report of a finished run')
    expect(f'{prefix}/recipe.yaml' in store.files, 'no recipe')


def expect_no_secret(run):
    for path in run.folder.rglob('*'):
        if path.is_file() and path.name != '.netrc':
            expect(SECRET.encode() not in path.read_bytes(), f'{path.name} has the secret')


def well(folder):
    """A server that is well gets everything while the run trains, and its end."""
    store = Store()
    with Server(store) as server:
        run = Run(folder, server.uri + '/')
        errors = run.train()
        expect('warning' not in errors, errors)
    compare(run, store)
    compare_files(run, store)


def killed(folder):
    """A run that is killed several times and resumed stays one run, without a step twice."""
    store = Store()
    with Server(store) as server:
        run = Run(folder, server.uri, steps=12000)
        for count in (300, 900):
            process = run.start()
            run.wait_for(process, lambda: store.runs and len(next(iter(store.runs.values()))['metrics']) > 10 * count, 'metrics on the server')
            process.kill()
            process.wait()
            expect(next(iter(store.runs.values()))['info']['status'] == 'RUNNING', 'status after a kill')
        run.train()
    compare(run, store, with_times=False)
    compare_files(run, store)


def killed_in_a_request(folder):
    """The server has done a request that the killed run knows no answer to. The steps are repeated, with other times."""
    store = Store()
    with Server(store) as server:
        run = Run(folder, server.uri, steps=20000)
        words = ('r.yaml', 'checkpoint.interval=1000000ba')  # so that all steps are repeated
        process = run.start(*words)
        run.wait_for(process, lambda: store.runs and next(iter(store.runs.values()))['metrics'], 'metrics on the server')
        server.hang(late=True)
        before = len(next(iter(store.runs.values()))['metrics'])
        run.wait_for(process, lambda: len(next(iter(store.runs.values()))['metrics']) > before, 'a request while it hangs')
        process.kill()
        process.wait()
        server.come_back()
        run.train(*words)
    compare(run, store, with_times=False)


def stopped(folder):
    """A run that is asked to stop is KILLED on the server until it goes on."""
    store = Store()
    with Server(store) as server:
        run = Run(folder, server.uri, steps=20000)
        process = run.start()
        run.wait_for(process, lambda: len(run.lines()) > 20, 'lines')
        process.send_signal(signal.SIGTERM)
        run.end(process, SAVED)
        compare(run, store, 'KILLED')
        run.train('r.yaml', 'run.stop_after=' + str(json.loads(run.lines()[-1])['step'] + 30) + 'ba')
        compare(run, store, 'KILLED')


def hanging(folder):
    """A server that hangs delays the end by seconds at most, and gets everything by `trainer track`."""
    store = Store()
    with Server(store) as server:
        server.hang()
        run = Run(folder, server.uri)
        begin = time.monotonic()
        errors = run.train()
        expect(time.monotonic() - begin < 30, 'the end waited for the server')
        expect(errors.count('warning') == 1 and '`trainer track run`' in errors, errors)
        server.come_back()
        time.sleep(0.5)  # it answers what has gone
        run.track()
        compare(run, store)
        compare_files(run, store)
        before = store.requests
        run.track()  # has nothing to add
        compare(run, store)
        expect(store.requests - before < 8, 'everything again')


def comes_back(folder):
    """A server that is gone at first, comes, hangs and comes back has all at the end of the run."""
    store = Store()
    with Server(store) as first:
        port = first.port
    run = Run(folder, f'http://127.0.0.1:{port}', steps=12000)
    process = run.start()
    run.wait_for(process, lambda: 'warning' in run.errors, 'a warning')
    with Server(store, port) as server:
        run.wait_for(process, lambda: 'answers again' in run.errors, 'a word that it is back')
        server.hang()
        lines = len(run.lines())
        run.wait_for(process, lambda: len(run.lines()) > lines + 100, 'steps while it hangs')
        server.come_back()
        errors = run.end(process)
        expect(errors.count('warning') == 1, errors)
    compare(run, store)


def deleted(folder):
    """A run that somebody deleted on the server loses nothing: once it is restored, everything is sent."""
    store = Store()
    with Server(store) as server:
        run = Run(folder, server.uri, steps=12000)
        process = run.start()
        run.wait_for(process, lambda: store.runs and next(iter(store.runs.values()))['metrics'], 'metrics on the server')
        store.delete_runs()
        errors = run.end(process)
        expect(errors.count('warning') == 1 and 'restore it' in errors and '`trainer track run`' in errors, errors)
        expect('restore it' in run.track(code=74), run.errors)
        next(iter(store.runs.values()))['info']['lifecycle_stage'] = 'active'
        run.track()
    compare(run, store)


def gone(folder):
    """Without a server there is one warning while the run trains, and one at its end."""
    with Server(Store()) as server:
        uri = server.uri
    errors = Run(folder, uri).train()
    expect('does not answer' in errors and '`trainer track run`' in errors and errors.count('warning') <= 2, errors)
    errors = Run(folder, uri).track(code=74)
    expect(errors.count('\n') == 1 and 'does not answer' in errors, errors)


def lost_answers(folder):
    """Requests that the server did, but whose answers were lost, are sent again and change nothing."""
    store = Store()
    with Server(store, loses=3) as server:
        run = Run(folder, server.uri)
        run.train()
    with Server(store, loses=2) as server:
        run.track('logging.mlflow.uri=' + server.uri, code=74)
    with Server(store) as server:
        run.track('logging.mlflow.uri=' + server.uri)
    compare(run, store)


def refused(folder):
    """A refused token costs one warning; the right one sends everything. It is nowhere in the run."""
    store = Store()
    with Server(store, needs=[bearer(SECRET)]) as server:
        run = Run(folder, server.uri)
        errors = run.train(MLFLOW_TRACKING_TOKEN='another')
        expect(errors.count('warning') == 1 and 'MLFLOW_TRACKING_TOKEN' in errors and '`trainer track run`' in errors, errors)
        expect('another' not in errors, 'the token is printed')
        expect('MLFLOW_TRACKING_TOKEN' in run.track(code=74), 'no word about the token')
        run.track(MLFLOW_TRACKING_TOKEN=SECRET)
        compare(run, store)
        errors = run.track(code=64, MLFLOW_TRACKING_TOKEN=SECRET + '\n')
        expect('control character' in errors, errors)
        expect_no_secret(run)


def passwords(folder):
    """A user and a password, from the environment or ~/.netrc."""
    store = Store()
    with Server(store, needs=[basic('anna', SECRET)]) as server:
        run = Run(folder, server.uri)
        run.train(MLFLOW_TRACKING_USERNAME='anna', MLFLOW_TRACKING_PASSWORD=SECRET)
        compare(run, store)
    store = Store()
    with Server(store, needs=[basic('anna', SECRET)]) as server:
        netrc = folder / '.netrc'
        netrc.write_text(f'machine 127.0.0.1 login anna password {SECRET}\n')
        netrc.chmod(stat.S_IRUSR | stat.S_IWUSR)
        run.track('logging.mlflow.uri=' + server.uri)
        compare(run, store)
        expect_no_secret(run)


def hostile(folder):
    """Redirects are not followed; a page that is no MLflow server is named; artifacts elsewhere are left alone."""
    with Server(Store(), redirects=True) as server:
        run = Run(folder, server.uri)
        expect('redirects' in run.train(), run.errors)
    with Server(Store()) as server:
        expect('not the address of an MLflow server' in run.track(f'logging.mlflow.uri={server.uri}/else', code=74), run.errors)
    store = Store(artifacts='s3://bucket/')
    with Server(store) as server:
        expect('s3://bucket/' in run.track('logging.mlflow.uri=' + server.uri), run.errors)
    compare(run, store)
    expect(not store.files, 'files were sent')


def offline(folder):
    """The directory for `wandb sync`: rows as in metrics.jsonl, one ID for a run that is resumed."""
    run = Run(folder, '')
    (folder / 'r.yaml').write_text(RECIPE.replace('STEPS', '3000').replace('mlflow: {uri: "URI", experiment: "of a test"}', 'wandb: offline'))
    names = set()
    for words, code in ((('run.stop_after=1000ba',), 0), ((), 0), (None, 0)):
        errors = run.train('r.yaml', *words) if words is not None else run.track()
        path, = run.output.glob('wandb/offline-run-*/run-*.wandb')
        names.add(path)
        expect(words is None or f'wandb sync run/wandb/{path.parent.name}' in errors, errors)
        start, config, rows, summary, exit_code = wandb_file.read(path)
        expected = {}
        for line in map(json.loads, run.lines()):
            row = expected.setdefault(line['step'], {})
            row.update({f'{line["split"]}/{key}': value for key, value in line.items() if key not in AXES})
        for row in rows:
            time_of_row = row.pop('_timestamp')
            expect(time_of_row > 1e9 and row.pop('_runtime') >= 0, 'the times of a row')
            step = row.pop('_step')
            expect(row == expected.pop(step, None), f'the row of step {step}')
            expect(set(row) <= set(summary), 'the summary')
        expect(not expected, f'no row of steps {sorted(expected)[:4]}')
        expect(exit_code == code and config['optimizer.lr'] == 0.01 and config['optimizer.name'] == 'adamw', 'the configuration or the exit code')
        expect(start[1].decode() == path.stem.removeprefix('run-') and start[8] == b'run', 'the names')
    expect(len(names) == 1, f'{names}')
    path.unlink()
    path.mkdir()  # it cannot be written: a warning, and the run's own end
    (run.output / 'summary.json').unlink()
    errors = run.train('r.yaml', 'training.max_duration=3001ba', 'run.allow_changes=[training.max_duration]')
    expect(errors.count('warning') == 1 and '`trainer track run` writes the directory' in errors, errors)


def bad_input(folder):
    """Addresses and directories that cannot be used."""
    for uri, says in (('localhost:5000', 'r.yaml:10:'), ('http://', 'names no host'), ('http://anna:pw@host', 'MLFLOW_TRACKING_PASSWORD'),
                      ('ftp://host', 'http:// or https://')):
        errors = Run(folder, uri).train(code=78)
        expect(says in errors and 'logging.mlflow.uri' in errors and 'pw' not in errors.replace('MLFLOW', ''), errors)
    expect('offline' in Run(folder, 'http://host').train('r.yaml', 'logging.wandb=online', code=78), 'logging.wandb: online')
    run = Run(folder, 'http://127.0.0.1:1')
    expect("missing key 'uri'" in run.train('r.yaml', 'logging.mlflow={experiment: x}', code=78), run.errors)
    expect("not a run's directory" in run.track(code=64), run.errors)
    (folder / 'r.yaml').write_text(RECIPE.replace('STEPS', '6').replace(', mlflow: {uri: "URI", experiment: "of a test"}', ''))
    run.train()
    expect('names no tracker' in run.track(code=64), run.errors)
    expect('expected logging.mlflow.uri=' in run.track('optimizer.lr=1', code=64), run.errors)
    expect('http:// or https://' in run.track('logging.mlflow.uri=host', code=64), run.errors)


CASES = [well, killed, killed_in_a_request, stopped, hanging, comes_back, deleted, gone, lost_answers, refused, passwords, hostile, offline, bad_input]


def try_case(case, work):
    folder = work / case.__name__
    folder.mkdir()
    begin = time.monotonic()
    problem = None
    try:
        case(folder)
    except Failure as failure:
        problem = str(failure)
    print(f'{"FAILED" if problem else "passed"}  {time.monotonic() - begin:4.0f} s  {case.__name__}', flush=True)
    return f'{case.__name__}: {problem}' if problem else None


def main():
    chosen = [case for case in CASES if len(sys.argv) < 3 or case.__name__ in sys.argv[2:]]
    with tempfile.TemporaryDirectory(prefix='trackers-') as work, concurrent.futures.ThreadPoolExecutor(4) as pool:
        problems = [problem for problem in pool.map(lambda case: try_case(case, Path(work).resolve()), chosen) if problem]
    print('\n'.join(problems))
    sys.exit(1 if problems else 0)


if __name__ == '__main__':
    main()

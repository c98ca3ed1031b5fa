# SPDX-License-Identifier: Apache-2.0
"""Sweeps in several processes, killed and stopped at random: the table must be that of one process that nobody disturbs."""
import csv
import os
import re
import signal
import time
from functools import partial

from run import KILLED, SAVED, Run

ENDS = {0, KILLED, SAVED, -signal.SIGTERM}  # TERM may come before the program expects it
MEASURED = ('samples_per_s', 'peak_bytes', 'joules_per_sample', 'seconds')
SWEPT = '''version: 1
run: {name: swept, seed: 7}
model: {input: [1, 4, 4], layers: [flatten, {linear: 8}, relu, {linear: 10}]}
data: {format: synthetic, synthetic: {train_samples: 256, val_samples: 64}}
device: {type: cpu, threads: 1}
training: {max_duration: 1800ba, global_batch_size: 8}
optimizer: {name: sgd, lr: 0.02}
checkpoint: {interval: 100ba}
validation: {interval: 200ba}
logging: {interval: 200ba, formats: []}
sweep:
  method: {name: tpe, lag: 3}
  halving: {first: 200ba, factor: 3}
  metric: loss
  trials: 12
  parameters:
    - log_uniform: {key: optimizer.lr, from: 1.0e-4, to: 1}
    - choice: {key: optimizer.name, values: [sgd, adamw]}
    - uniform: {key: optimizer.momentum, from: 0, to: 0.9, when: {optimizer.name: sgd}}
'''


def table(run):
    """Of its sweep, without what is measured."""
    with open(run.output / 'sweep.csv', newline='') as file:
        return [{name: value for name, value in row.items() if name not in MEASURED} for row in csv.DictReader(file)]


def best(run):
    """The recipe of the best, and the bits of its weights."""
    text = (run.output / 'best.yaml').read_text()
    number = int(re.search(r'Trial (\d+)', text)[1])
    return text, (run.output / f'trial-{number:04}' / 'model.safetensors').read_bytes()


class Sweeps:
    def __init__(self, trials):
        self.trials, self.alone = trials, Run(trials, 'sweep, alone', SWEPT, ('sweep', 'run.output_dir=run'))
        self.alone.finish()

    def run(self, name, *words):
        return Run(self.trials, f'sweep, {name}', SWEPT, ('sweep', 'run.output_dir=run', *words))

    def require_same(self, run):
        run.require(table(run) == table(self.alone), 'the table differs from that of one process')
        run.require(best(run)[1] == best(self.alone)[1], 'the weights of the best differ')
        run.require(best(run)[0] == best(self.alone)[0], 'best.yaml differs')

    def two_at_once(self):
        run = self.run('two at once', 'sweep.parallel=2')
        run.finish()
        self.require_same(run)
        return 'sweep, two trials at once: the table, best.yaml and weights of one at a time'

    def three_processes(self):
        run = self.run('three processes')
        processes = [run.start() for _ in range(3)]
        for process in processes:
            run.end(process)
        self.require_same(run)
        return 'sweep, three processes: the table, best.yaml and weights of one'

    def best_alone(self):
        """The recipe of the best, trained by itself."""
        text, weights = best(self.alone)
        run = Run(self.trials, 'sweep, the best alone', text, ('run.output_dir=run',))
        run.finish()
        run.require(run.weights() == weights, 'best.yaml does not end with the bits of its trial')
        return 'sweep, best.yaml trained alone: the bits of its trial'

    def damaged(self):
        """Records that are lost are made again from the runs, one after the other and all together."""
        run = self.run('damaged records')
        run.finish()
        records = sorted(run.output.glob('trial-*.json'))
        for lost in [[record] for record in (records if self.trials.thorough else records[::4])] + [records]:
            for record in lost:
                record.write_text('{"number": 1')
            run.finish()
            self.require_same(run)
        return f'sweep, {len(records)} records damaged, each and all together: the table, best.yaml and weights of before'

    def stopped(self, kills):
        """Killed and asked to stop at random, in one or two processes, alone or with their trials."""
        random, seen = self.trials.random(7), {'killed': 0, 'with its trials': 0, 'stopped': 0}
        while sum(seen.values()) < kills:
            run = self.run(f'stopped {time.monotonic_ns()}', f'sweep.parallel={random.choice([1, 2])}')
            code = None
            while code != 0:
                processes = [run.start(start_new_session=True) for _ in range(random.choice([1, 1, 2]))]
                time.sleep(random.random() ** 2 * 1.2 * self.alone.waited)
                how = list(seen)[sum(seen.values()) % len(seen)] if sum(seen.values()) < kills else None
                for process in processes:
                    if how and process.poll() is None:
                        seen[how] += 1
                        if how == 'with its trials':
                            kill_family(process.pid)
                        process.send_signal(signal.SIGTERM if how == 'stopped' else signal.SIGKILL)
                code = max(abs(run.end(process, ENDS if how else {0})) for process in processes)
            self.require_same(run)
            run.remove()
        counts = ', '.join(f'{count} {how}' for how, count in seen.items())
        return f'sweep, processes ended at random: {counts}; the table, best.yaml and weights of one that was not'


def children_of(process):
    try:
        with open(f'/proc/{process}/task/{process}/children') as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def kill_family(process):
    """All below it, as when a machine is lost: their ends are seen by nobody."""
    try:
        os.kill(process, signal.SIGSTOP)  # it must not note how they ended
        for child in children_of(process):
            kill_family(child)
            os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        pass


def failures(trials):
    """Trials that lack memory, diverge, hang, do not fit or are killed: each has its row, and the sweep ends well."""
    recipe = SWEPT[:SWEPT.index('sweep:')] + '''sweep:
  method: grid
  metric: loss
  trial_timeout: 4s
  parameters:
    - choice:
        values:
          - {model.layers: [flatten, {linear: 900000000}, {linear: 100}, {linear: 10}]}
          - {optimizer.lr: 3.0e+37}
          - {training.max_duration: 100000000ba}
          - {model.layers: [{conv2d: {out_channels: 2, kernel_size: 9}}, flatten, {linear: 10}]}
          - {data: {format: record, train: r.yaml, val: r.yaml}}
          - {optimizer.lr: 0.01, training.max_duration: 90000000ba}
          - {optimizer.lr: 0.04}
'''
    run = Run(trials, 'sweep, failures', recipe, ('sweep', 'run.output_dir=run'))
    process = run.start()
    # The sixth is killed twice: the kernel, or somebody, wants it to end.
    for _ in range(2):
        victim = run.wait_for(process, lambda: trial_process(process.pid, 'trial-0006'), 'its sixth trial trains')
        signal_process(victim)
        run.wait_for(process, lambda: trial_process(process.pid, 'trial-0006') != victim, 'the killed trial is gone')
    run.end(process)
    expected = {1: 'memory', 2: 'numeric', 3: 'timeout', 4: 'settings', 5: 'data', 6: 'killed'}
    for row in table(run):
        number, reason = int(row['trial']), row['reason'].split(':')[0]
        run.require(reason == expected.get(number, ''), f'trial {number}: {row["state"]}, {row["reason"]}')
        run.require((row['state'] == 'failed') == (number in expected), f'trial {number} is {row["state"]}')
        run.require(row['state'] != 'finished' or row['loss'], f'trial {number} has no value')
    return 'sweep, trials without memory, diverging, hanging, not fitting, with bad data, killed: each with its reason, exit code 0'


def trial_process(sweep, name):
    for child in children_of(sweep):
        try:
            with open(f'/proc/{child}/cmdline') as file:
                if name in file.read():
                    return child
        except OSError:
            continue
    return None


def signal_process(process):
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


def checks(trials):
    sweeps = Sweeps(trials)
    kills = trials.options.kills or (100 if trials.thorough else 8)
    return [sweeps.two_at_once, sweeps.three_processes, sweeps.best_alone, sweeps.damaged, partial(sweeps.stopped, kills), partial(failures, trials)]

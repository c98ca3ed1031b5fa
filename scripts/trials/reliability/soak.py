# SPDX-License-Identifier: Apache-2.0
"""Long runs hold no more at their end than after their first tenth: memory, descriptors, threads, files. One process
that takes every step shows what grows with steps, many that continue one another show what grows with resumes, and one
that often goes back to its last checkpoint shows what grows with each return."""
import os
import signal
import time
from functools import partial
from pathlib import Path

from checkpoints import require_equal
from run import SAVED, Run, require

INTERVAL = 1000  # steps between checkpoints, and between evaluations
RECIPE = f'''version: 1
run: {{name: soak, seed: 3, output_dir: run}}
model:
  input: [1, 4, 4]
  layers: [flatten, linear: 4, relu, linear: 2]
data: {{format: synthetic, synthetic: {{train_samples: 64, val_samples: 16}}, workers: 1}}
training: {{max_duration: {{steps}}ba, global_batch_size: 8}}
optimizer: {{name: sgd, lr: 0.01}}
validation: {{interval: {INTERVAL}ba, metrics: [top1]}}
logging: {{interval: 100ba, formats: [tensorboard, csv]}}
checkpoint: {{interval: {INTERVAL}ba, keep_best: loss}}
'''.replace('{{', '{').replace('}}', '}')
# Each step writes to these, so they grow; all else in a run has a bound.
LOGS = ('metrics.jsonl', 'metrics.csv', 'log.txt', 'events.out.')
# Chance alone is a spike now and then. None is looked for before half a window, when there is a checkpoint to return to.
RETURNS = ['checkpoint={interval: 50ba, keep_best: null}',
           'guards={spike: rollback, spike_sigmas: 3, spike_window: 128, max_skips: 0, max_rollbacks: 1000}']
PAUSE = 0.005  # seconds between samples
WINDOWS = 9

# What may be gained per 1,000 steps, which have a checkpoint and an evaluation, and per resume or rollback. One descriptor,
# thread or file lost at each of them is a slope of 1. One that a save holds at only half of the moments compared is a slope of
# 0.2 at most.
# Processes of equal work differ by some 100 kB, as their pages lie.
BOUNDS = {'resident memory': (20e3, 50e3), 'descriptors': (0.5, 0.5), 'threads': (0.5, 0.5),
          'temporary files': (0.5, 0.5), 'files': (0.5, 0.5), 'bytes without logs': (1000, 1000)}


def is_log(path):
    return path.name.startswith(LOGS)


def files_of(run):
    """Bytes of each file in the run and in its temporary directory; those that go meanwhile are left out."""
    found = {}
    for root in (run.output, run.directory / 'tmp'):
        for directory, _, names in os.walk(root):
            for name in names:
                path = Path(directory, name)
                try:
                    found[path] = path.stat().st_size
                except FileNotFoundError:
                    pass
    return found


def on_disk(run):
    files = files_of(run)
    return {'temporary files': sum('.tmp-' in str(path) or run.directory / 'tmp' in path.parents for path in files),
            'files': len(files), 'bytes without logs': sum(size for path, size in files.items() if not is_log(path))}


def bytes_of_logs(run):
    return sum(size for path, size in files_of(run).items() if is_log(path))


def in_process(pid):
    """None of a process that is gone."""
    process = Path(f'/proc/{pid}')
    try:
        status = dict(line.split(':\t', 1) for line in (process / 'status').read_text().splitlines() if ':\t' in line)
        return {'resident memory': int(status['VmRSS'].split()[0]) * 1024,
                'descriptors': len(os.listdir(process / 'fd')), 'threads': len(os.listdir(process / 'task'))}
    except (OSError, KeyError):  # a zombie has no memory
        return None


def start(run):
    temporary = run.directory / 'tmp'
    temporary.mkdir(exist_ok=True)
    # The allocator gives back at once what is freed. What it keeps hides a leak, and looks like one after metrics were read.
    return run.start(environment={'TMPDIR': str(temporary), 'MALLOC_TRIM_THRESHOLD_': '65536', 'MALLOC_MMAP_THRESHOLD_': '65536'})


def samples_of(run, process):
    """Pairs of a step and what was held then, while the process runs."""
    while process.poll() is None:
        held = in_process(process.pid)
        if held is not None:
            yield run.last_step(), held | on_disk(run)
        time.sleep(PAUSE)


def slope(samples, quantity):
    """Least squares over the lowest value in each part of the samples, after the first tenth. The lowest, since a save
    that is under way holds a thread, descriptors and files for a moment, while what is lost stays."""
    first, last = samples[0][0], samples[-1][0]
    low, places = {}, {}
    for at, held in samples:
        window = int((at - first) * (WINDOWS + 1) / (last - first + 1e-9)) - 1
        if window >= 0 and held[quantity] < low.get(window, float('inf')):
            low[window], places[window] = held[quantity], at
    require(len(low) > 2, f'{len(samples)} samples are too few for a slope')
    mean_at, mean = (sum(values.values()) / len(low) for values in (places, low))
    return (sum((places[i] - mean_at) * (low[i] - mean) for i in low) /
            sum((places[i] - mean_at) ** 2 for i in low))


def in_figures(quantity, value):
    digits = 0 if quantity in ('resident memory', 'bytes without logs') else 2
    return f'{round(value, digits) + 0.0:,.{digits}f}'  # + 0.0: no minus before a zero


def flat(what, unit, samples, column):
    """What was gained; `column`: of the bounds that it must keep."""
    found = {quantity: slope(samples, quantity) for quantity in BOUNDS}
    last = samples[-1][1]
    for quantity, value in found.items():
        require(value <= BOUNDS[quantity][column], f'{what}: {quantity} grows by {in_figures(quantity, value)} {unit}, '
                f'more than {BOUNDS[quantity][column]:g}')
    return f'{what}: gained {unit}: ' + ', '.join(f'{quantity} {in_figures(quantity, value)} of {last[quantity]:,}' for quantity, value in found.items())


def one_process(run, steps):
    """The run that all steps take in one process."""
    process = start(run)
    # After its last step a process closes what it held.
    samples = [(step / 1000, held) for step, held in samples_of(run, process) if step < steps]
    run.end(process)
    return flat(f'{steps:,} steps, one process', 'per 1,000 steps', samples, 0)


def until(run, process, step):
    """Lowest values in the process from its own first line of metrics on, until a step was logged; then it is asked to
    stop. None if it was done before."""
    before, lowest = None, None
    for at, held in samples_of(run, process):
        before = at if before is None else before
        if at <= before:
            continue
        lowest = held if lowest is None else {name: min(value, held[name]) for name, value in lowest.items()}
        if at >= step:
            process.send_signal(signal.SIGTERM)
            return lowest
    return None


def many_processes(run, steps, stops):
    """The same run by processes that are asked to stop in turn; also returns the number of resumes."""
    samples = []
    for resume in range(stops):
        process = start(run)
        held = until(run, process, (resume + 1) * steps // (stops + 1))
        if run.end(process, {0, SAVED}) == 0:
            break
        samples.append((resume, held | on_disk(run)))
    else:
        run.finish()
    run.require(len(samples) > stops / 2, f'only {len(samples)} stops of {stops} came before the end')
    return flat(f'{steps:,} steps, {len(samples)} resumes', 'per resume', samples, 1), len(samples)


def returns(trials):
    """A run with guards that return to the last checkpoint, within the process."""
    run = Run(trials, 'soak-returns', RECIPE.replace('{steps}', '10000'), RETURNS)
    process = start(run)
    samples = [(run.errors.count('rolling back'), held) for step, held in samples_of(run, process) if step < 10_000]
    run.end(process)
    count = run.errors.count('rolling back')
    run.require(count >= 20, f'only {count} rollbacks')
    return flat(f'10,000 steps, {count} rollbacks', 'per rollback', samples, 1)


def soak(trials):
    steps, stops = (200_000, 50) if trials.thorough else (60_000, 20)
    whole, resumed = (Run(trials, f'soak-{name}', RECIPE.replace('{steps}', str(steps))) for name in ('whole', 'resumed'))
    in_one = one_process(whole, steps)
    in_many, resumes = many_processes(resumed, steps, stops)
    require_equal(whole, resumed, every_checkpoint=False)
    logs, more = bytes_of_logs(whole), (bytes_of_logs(resumed) - bytes_of_logs(whole)) / resumes
    require(more < 2000, f'the logs grow by {more:.0f} bytes per resume')
    return f'{in_one}\n{in_many}\nlogs: {logs / steps:.1f} bytes per step, {more:.0f} more per resume; both runs bitwise identical'


def checks(trials):
    yield partial(soak, trials)
    yield partial(returns, trials)

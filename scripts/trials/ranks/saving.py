# SPDX-License-Identifier: Apache-2.0
"""What rank 0 holds while it saves a network that ranks divide."""
import json
import os
import subprocess

from run import require

from ranks.processes import Ranks

# 16 MiB for the largest tensor and twice that for its moments; the network has 85 MiB of parameters.
RECIPE = '''version: 1
run: {name: wide, seed: 3, output_dir: run}
device: {type: cpu}
model:
  input: [1, 2, 8]
  layers: [flatten, linear: 2048, relu, linear: 2048, relu, linear: 2048, relu, linear: 2048, relu, linear: 2048, relu, linear: 2048, relu, linear: 8]
data: {format: synthetic, synthetic: {train_samples: 640, val_samples: 64}}
training: {max_duration: 30ba, global_batch_size: 8, micro_batch_size: 2}
optimizer: {name: adamw, lr: 0.001}
checkpoint: {interval: 10ba}
logging: {formats: []}
'''
LARGEST, MARGIN = 2048 * 2048 * 4, 32 << 20
PAGE = os.sysconf('SC_PAGE_SIZE')


def resident(pid):
    """Bytes of a process in memory, without files that it shares; and the most of all its memory so far."""
    try:
        with open(f'/proc/{pid}/statm') as file, open(f'/proc/{pid}/status') as status:
            _, pages, shared, *_ = map(int, file.read().split())
            peak = next((line.split()[1] for line in status if line.startswith('VmHWM')), 0)
            return (pages - shared) * PAGE, int(peak) * 1024
    except (OSError, ValueError):
        return 0, 0


def planned(run, *words):
    command = [run.trials.trainer, 'plan', '--json', '--config', 'r.yaml', *run.words, *words]
    return json.loads(subprocess.check_output(command, cwd=run.directory))['memory']['peak_bytes']


def memory(trials, name, data, *words):
    """By how much rank 0's memory grows in later saves, when all that a run holds throughout has been there in the first; and its peak
    beside the plan's."""
    run = Ranks(trials, f'saving {name}', RECIPE, words)
    plan = planned(run, *([f'parallelism.data={data}'] if data > 1 else []))
    # What is freed goes back to the system at once.
    process = run.begin(data, environment={'MALLOC_MMAP_THRESHOLD_': str(1 << 20), 'MALLOC_TRIM_THRESHOLD_': '0'})
    run.wait_for(process, run.saved, 'a first checkpoint')
    pid = run.processes()[0]
    seen, peak = [], 0
    while process.poll() is None and pid in run.processes().values():
        writing = any(run.output.glob('checkpoints/.saving-*'))
        now, most = resident(pid)
        seen, peak = [*seen, (now, writing)], max(peak, most)
    run.end(process)
    # Between the first save and the end of the last.
    while seen and not seen[-1][1]:
        seen.pop()
    require(not all(writing for _, writing in seen), f'{name}: no training was seen between saves')
    grown = max(now for now, writing in seen if writing) - min(now for now, _ in seen)
    require(grown <= LARGEST + MARGIN, f'{name}: rank 0 grows by {grown / 2**20:.1f} MiB while it saves')
    require(0.9 * plan < peak < 1.05 * plan, f'{name}: rank 0 takes {peak / 2**20:.1f} MiB, {plan / 2**20:.1f} are planned')
    return f'{name} {grown / 2**20:.1f} (peak {peak / 2**20:.0f}, planned {plan / 2**20:.0f})'


def rank_0_while_it_saves(trials):
    found = [memory(trials, name, data, *words) for name, data, *words in (
        ('whole 2', 2), ('shards 2', 2, 'parallelism.shard_parameters=true'), ('moments 2', 2, 'parallelism.shard_optimizer=true'),
        ('tensor 2', 1, 'parallelism.tensor=2'), ('pipeline 2', 1, 'parallelism.pipeline=2'))]
    return f'MiB by which rank 0\'s memory grows while it saves, with a largest tensor of {LARGEST >> 20}: {", ".join(found)}'

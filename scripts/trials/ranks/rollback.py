# SPDX-License-Identifier: Apache-2.0
"""Ranks that divide a network return to a checkpoint, of which rank 0 alone reads the files."""
from recipes import pixel, write_images

from ranks.equal import farthest
from ranks.guarded import RECIPE
from ranks.processes import Ranks

SEED, STEP = 1, 4  # with this seed the white image is in that step, and the last checkpoint is two steps before


def divisions_roll_back(trials):
    images = write_images(trials.work / 'rolled-back-images', train=10)
    (images / 'train/bright/white.png').write_bytes(pixel(255))
    recipe = RECIPE.format(seed=SEED, images=images)
    words = ['guards.nonfinite=rollback', 'guards.max_skips=0', 'checkpoint.interval=2ba']
    alone, told = Ranks(trials, 'rolled_back_alone', recipe, words).train(1), []
    for way, data, *more in (('shards', 2, 'parallelism.shard_parameters=true'), ('moments', 2, 'parallelism.shard_optimizer=true'),
                             ('tensor', 1, 'parallelism.tensor=2'), ('pipeline', 1, 'parallelism.pipeline=2', 'parallelism.cuts=["8"]')):
        run = Ranks(trials, f'rolled back {way}', recipe, [*words, *more]).train(data)
        events = [(line['event'], line['step']) for line in run.metrics() if line['split'] == 'guard']
        run.require(events == [('roll_back', STEP - 1), ('skip', STEP - 1), ('skip', STEP)], f'its guards do {events}')
        change = farthest(alone, run)
        run.require(change < 1e-6, f'weights differ by {change:.1e} from one process\'s')
        told.append(f'{way} {change:.1e}')
    return f'a NaN in step {STEP}, and a return to the checkpoint of step {STEP - 2}: weights differ from one process\'s by {", ".join(told)}'

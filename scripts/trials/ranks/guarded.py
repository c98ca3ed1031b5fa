# SPDX-License-Identifier: Apache-2.0
"""A sample that one rank alone holds and that makes its values infinite: all ranks skip the step."""
import re

from recipes import pixel, write_images

from ranks.processes import Ranks

# A white image is x = 5, of which the 64th power is infinite; x of the others is at most 0.9.
RECIPE = '''version: 1
run: {{name: guarded, seed: {seed}, output_dir: run}}
model:
  input: [3, 4, 4]
  layers:
    - flatten: {{name: x}}
    - mul: {{name: x2, inputs: [x, x]}}
    - mul: {{name: x4, inputs: [x2, x2]}}
    - mul: {{name: x8, inputs: [x4, x4]}}
    - mul: {{name: x16, inputs: [x8, x8]}}
    - mul: {{name: x32, inputs: [x16, x16]}}
    - mul: {{name: x64, inputs: [x32, x32]}}
    - add: {{inputs: [x, x64]}}
    - linear: 8
    - relu
    - linear: 2
data:
  format: image_folder
  train: {images}/train
  workers: 1
  augment: [random_resized_crop: 4, normalize: {{mean: [0], std: [0.2]}}]
training: {{max_duration: 1ep, global_batch_size: 4, micro_batch_size: 2, ema: {{decay: 0.9}}}}
optimizer: {{name: adamw, lr: 0.01, clip_norm: 0.5}}
guards: {{nonfinite: skip}}
logging: {{interval: 1ba}}
device: {{type: cpu}}
'''
SEED, RANK, STEP = 16, 1, 3  # with this seed that rank holds the white image, in that step


def skipped_steps(run):
    return [line['step'] for line in run.metrics() if line.get('event') == 'skip']


def nan_of_one_rank(trials):
    images = write_images(trials.work / 'guarded-images', train=10)
    (images / 'train/bright/white.png').write_bytes(pixel(255))
    recipe = RECIPE.format(seed=SEED, images=images)
    pair, alone = (Ranks(trials, f'guarded_{ranks}', recipe).train(ranks) for ranks in (2, 1))
    asked = Ranks(trials, 'guarded_asked', recipe, [f'guards.skip_steps=[{STEP}]']).train(2)
    cut = Ranks(trials, 'guarded_cut', recipe, ['parallelism.shard_parameters=true']).train(2)
    cut.require(re.search(rf'first non-finite value: .* on rank {RANK}', cut.errors), f'ranks with parts do not name rank {RANK}')
    cut.require(skipped_steps(cut) == [STEP], f'with parts skipped are steps {skipped_steps(cut)}')
    where = re.search(r'first non-finite value: .* on (rank \d+)', pair.errors)
    pair.require(where and where[1] == f'rank {RANK}', f'no image of rank {RANK} alone is white')
    for run in pair, alone:
        run.require(skipped_steps(run) == [STEP], f'skipped are steps {skipped_steps(run)}')
    for name, other in ('one process with two micro-batches', alone), ('two ranks with that step in guards.skip_steps', asked):
        for weights in 'model.safetensors', 'model_ema.safetensors':
            pair.require((pair.output / weights).read_bytes() == (other.output / weights).read_bytes(), f'{weights} has other bits than {name}')
    return (f'a NaN of rank {RANK} alone in step {STEP}: all skip it; weights and averages have the bits of one process with two micro-batches, '
            'and of two ranks with that step in guards.skip_steps; ranks with parts of the parameters skip it too, and name the rank')


def nan_in_shared_operations(trials):
    """Of ranks that share operations all have the sample; of a pipeline one stage alone makes the value. The steps after it are sound."""
    images = write_images(trials.work / 'shared-images', train=10)
    (images / 'train/bright/white.png').write_bytes(pixel(255))
    recipe = RECIPE.format(seed=SEED, images=images)
    alone = Ranks(trials, 'nan_alone', recipe).train(1)
    divided = {way: Ranks(trials, f'nan {way}', recipe, words).train(1) for way, words in (
        ('tensor', ['parallelism.tensor=2']), ('first stage', ['parallelism.pipeline=2', 'parallelism.cuts=["8"]']),
        ('second stage', ['parallelism.pipeline=2', 'parallelism.cuts=[x16]']))}
    first = re.search(r'first non-finite value: (.*?), micro-batch', alone.errors)
    alone.require(first and skipped_steps(alone) == [STEP], f'skipped are steps {skipped_steps(alone)}')
    for way, run in divided.items():
        run.require(skipped_steps(run) == [STEP], f'{way}: skipped are steps {skipped_steps(run)}')
        own = re.search(r'first non-finite value: (.*?)(, micro-batch|, on rank)', run.errors)
        run.require(own and own[1] == first[1], f'{way}: the search finds {own and own[1]}, not {first[1]}')
        for before, after in zip(alone.losses(), run.losses(), strict=True):
            run.require(before == after or abs(before - after) < 1e-5 * abs(before), f'{way}: a loss of {after}, not {before}')
    return f'a NaN in step {STEP}: ranks that share operations, and stages, skip it too, and find it where one process does'

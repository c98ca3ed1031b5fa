# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints, before the whole program: refused by the file's name, and the one before used. That each of a
thousand positions is refused is tested in C++ (tests/run/damage_test.cpp)."""
import shutil
from functools import partial

from checkpoints import require_equal
from recipes import RECIPES
from run import Run, step_of


def flip(path, at, bit):
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def flipped_bits(trials):
    whole, random, count = trials.undisturbed('mlp'), trials.random(), 48 if trials.thorough else 8
    newest, before = whole.checkpoints()[:2]
    files = sorted(path.name for path in newest.iterdir())
    for i in range(count):
        run = Run(trials, f'damage-{i}', RECIPES['mlp'])
        shutil.copytree(whole.output, run.output)
        (run.output / 'summary.json').unlink()  # no longer finished
        path = run.output / 'checkpoints' / newest.name / files[i % len(files)]
        flip(path, random.randrange(path.stat().st_size), random.randrange(8))
        run.finish()
        run.require(path.name in run.errors and f'skipping checkpoint {newest.name}' in run.errors, f'{path.name} is not named')
        run.require(run.went_on_from() == step_of(before), 'it does not go on from the checkpoint before')
        kept = run.output / 'checkpoints' / f'damaged-{newest.name}'
        run.require(sorted(each.name for each in kept.iterdir()) == files, 'the damaged one is gone')
        require_equal(whole, run, every_checkpoint=False)
        run.remove()
    return f'flipped bits: {count} in {len(files)} files: each refused naming the file and kept, the previous checkpoint used, results bitwise identical'


def checks(trials):
    yield partial(flipped_bits, trials)

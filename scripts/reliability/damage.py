# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints, before the whole program: refused by the file's name, and the one before used. That each of a
thousand positions is refused is tested in C++ (tests/run/damage_test.cpp)."""
import shutil

from runs import Run, require, require_equal, step_of
from stops import uncut


def flip(path, at, bit):
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def all_of(context):
    expected, _ = uncut(context, 'mlp')
    whole = Run(context.trainer, context.work / 'damage', ['--config', str(context.recipes['mlp'])])
    require(whole.finish() == 0, whole.errors)
    (whole.output / 'summary.json').unlink()  # no longer finished
    newest, before = whole.checkpoints()[:2]
    count = 48 if context.thorough else 8
    files = sorted(newest.iterdir())
    for i in range(count):
        run = Run(context.trainer, context.work / f'damage-{i}', whole.arguments)
        shutil.copytree(whole.output, run.output)
        path = run.output / 'checkpoints' / newest.name / files[i % len(files)].name
        flip(path, context.random.randrange(path.stat().st_size), context.random.randrange(8))
        require(run.finish() == 0, run.errors)
        require(path.name in run.errors and f'skipping checkpoint {newest.name}' in run.errors, run.errors)
        require(run.went_on_from() == step_of(before), run.errors)
        kept = run.output / 'checkpoints' / f'damaged-{newest.name}'
        require(sorted(each.name for each in kept.iterdir()) == [each.name for each in files], 'the damaged one is gone')
        require_equal(expected, run, every_checkpoint=False)
        context.remove(run)
    context.report('flipped bits', f'{count} in {len(files)} files: each refused naming the file and kept, the '
                   'previous checkpoint used, equal bits in the end')

# SPDX-License-Identifier: Apache-2.0
"""What is tried when a run is finished."""
from newcomer import commands

LENGTH = 'training.max_duration=5ba'
CASES = [
    (['clothes.yaml', LENGTH, 'run.output_dir=run'], 0, 'finished'),
    (['runs', '.'], 0, 'finished   5/5'),
    (['predict', 'run', 'clothes/bag/3.png'], 0, '"file":"clothes/bag/3.png"'),
    (['predict', 'run', 'clothes/bag/no.png'], 65, 'clothes/bag/no.png'),
    (['predict', 'clothes', 'clothes/bag/3.png'], 64, "expected a run's directory"),
    (['eval', 'run'], 0, 'top1'),
    (['eval', 'run', 'data.eval_transform=[resize: 32, center_crop: 32]'], 78, '--as-trained'),
    (['report', 'run'], 0, 'report.html'),
    (['inspect', 'run'], 0, 'model.safetensors'),
    (['clothes.yaml', LENGTH, 'run.output_dir=run', 'optimizer.lr=0.3'], 78, 'optimizer.lr'),
]


def prepare(run):
    commands.prepare(run)
    done = run.trials.ask(run.directory, ['clothes.yaml', LENGTH, 'run.output_dir=run'])
    run.require(done.returncode == 0, done.stderr)

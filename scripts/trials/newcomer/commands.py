# SPDX-License-Identifier: Apache-2.0
"""Words of a command line."""
from newcomer.images import write_clothes

USAGE, RECIPE = 64, 78
CASES = [
    ([], 0, 'Usage: trainer'),
    (['help'], 0, 'Usage: trainer'),
    (['help', 'plan'], 0, 'trainer plan'),
    (['version'], 0, 'trainer 0'),
    (['trian', 'clothes.yaml'], USAGE, "did you mean 'train'?"),
    (['clothes'], USAGE, '`trainer init clothes` writes a recipe'),
    (['train'], USAGE, '--config is required'),
    (['clothse.yaml'], RECIPE, "did you mean 'clothes.yaml'?"),
    (['clothes.yml'], RECIPE, "did you mean 'clothes.yaml'?"),
    (['clothes.yaml', '--epochs', '3'], USAGE, "write the recipe's key, training.max_duration=10ep"),
    (['clothes.yaml', '--batch-size=8'], USAGE, "write the recipe's key, training.global_batch_size="),
    (['clothes.yaml', '--lr', '0.1'], USAGE, 'keys of the recipe are written without dashes, such as optimizer.lr=0.1'),
    (['layers', 'Conv2d'], USAGE, "did you mean 'conv2d'?"),
    (['layers', 'nn.Linear'], USAGE, "did you mean 'linear'?"),
    (['report', 'clothes'], USAGE, '`trainer runs` lists them'),
    (['runs', 'elsewhere'], 74, 'elsewhere'),
]


def prepare(run):
    write_clothes(run)
    run.require(run.trials.ask(run.directory, ['init', 'clothes']).returncode == 0, 'init failed')

# SPDX-License-Identifier: Apache-2.0
"""Habits and mistakes of somebody's first day, and what the program must answer: the exit code, and words that say what to do.

commands: words of a command line, alone and with a recipe.
recipes: keys and values, also those that PyTorch's scripts and other trainers use.
images: folders, label files and images as people have them.
texts: books as people have them.
after: what is tried once a run is finished.
"""
from functools import partial

from run import Run
from trials import AT_ONCE  # noqa: F401

from newcomer import commands, finished, images, recipes, texts

PATIENCE, SEED = 120, 1


def ask(run, words, code, says):
    """Starts the program with these words only; `says` is part of what it prints, on either stream."""
    name = ' '.join(['trainer', *words])
    done = run.trials.ask(run.directory, words)
    printed = done.stdout + done.stderr
    answered = done.returncode == code and says in printed and 'internal error' not in printed
    run.require(answered, f'`{name}` ended with {done.returncode} and said\n{printed[-1500:]}\nexpected: {code}, "{says}"')


def checks_of(module):
    """One folder for all cases of a part: they only ask."""
    def checks(trials):
        run = Run(trials, module.__name__)
        module.prepare(run)
        return (partial(ask, run, *case) for case in module.CASES)
    return checks


PARTS = {module.__name__.rpartition('.')[2]: checks_of(module) for module in (commands, recipes, images, texts, finished)}


def parts_of(options):
    return options.parts or PARTS


def add_options(parser):
    parser.set_defaults(summary=None, thorough=False)

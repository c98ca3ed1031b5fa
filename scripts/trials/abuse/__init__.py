# SPDX-License-Identifier: Apache-2.0
"""Attacks the program from outside: limits, signals, hostile extents, damaged files, strange outputs, memory that runs out, reads
that fail. Each attack must end with one of its exit codes and a sentence, never by a signal of the program's own making, and leave a
state that goes on."""
from functools import partial

from run import Run
from trials import AT_ONCE  # noqa: F401

from abuse import directories, extents, files, limits, memory, outputs, reads, signals

PATIENCE, SEED = 120, 1


def attack(trials, name, function, *details):
    run = Run(trials, name)
    function(run, *details)
    run.remove()


def checks_of(module):
    """Its attacks are names, functions of a run, and further arguments."""
    return lambda trials: (partial(attack, trials, *each) for each in module.attacks(trials))


PARTS = {module.__name__.rpartition('.')[2]: checks_of(module)
         for module in (extents, signals, limits, files, outputs, directories, memory, reads)}


def parts_of(options):
    return options.parts or PARTS


def add_options(parser):
    parser.add_argument('--thorough', action='store_true', help='more values of each extent and limit')
    parser.set_defaults(summary=None)

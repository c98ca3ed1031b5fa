# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out in any command, at any allocation, in libraries too. Each command ends with 71 or 74 and a sentence, or does
its work nevertheless, and then to the last byte. Afterwards the same command, undisturbed, makes what it always makes."""
import re

from attack import Failure
from commands import COMMANDS, Trial

MEMORY, IO = 71, 74
ONCE, FULL = 100, 20  # places of a thorough trial: of one allocation that fails, and from where memory is full
SENTENCE = re.compile(r'memory|thread')


def undisturbed(trial, command):
    """What it makes, and how many allocations that takes."""
    place = trial.place('undisturbed', command)
    path = place.directory / 'count'
    place.run(command.words, {0}, environment=environment(trial.context, FAULT_MEMORY_COUNT=path))
    made = command.result(place), int.from_bytes(path.read_bytes(), 'little')
    place.remove()
    return made


def environment(context, **settings):
    return {'LD_PRELOAD': str(context.memory_faults), **{name: str(value) for name, value in settings.items()}}


def spread(count, places):
    """As many numbers from 1 to count, evenly."""
    return sorted({max(1, (2 * i + 1) * count // (2 * places)) for i in range(places)})


def attack_at(trial, command, at, full, expected):
    settings = {'FAULT_MEMORY_AT': at, **({'FAULT_MEMORY_FULL': 1} if full else {})}
    place = trial.place(f'memory full at {at}' if full else f'allocation {at}', command)
    code = place.run(command.words, {0, MEMORY, IO}, environment=environment(trial.context, **settings))
    place.require(code != MEMORY or SENTENCE.search(place.errors), 'it does not speak of memory')
    if code == 0:
        place.require(command.result(place) == expected, 'exit 0 with another result')
    elif command.product:
        place.run(command.words, {0})
        place.require(command.result(place) == expected, 'another result afterwards')
    place.remove()


def attacks_on(trial, command, once, full):
    """All of one command; each place is tried, whatever comes of the others."""
    def attack():
        expected, number = undisturbed(trial, command)
        failures = []
        for at, is_full in [(at, False) for at in spread(number, once)] + [(at, True) for at in spread(number, full)]:
            try:
                attack_at(trial, command, at, is_full, expected)
            except Failure as failure:
                failures.append(str(failure))
        if failures:
            raise Failure('\nFAILED: '.join(failures))
    return attack


def attacks(context):
    trial = Trial(context, 'memory')
    once, full = (ONCE, FULL) if context.thorough else (2, 1)
    for command in COMMANDS:
        yield attacks_on(trial, command, once, full)

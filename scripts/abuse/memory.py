# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out in any command, at any allocation, in libraries too. Each command ends with 71 or 74 and a sentence, or does
its work nevertheless, and then to the last byte. Afterwards the same command, undisturbed, makes what it always makes."""
import re

from commands import COMMANDS, Trial

MEMORY, IO = 71, 74
ONCE, FULL = 100, 20  # places of a thorough trial: of one allocation that fails, and from where memory is full
SENTENCE = re.compile(r'memory|thread')


def count(trial, command):
    """How many allocations it takes."""
    place = trial.place('counted', command)
    path = place.directory / 'count'
    place.run(command.words, {0}, environment=environment(trial.context, FAULT_MEMORY_COUNT=path))
    number = int.from_bytes(path.read_bytes(), 'little')
    place.remove()
    return number


def environment(context, **settings):
    return {'LD_PRELOAD': str(context.memory_faults), **{name: str(value) for name, value in settings.items()}}


def spread(count, places):
    """As many numbers from 1 to count, evenly."""
    return sorted({max(1, (2 * i + 1) * count // (2 * places)) for i in range(places)})


def attack_at(trial, command, at, full, expected):
    settings = {'FAULT_MEMORY_AT': at, **({'FAULT_MEMORY_FULL': 1} if full else {})}

    def attack():
        place = trial.place(f'memory full at {at}' if full else f'allocation {at}', command)
        code = place.run(command.words, {0, MEMORY, IO}, environment=environment(trial.context, **settings))
        place.require(code != MEMORY or SENTENCE.search(place.errors), 'it does not speak of memory')
        if code == 0:
            place.require(command.result(place) == expected, 'exit 0 with another result')
        elif command.product:
            place.run(command.words, {0})
            place.require(command.result(place) == expected, 'another result afterwards')
        place.remove()
    return attack


def attacks(context):
    trial = Trial(context, 'memory')
    once, full = (ONCE, FULL) if context.thorough else (2, 1)
    for command in COMMANDS:
        expected, number = trial.expected(command), count(trial, command)
        for at in spread(number, once):
            yield attack_at(trial, command, at, False, expected)
        for at in spread(number, full):
            yield attack_at(trial, command, at, True, expected)

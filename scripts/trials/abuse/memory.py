# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out in any command, at any allocation, in libraries too. Each command ends with 71 or 74 and a sentence, or does
its work nevertheless, and then to the last byte. Afterwards the same command, undisturbed, makes what it always makes."""
import re

from run import IO, MEMORY, Failure, preload

from abuse.commands import COMMANDS, Commands

ONCE, FULL = 100, 20  # places of a thorough trial: of one allocation that fails, and from where memory is full
SENTENCE = re.compile(r'memory|thread')


def environment(run, **settings):
    return preload(run.trials.memory_faults, 'FAULT_MEMORY_', **settings)


def undisturbed(commands, command):
    """What it makes, and how many allocations that takes."""
    run = commands.run('undisturbed', command)
    path = run.directory / 'count'
    run.finish(*command.words, environment=environment(run, count=path))
    return command.result(run), int.from_bytes(path.read_bytes(), 'little')


def spread(count, places):
    """As many numbers from 1 to count, evenly."""
    return sorted({max(1, (2 * i + 1) * count // (2 * places)) for i in range(places)})


def attack_at(commands, command, expected, at, **full):
    run = commands.run(f'memory full at {at}' if full else f'allocation {at}', command)
    code = run.finish(*command.words, codes={0, MEMORY, IO}, environment=environment(run, at=at, **full))
    run.require(code != MEMORY or SENTENCE.search(run.errors), 'it does not speak of memory')
    if code == 0:
        run.require(command.result(run) == expected, 'exit 0 with another result')
    elif command.product:
        run.finish(*command.words)
        run.require(command.result(run) == expected, 'another result afterwards')
    run.remove()


def attack(_, commands, command, once, full):
    """At all places of one command; each is tried, whatever comes of the others."""
    (expected, number), failures = undisturbed(commands, command), []
    for at, how in [(at, {}) for at in spread(number, once)] + [(at, {'full': 1}) for at in spread(number, full)]:
        try:
            attack_at(commands, command, expected, at, **how)
        except Failure as failure:
            failures.append(str(failure))
    if failures:
        raise Failure('\nFAILED: '.join(failures))


def attacks(trials):
    commands = Commands(trials, 'memory')
    places = (ONCE, FULL) if trials.thorough else (2, 1)
    for command in COMMANDS:
        yield f'memory of {command.name}', attack, commands, command, *places

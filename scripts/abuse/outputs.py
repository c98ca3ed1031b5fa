# SPDX-License-Identifier: Apache-2.0
"""Outputs that take nothing, or only a little. A run outlives whoever reads its messages."""
from attack import BROKEN_PIPE, simple

DATA, IO = 65, 74


def shell(line):
    return ['sh', '-c', line, 'sh']


def trains(context, name, prefix, environment=None):
    def attack():
        place = context.place(name)
        place.run([], {0}, prefix=prefix, environment=environment)
        place.require(place.weights() == context.bits, 'the weights differ from those of an undisturbed run')
        place.remove()
    return attack


def full(context, name):
    """A file of a stopped run leads to a device that is always full."""
    def attack():
        place = context.place(f'full {name}')
        place.run(['training.max_duration=12ba'], {0})
        (place.directory / 'run' / name).unlink()
        (place.directory / 'run' / name).symlink_to('/dev/full')
        place.run(['run.allow_changes=[training.max_duration]'], {DATA}, f'{name}: expected a regular file, found a symbolic link')
        place.remove()
    return attack


def attacks(context):
    context.bits
    for stream, number in (('stdin', 0), ('stdout', 1), ('stderr', 2)):
        yield trains(context, f'{stream} closed', shell(f'exec "$@" {number}>&-'))
    yield trains(context, 'stderr full', shell('exec "$@" 2>/dev/full'))
    yield trains(context, 'stderr without a reader', shell('{ "$@" 2>&3; echo $? >&4; } 3>&1 4>code | true; exit $(cat code)'))
    yield trains(context, 'stderr read only', shell('exec "$@" 2</dev/null'))
    for columns in ('0', '-1', '99999999999', 'x'):
        yield trains(context, f'COLUMNS {columns}', [], {'COLUMNS': columns})
    for term in ('', 'dumb', 'x' * 10000):
        yield trains(context, f'TERM {term[:5]}', [], {'TERM': term})
    for name in ('log.txt', 'metrics.jsonl'):
        yield full(context, name)
    yield simple(context, 'schema without a reader', ['schema'], {0, BROKEN_PIPE, IO}, prefix=shell('{ "$@"; echo $? >code; } | true; exit $(cat code)'))

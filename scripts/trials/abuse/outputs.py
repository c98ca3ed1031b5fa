# SPDX-License-Identifier: Apache-2.0
"""Outputs that take nothing, or only a little. A run outlives whoever reads its messages."""
from functools import partial

from run import BROKEN_PIPE, DATA, IO, Run

from abuse.limits import shell, trains


def full(run, name):
    """A file of a stopped run leads to a device that is always full."""
    run.finish('training.max_duration=12ba')
    (run.output / name).unlink()
    (run.output / name).symlink_to('/dev/full')
    run.finish('run.allow_changes=[training.max_duration]', codes={DATA}, says=f'{name}: expected a regular file, found a symbolic link')


def attacks(_):
    for stream, number in (('stdin', 0), ('stdout', 1), ('stderr', 2)):
        yield f'{stream} closed', trains, shell(f'exec "$@" {number}>&-')
    yield 'stderr full', trains, shell('exec "$@" 2>/dev/full')
    yield 'stderr without a reader', trains, shell('{ "$@" 2>&3; echo $? >&4; } 3>&1 4>code | true; exit $(cat code)')
    yield 'stderr read only', trains, shell('exec "$@" 2</dev/null')
    for columns in ('0', '-1', '99999999999', 'x'):
        yield f'COLUMNS {columns}', trains, [], {'COLUMNS': columns}
    for term in ('', 'dumb', 'x' * 10000):
        yield f'TERM {term[:5]}', trains, [], {'TERM': term}
    for name in ('log.txt', 'metrics.jsonl'):
        yield f'full {name}', full, name
    unread = shell('{ "$@"; echo $? >code; } | true; exit $(cat code)')
    yield 'schema without a reader', partial(Run.finish, codes={0, BROKEN_PIPE, IO}, prefix=unread), 'schema'

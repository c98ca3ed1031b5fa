# SPDX-License-Identifier: Apache-2.0
"""Limits of the system, and variables of its libraries. What cannot be done ends with 71 or 74 and a sentence; without the
limit the same command goes on, to the same bits."""
import os
import shutil
import subprocess

from attack import NO_LOADER, simple

MEMORY, IO, SAVED = 71, 74, 75
NOBODY = 65534
VARIABLES = ['OMP_NUM_THREADS=1', 'OMP_NUM_THREADS=9', 'OMP_DYNAMIC=true', 'OMP_MAX_ACTIVE_LEVELS=0', 'OMP_PROC_BIND=true',
             'OMP_PLACES={0}', 'GOMP_CPU_AFFINITY=0', 'OMP_STACKSIZE=256K', 'OMP_SCHEDULE=dynamic,1', 'MALLOC_ARENA_MAX=1',
             'MALLOC_PERTURB_=165', 'ONEDNN_DEFAULT_FPMATH_MODE=BF16', 'LC_ALL=de_DE.UTF-8', 'TZ=Asia/Kolkata']


def under(option, value):
    return ['sh', '-c', f'ulimit {option} {value}; exec "$@"', 'sh']


def limited(context, option, value, codes):
    """A whole run, and what it leaves."""
    def attack():
        place = context.place(f'ulimit {option} {value}')
        place.run([], codes, prefix=under(option, value))
        place.goes_on()
    return attack


def as_nobody(context):
    """Words before a command that make it a user's without rights; None where that cannot be."""
    if os.geteuid() != 0:
        return []
    words = ['setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups']
    if not shutil.which('setpriv') or subprocess.run([*words, 'test', '-x', str(context.trainer)]).returncode != 0:
        return None
    return words


def few_processes(context, count):
    """Root has no such limit."""
    def attack():
        place = context.place(f'ulimit -u {count}')
        place.directory.chmod(0o777)
        prefix = [*as_nobody(context), *under('-u', count)]
        place.run(['device.threads=4', 'data.workers=4'], {0, MEMORY}, prefix=prefix)
        place.remove()
    return attack


def variable(context, text):
    def attack():
        place = context.place(text)
        place.run([], {0}, environment=dict([text.split('=', 1)]))
        place.require(place.weights() == context.bits, 'the weights differ from those of an undisturbed run')
        place.remove()
    return attack


def attacks(context):
    context.bits  # before several need it at once
    more = context.thorough
    for kilobytes in [50000, 60000, 70000, 80000, 200000] + ([*range(40000, 100000, 3000)] if more else []):
        yield limited(context, '-v', kilobytes, {0, MEMORY, IO, NO_LOADER})
    for kilobytes in [2000, 20000, 28000] + ([*range(10000, 40000, 1500)] if more else []):
        yield limited(context, '-d', kilobytes, {0, MEMORY, IO, NO_LOADER})
    for blocks in [0, 1, 4, 64] + ([2, 8, 16, 32] if more else []):
        yield limited(context, '-f', blocks, {0, IO})
    for descriptors in [3, 4, 5, 7, 9, 12] + ([6, 8, 10, 11, 16] if more else []):
        yield limited(context, '-n', descriptors, {0, MEMORY, IO, NO_LOADER})
    yield limited(context, '-i', 0, {0})
    yield limited(context, '-l', 0, {0})
    yield limited(context, '-s', 1024, {0})
    if as_nobody(context) is not None:
        for count in [1, 2, 4] + ([3, 6, 8] if more else []):
            yield few_processes(context, count)
    for text in VARIABLES:
        yield variable(context, text)
    yield simple(context, 'thread limit', [], {78}, 'OMP_THREAD_LIMIT=1 allows fewer than 2 threads', environment={'OMP_THREAD_LIMIT': '1'})
    yield simple(context, 'stacks beyond memory', [], {MEMORY}, environment={'OMP_STACKSIZE': '1000G'})
    for command in ('plan', 'schema'):
        yield simple(context, f'{command} in little memory', [command], {0, MEMORY, NO_LOADER}, prefix=under('-v', 60000))

# SPDX-License-Identifier: Apache-2.0
"""Limits of the system, and variables of its libraries. What cannot be done ends with 71 or 74 and a sentence; without the
limit the same command goes on, to the same bits."""
import os
import shutil
import subprocess
from functools import partial

from run import IO, MEMORY, NO_LOADER, RECIPE, Run

NOBODY = 65534
VARIABLES = ['OMP_NUM_THREADS=1', 'OMP_NUM_THREADS=9', 'OMP_DYNAMIC=true', 'OMP_MAX_ACTIVE_LEVELS=0', 'OMP_PROC_BIND=true',
             'OMP_PLACES={0}', 'GOMP_CPU_AFFINITY=0', 'OMP_STACKSIZE=256K', 'OMP_SCHEDULE=dynamic,1', 'MALLOC_ARENA_MAX=1',
             'MALLOC_PERTURB_=165', 'ONEDNN_DEFAULT_FPMATH_MODE=BF16', 'LC_ALL=de_DE.UTF-8', 'TZ=Asia/Kolkata']
LIMITS = [  # an option of ulimit, its values, those of a thorough trial, exit codes
    ('-v', [50000, 60000, 70000, 80000, 200000], range(40000, 100000, 3000), {0, MEMORY, IO, NO_LOADER}),
    ('-d', [2000, 20000, 28000], range(10000, 40000, 1500), {0, MEMORY, IO, NO_LOADER}),
    ('-f', [0, 1, 4, 64], [2, 8, 16, 32], {0, IO}),
    ('-n', [3, 4, 5, 7, 9, 12], [6, 8, 10, 11, 16], {0, MEMORY, IO, NO_LOADER}),
    ('-i', [0], [], {0}), ('-l', [0], [], {0}), ('-s', [1024], [], {0}),
]


def shell(line):
    return ['sh', '-c', line, 'sh']


def under(option, value):
    return shell(f'ulimit {option} {value}; exec "$@"')


def limited(run, option, value, codes):
    """A whole run, and what it leaves. Its messages go to a pipe, which limits of file sizes leave alone."""
    run.finish(codes=codes, prefix=under(option, value), stderr=subprocess.PIPE)
    run.goes_on()


def as_nobody(trials):
    """Words before a command that make it a user's without rights; None if that cannot be."""
    if os.geteuid() != 0:
        return []
    words = ['setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups']
    if not shutil.which('setpriv') or subprocess.run([*words, 'test', '-x', str(trials.trainer)]).returncode != 0:
        return None
    return words


def few_processes(run, count):
    """Root has no such limit."""
    run.directory.chmod(0o777)
    run.finish('device.threads=4', 'data.workers=4', codes={0, MEMORY}, prefix=[*as_nobody(run.trials), *under('-u', count)])


def trains(run, prefix=(), environment=None):
    run.finish(prefix=prefix, environment=environment)
    run.require_undisturbed()


def attacks(trials):
    for option, values, more, codes in LIMITS:
        for value in dict.fromkeys([*values, *(more if trials.thorough else [])]):
            yield f'ulimit {option} {value}', limited, option, value, codes
    if as_nobody(trials) is not None:
        for count in [1, 2, 4] + ([3, 6, 8] if trials.thorough else []):
            yield f'ulimit -u {count}', few_processes, count
    for text in VARIABLES:
        yield text, trains, [], dict([text.split('=', 1)])
    yield 'thread limit', partial(Run.finish, codes={RECIPE}, says='OMP_THREAD_LIMIT=1 allows fewer than 2 threads',
                                  environment={'OMP_THREAD_LIMIT': '1'})
    yield 'stacks beyond memory', partial(Run.finish, codes={MEMORY}, environment={'OMP_STACKSIZE': '1000G'})
    for command in ('plan', 'schema'):
        yield f'{command} in little memory', partial(Run.finish, codes={0, MEMORY, NO_LOADER}, prefix=under('-v', 60000)), command

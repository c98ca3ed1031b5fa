# SPDX-License-Identifier: Apache-2.0
"""Several ranks of which one is killed, stopped or ends."""
import shutil

from ranks import AT_ONCE
from ranks.faults import faults
from trials import side_by_side


def ranks_lost(trials):
    if not shutil.which('mpirun'):
        return 'ranks that are killed: skipped: mpirun is not installed'
    count = 0
    for line in side_by_side(faults(trials), AT_ONCE):
        print(f'  {line}', flush=True)
        count += 1
    return f'ranks that are killed, stopped or end: {count} cases: the others leave and name the rank; resumed, bitwise identical'


def checks(trials):
    yield lambda: ranks_lost(trials)

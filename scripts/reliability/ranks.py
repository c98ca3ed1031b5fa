# SPDX-License-Identifier: Apache-2.0
"""Several ranks of which one is killed, stopped or ends: what scripts/ranks proves."""
import shutil
import subprocess
import sys
from pathlib import Path

from runs import require

SCRIPT = Path(__file__).resolve().parents[1] / 'ranks'


def faults(context):
    if not shutil.which('mpirun'):
        context.report('ranks that are killed', 'skipped: mpirun is not installed')
        return
    command = [sys.executable, str(SCRIPT), 'faults', '--trainer', str(context.trainer), '--faults', str(context.faults),
               '--seed', str(context.seed), *([] if context.thorough else ['--short'])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout:
        print(f'  {line}', end='', flush=True)
        lines.append(line)
    require(process.wait() == 0, f'scripts/ranks faults ends with {process.returncode}')
    context.report('ranks that are killed, stopped or end', f'{len(lines)} cases: the others leave and name the rank; resumed, '
                   'all bits equal')

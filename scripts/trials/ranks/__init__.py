# SPDX-License-Identifier: Apache-2.0
"""Several ranks on CPUs, by MPI: what they compute, and what becomes of them when one stops or dies.

equal: losses and weights of 1, 2 and 4 ranks; equal bits where they are promised, in bf16 too, and where one rank alone finds a NaN; runs that
go on with another number of ranks.
model: one network that several ranks divide: losses against those of one process, files of each division, and a NaN that all skip.
faults: each rank killed, stopped or ended at several moments and in each phase; the others leave and name it, and the run resumes to an
undisturbed run's bits. --short takes a sample of the phases that --seed draws.
port: strangers send garbage to rank 0's port for --seconds, hold connections half open, dribble, and replay a recorded request to join;
the run stops and resumes as it is told, to an undisturbed run's bits.
agree: each key of a recipe with another value on one rank alone; the ranks name the key and both hosts, or train to an undisturbed run's bits.
--short takes a few keys.
Each process computes with one thread. Needs the mpirun or mpiexec of an MPI: of --launcher, else the one in PATH.
"""
import shutil
import sys
from pathlib import Path

from ranks.agree import agree
from ranks.equal import equal
from ranks.faults import faults
from ranks.model import model
from ranks.port import port

PARTS = {'equal': equal, 'model': model, 'faults': faults, 'port': port, 'agree': agree}
PATIENCE, SEED = 120, 1
AT_ONCE = 4  # since a run that is struck mostly waits


def parts_of(options):
    if shutil.which(options.launcher) is None:
        sys.exit(f'ranks: {options.launcher} not found: install an MPI (openmpi-bin, mpich)')
    return options.parts or PARTS


def add_options(parser):
    parser.add_argument('--short', dest='thorough', action='store_false', help='fewer of them, without the deep network')
    parser.add_argument('--launcher', default='mpirun', type=lambda path: str(Path(shutil.which(path) or path).absolute()),
                        help='program that starts the ranks (parallelism.launcher)')
    parser.add_argument('--seconds', type=float, help='for which strangers come to the port; default: 60, or 3 with --short')
    parser.set_defaults(summary=None)

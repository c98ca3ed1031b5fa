#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several ranks on CPUs, by MPI: what they compute, and what becomes of them when one stops or dies.

  python3 scripts/ranks [--trainer PROGRAM] [--keep DIRECTORY] [equal | faults | port | agree]...

equal: losses and weights of 1, 2 and 4 ranks; equal bits where they are promised, in bf16 too, and where one rank alone finds a NaN; runs that
go on with another number of ranks.
faults: each rank killed, stopped or ended at several moments and in each phase; the others leave and name it, and the run resumes to an
undisturbed run's bits. --short takes a sample of the phases that --seed draws.
port: strangers send garbage to rank 0's port for --seconds, hold connections half open, dribble, and replay a recorded request to join;
the run ends with exit code 0 and an undisturbed run's bits.
agree: each key of a recipe with another value on one rank alone; the ranks name the key and both hosts, or train to an undisturbed run's bits.
--short takes a few keys.
Each process computes with one thread. Needs mpirun. Exit code 1 where a promise was not kept.
"""
import shutil
import sys
import tempfile
from pathlib import Path

from options import parse  # first: it says where the others are

from agree import agree
from equal import equal
from faults import faults
from networks import write_recipes
from port import port
from processes import Ranks
from runs import Failure

PARTS = {'equal': equal, 'faults': faults, 'port': port, 'agree': agree}


def main(options):
    if shutil.which('mpirun') is None:
        sys.exit('ranks: mpirun not found: install Open MPI (openmpi-bin)')
    Ranks.trainer = options.trainer
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        scratch = scratch.resolve()
        recipes = write_recipes(scratch)
        for part in options.parts or PARTS:
            PARTS[part](scratch, recipes, options)


try:
    main(parse(__doc__))
except Failure as problem:
    sys.exit(f'ranks: {problem}')

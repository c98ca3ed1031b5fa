# SPDX-License-Identifier: Apache-2.0
"""The MPIs of this machine (scripts/setup.sh --tests), with what a job needs to use each."""

import dataclasses
import os
import pathlib
import shutil

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build"


@dataclasses.dataclass
class Mpi:
    name: str
    launcher: pathlib.Path
    library: str  # for srun: of several MPIs the program would choose that of the system

    def variables(self, home):
        """Puts its launcher first in PATH, as mpirun."""
        folder = home / f"bin-{self.name}"
        folder.mkdir(exist_ok=True)
        # No link: launchers look for their own programs beside the path by which they were started.
        (folder / "mpirun").write_text(f'#!/bin/sh\nexec {self.launcher} "$@"\n')
        (folder / "mpirun").chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def variables_for_srun(self, home):
        return self.variables(home) | ({"TRAINER_MPI": self.library} if self.library else {})


ALL = (
    Mpi("openmpi4", pathlib.Path(shutil.which("mpirun.openmpi") or ""), ""),
    Mpi("mpich4", pathlib.Path(shutil.which("mpiexec.mpich") or ""), ""),
    Mpi("mpich5", BUILD / "mpich/bin/mpiexec", str(BUILD / "mpich/lib/libmpi.so.12")),
    Mpi("standard", BUILD / "mpich/bin/mpiexec", str(BUILD / "mpich/lib/libmpi_abi.so.1")),
    Mpi("intel", BUILD / "impi/bin/mpiexec", str(BUILD / "impi/lib/libmpi.so.12")),
    Mpi("openmpi5", BUILD / "openmpi/bin/mpirun", str(BUILD / "openmpi/lib/libmpi.so.40")),
)


def named(*names):
    found = [mpi for mpi in ALL if mpi.name in names]
    missing = [mpi.name for mpi in found if not mpi.launcher.is_file()]
    if missing:
        raise FileNotFoundError(f"no launcher of {', '.join(missing)}: run scripts/setup.sh --tests")
    return found

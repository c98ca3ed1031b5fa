// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// The binary interfaces of MPI: that of Open MPI 4 and 5, that of MPICH, which Intel MPI, Cray MPICH and
/// MVAPICH share, and that of the standard since 5.0.
enum class MpiAbi { open_mpi, mpich, standard };

/// "Open MPI"
std::string_view to_string(MpiAbi abi);

/// A library of MPI.
struct MpiLibrary {
  std::string path;      ///< or its name alone, if the loader found it
  std::string found_by;  ///< "beside /usr/bin/hydra_pmi_proxy, which started this process"
  MpiAbi abi = MpiAbi::open_mpi;
  /// The library of this program that was built for it: "mpi_openmpi" of libtrainer_mpi_openmpi.so.
  std::string plugin() const;
};

/// What started this process, as its environment tells, and the MPI that such a launcher connects.
struct MpiLauncher {
  std::string name;           ///< "Hydra's mpiexec (MPI_LOCALRANKID)"; for a process alone "no launcher"
  std::vector<MpiAbi> takes;  ///< the preferred one first
};
MpiLauncher mpi_launcher();

/// Finds and loads the MPI that this process's launcher connects, for the whole process: TRAINER_MPI, which
/// names the library's file, or the first that fits in MPI_HOME, beside the launcher that started this
/// process, on the loader's path (LD_LIBRARY_PATH), or beside the mpirun in PATH. Starts nothing. Throws
/// Error (exit 69) with what was found if none fits.
MpiLibrary open_mpi_library();

}  // namespace trainer

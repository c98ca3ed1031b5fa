// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// The binary interfaces of MPI: Open MPI's (releases 4 and 5), MPICH's (also of Intel MPI, Cray MPICH and
/// MVAPICH), and the standard's (MPI 5.0).
enum class MpiAbi { open_mpi, mpich, standard };

/// "Open MPI"
std::string_view to_string(MpiAbi abi);

/// An MPI library.
struct MpiLibrary {
  std::string path;      ///< or its name alone, if the loader found it
  std::string found_by;  ///< "beside /usr/bin/hydra_pmi_proxy, which started this process"
  MpiAbi abi = MpiAbi::open_mpi;
  /// The name of our library for this interface: "mpi_openmpi" for libtrainer_mpi_openmpi.so.
  std::string plugin() const;
};

/// Finds and loads the MPI library of this process's launcher, so that later libraries can use its functions.
/// It is the file in TRAINER_MPI. If that is not set, it is the first one that the launcher supports: in
/// MPI_HOME, beside the launcher, on the loader's path (LD_LIBRARY_PATH), or beside the mpirun in PATH. Does
/// not start MPI. Throws Error (exit 69) if there is none, with what was found instead.
MpiLibrary open_mpi_library();

}  // namespace trainer

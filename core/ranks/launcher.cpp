// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/base/split.h"
#include "core/host/child_process.h"
#include "core/ranks/launcher_folder.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kVersionPatience(10);

/// Variables of ssh, from release 8.4.
constexpr const char *kAskPassProgram = "SSH_ASKPASS", *kAskPassRequire = "SSH_ASKPASS_REQUIRE";

bool is_program(const fs::path& file) {
  std::error_code unreadable;
  return fs::is_regular_file(file, unreadable) && ::access(file.c_str(), X_OK) == 0;
}

/// "mpirun (Open MPI) 4.1.4", "HYDRA build details:", "Intel(R) MPI Library for Linux* OS, Version 2021.19".
Launcher::Kind kind_of(const std::string& version) {
  const auto has = [&](const char* text) { return version.find(text) != std::string::npos; };
  if (has("Open MPI") || has("OpenRTE")) return Launcher::Kind::open_mpi;
  return has("HYDRA") || has("Intel(R) MPI") ? Launcher::Kind::hydra : Launcher::Kind::other;
}

}  // namespace

std::string Launcher::name() const {
  return fs::path(path).filename();
}

std::string path_of_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "" : path, ':')) {
    if (is_program(fs::path(folder) / name)) return fs::path(folder) / name;
  }
  return "";
}

std::string launcher_path() {
  const std::string mpirun = path_of_program("mpirun");
  return mpirun.empty() ? path_of_program("mpiexec") : mpirun;
}

Launcher find_launcher(const std::string& asked) {
  Launcher launcher{.path = asked == "auto" ? launcher_path() : asked};
  if (launcher.path.empty())
    throw Error(
        ExitCode::no_device,
        "ranks on CPUs want an mpirun or mpiexec, and neither is in PATH; install one (`apt-get install "
        "openmpi-bin`, `pip install mpich`), load your site's module, or name it with parallelism.launcher");
  if (!is_program(launcher.path))
    throw Error(
        ExitCode::no_device,
        fmt::format(
            "parallelism.launcher: {} is no program that can be started; name the file of an mpirun or "
            "mpiexec",
            launcher.path));
  launcher.kind = kind_of(run_command({launcher.path, "--version"}, kVersionPatience).text);
  return launcher;
}

std::vector<std::string> launch_line(const Launcher& launcher, const LaunchRequest& request) {
  std::vector<std::string> line = {launcher.path};
  if (launcher.kind == Launcher::Kind::open_mpi) {
    if (::geteuid() == 0) line.emplace_back("--allow-run-as-root");
    line.insert(line.end(), {"--oversubscribe", "--bind-to", "none"});
    if (!request.hosts.empty())
      line.insert(line.end(), {"--hostfile", request.hosts, "-x", kRanksMetVariable});
  } else if (!request.hosts.empty()) {
    line.insert(line.end(), {launcher.kind == Launcher::Kind::hydra ? "-f" : "-hostfile", request.hosts});
  }
  // With it Intel MPI lets the other ranks live, which name the lost one. MPICH still kills them after a
  // signal.
  if (launcher.kind == Launcher::Kind::hydra) line.emplace_back("-disable-auto-cleanup");
  line.insert(line.end(), {"-n", std::to_string(request.ranks)});
  line.insert(line.end(), request.command.begin(), request.command.end());
  return line;
}

ChildStart::Variables launch_variables(const Launcher& launcher, const LaunchRequest& request) {
  ChildStart::Variables variables;
  const auto add = [&](const char* name, const char* value) {
    if (std::getenv(name) == nullptr) variables.emplace_back(name, value);
  };
  const bool is_hydra = launcher.kind == Launcher::Kind::hydra;
  if (is_hydra) add("I_MPI_PIN", "off");
  if (!request.hosts.empty()) {
    // ssh asks a program for the password, which fails, in place of a terminal, where nobody may be.
    if (std::getenv(kAskPassRequire) == nullptr) variables.emplace_back(kAskPassProgram, "/bin/false");
    add(kAskPassRequire, "force");
    return variables;
  }
  if (!is_hydra) return variables;
  // On one host Hydra needs neither the nodes of a job nor a network.
  add("HYDRA_LAUNCHER", "fork");
  add("I_MPI_HYDRA_BOOTSTRAP", "fork");
  add("I_MPI_FABRICS", "shm");
  return variables;
}

}  // namespace trainer

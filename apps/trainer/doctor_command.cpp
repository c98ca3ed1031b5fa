// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "apps/trainer/commands.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/units.h"
#include "core/base/version.h"
#include "core/engine/backend_library.h"
#include "core/engine/process_group_library.h"
#include "core/host/gpus.h"
#include "core/host/limits.h"
#include "core/ranks/engines.h"
#include "core/ranks/identity.h"
#include "core/ranks/launch.h"
#include "cpu/backend.h"

namespace trainer {
namespace {

void print(const std::string& what, const std::string& found) {
  print_text("  {:<16} {}\n", what, found);
}

void print_cpu() {
  print_text("device.type=cpu\n");
  print("processor", processor_name());
  const Limit threads = thread_limit(1);
  print("threads", fmt::format("{} may be used ({})", threads.value, threads.name));
  print("they wait", waiting_policy());
  print("memory", memory_text(memory_limit(1)));
  const Backend cpu = make_cpu_backend(0);
  print("oneDNN", onednn_version());
  for (const std::string& missing : cpu.device->missing_readings()) print("not measured", missing);
}

/// The CUDA library's answers, or only a `problem` if it cannot be opened.
Json inspect_cuda() {
  try {
    return Json::parse(inspect_backend("cuda")).value();
  } catch (const Error& problem) {
    return {{"problem", problem.what()}};
  }
}

std::vector<Json> devices_of(const Json& cuda) {
  const Json* devices = cuda.find("devices");
  return devices == nullptr ? std::vector<Json>() : devices->items();
}

void print_cuda(const Json& cuda) {
  print_text("device.type=cuda\n");
  const auto print_version = [&](const char* what, const char* key) {
    if (cuda.contains(key)) print(what, cuda[key].text());
  };
  print_version("library", "library");
  print_version("driver", "driver");
  print_version("CUDA runtime", "runtime");
  print_version("cuDNN", "cudnn");
  print_version("cuBLASLt", "cublaslt");
  print_version("attention", "attention");
  int index = 0;
  for (const Json& device : devices_of(cuda)) {
    print(fmt::format("GPU {}", index++),
          fmt::format("{}, compute capability {}, {}, {} free", device["name"].text(),
                      device["compute_capability"].text(),
                      human_bytes(device["memory_bytes"].integer().value()),
                      human_bytes(device["free_bytes"].integer().value())));
  }
  if (cuda.contains("problem")) print("problem", cuda["problem"].text());
}

/// "rank 1 of 2 (OMPI_COMM_WORLD_RANK)"
std::string launch_text() try {
  const RankIdentity identity = launched_as();
  if (identity.is_alone()) return "one process";
  return fmt::format("rank {} of {}, number {} on this host ({})", identity.rank, identity.ranks,
                     identity.local_rank, identity.source);
} catch (const Error& problem) {
  return problem.what();
}

std::string mpi_text() try { return describe_process_group("mpi"); } catch (const Error& problem) {
  return problem.what();
}

/// Requirements of several processes that train together.
void print_ranks() {
  print_text("several processes\n");
  print("launched as", launch_text());
  print("MPI", mpi_text());
  const std::string launcher = launcher_path();
  print(kLauncher, launcher.empty() ? "not found in PATH; install Open MPI (openmpi-bin)" : launcher);
  const NcclLibrary nccl = find_nccl();
  print("NCCL", nccl.problem.empty() ? nccl.version : nccl.problem);
}

/// The first GPU's description, for configs/devices or device.model=FILE.
void write_description(const Json& cuda, const std::string& file) {
  if (devices_of(cuda).empty()) {
    const Json* problem = cuda.find("problem");
    throw Error(ExitCode::no_device,
                fmt::format("there is no GPU to describe: {}",
                            problem == nullptr ? "cudaGetDeviceCount found none" : problem->text()));
  }
  const std::string text = devices_of(cuda)[0]["properties"].dump(2) + "\n";
  const OutputFile output(file);
  output.write([&](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
  print_note(output, fmt::format("wrote {}: use it as device.model={}", file, file));
}

}  // namespace

int doctor_command(const Arguments& arguments) {
  const Json cuda = inspect_cuda();
  if (!arguments.out.empty()) {
    write_description(cuda, arguments.out);
    return 0;
  }
  print_text("trainer {}\n\n", kVersion);
  const GpuSearch search = find_gpu();
  print_text("device.type=auto\n");
  print("device", fmt::format("{}: {}", search.found ? "cuda" : "cpu", search.reason));
  print_text("\n");
  print_cpu();
  print_text("\n");
  print_cuda(cuda);
  print_text("\n");
  print_ranks();
  return 0;
}

}  // namespace trainer

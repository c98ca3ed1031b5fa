// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/trainer/commands.h"
#include "apps/trainer/doctor_links.h"
#include "apps/trainer/doctor_ranks.h"
#include "apps/trainer/doctor_reading.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/base/version.h"
#include "core/data/images/decode_avif.h"
#include "core/data/images/decode_gif.h"
#include "core/data/images/decode_jpeg2000.h"
#include "core/data/images/decode_tiff.h"
#include "core/engine/backend_library.h"
#include "core/engine/process_group_library.h"
#include "core/host/findings.h"
#include "core/host/gpu_findings.h"
#include "core/host/gpus.h"
#include "core/host/limits.h"
#include "core/host/processors.h"
#include "core/ranks/engines.h"
#include "core/ranks/identity.h"
#include "core/ranks/launcher.h"
#include "core/ranks/mpi_library.h"
#include "core/ranks/placement.h"
#include "core/recipe/reading_speed.h"
#include "cpu/backend.h"

namespace trainer {
namespace {

/// A heading and what stands below it.
struct Section {
  explicit Section(std::string name) : title(std::move(name)) {}
  void print(const std::string& what, const std::string& found) { rows.emplace_back(what, found); }

  std::string title;
  std::vector<std::pair<std::string, std::string>> rows;
};

Section cpu_section() {
  Section section("device.type=cpu");
  const auto print = [&](const char* what, const std::string& found) { section.print(what, found); };
  print("processor", processor_name());
  const Limit threads = thread_limit(1);
  print("threads", fmt::format("{} may be used ({})", threads.value, threads.name));
  print("they wait", waiting_policy());
  print("memory", memory_text(memory_limit(1)));
  const Backend cpu = make_cpu_backend(0);
  print("oneDNN", onednn_version());
  for (const std::string& missing : cpu.device->missing_readings()) print("not measured", missing);
  return section;
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

Section cuda_section(const Json& cuda) {
  Section section("device.type=cuda");
  const auto print = [&](const std::string& what, const std::string& found) { section.print(what, found); };
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
  return section;
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

/// "Open MPI v4.1.4: libmpi.so.40 (on the loader's path), libtrainer_mpi_openmpi.so"
std::string mpi_text() try {
  const MpiLibrary library = open_mpi_library();
  return fmt::format("{}: {} ({}), libtrainer_{}.so", describe_process_group(library.plugin()), library.path,
                     library.found_by, library.plugin());
} catch (const Error& problem) {
  return problem.what();
}

/// Requirements of several processes that train together.
Section rank_section() {
  Section section("several processes");
  const auto print = [&](const std::string& what, const std::string& found) { section.print(what, found); };
  print("launched as", launch_text());
  print("MPI", mpi_text());
  const std::string launcher = launcher_path();
  print("mpirun", launcher.empty() ? "neither mpirun nor mpiexec is in PATH; install one (openmpi-bin, mpich)"
                                   : launcher);
  const NcclLibrary nccl = find_nccl();
  print("NCCL", nccl.problem.empty() ? nccl.version : nccl.problem);
  return section;
}

Section reading_section(const std::string& path, const ReadingSpeed& speed) {
  Section section("reading " + one_line(path));
  section.rows = reading_rows(speed);
  return section;
}

Section device_section() {
  Section section("device.type=auto");
  const GpuSearch search = find_gpu();
  section.print("device", fmt::format("{}: {}", search.found ? "cuda" : "cpu", search.reason));
  return section;
}

std::vector<std::string> bus_ids_of(const Json& cuda) {
  std::vector<std::string> bus_ids;
  for (const Json& device : devices_of(cuda)) bus_ids.push_back(device["pci_bus_id"].text());
  return bus_ids;
}

/// Of the job that this process is part of; 1 if what its launcher says is wrong.
int64_t ranks_of_launch() try { return launched_as().ranks; } catch (const Error&) {
  return 1;
}

/// Those of this machine, of its GPUs, and of the working directory, where runs are written.
std::vector<Finding> find_all(const Json& cuda, bool among_ranks) {
  HostFacts facts = host_facts();
  if (among_ranks) facts.allowed_cores = facts.cores;  // placement_findings judges the ranks together
  std::vector<Finding> findings = machine_findings(facts);
  const auto add = [&](const std::vector<Finding>& more) {
    findings.insert(findings.end(), more.begin(), more.end());
  };
  add(gpu_findings(bus_ids_of(cuda), allowed_processors()));
  add(rank_findings(facts, ranks_of_launch()));
  const std::filesystem::path folder = ".";
  try {
    add(folder_findings(folder, measure_folder(folder)));
  } catch (const Error& problem) {
    findings.push_back({.text = fmt::format("nothing can be written here: {}", problem.what()),
                        .mend = "choose another folder with run.output_dir"});
  }
  for (const auto& [reads, format, package] :
       {std::tuple(reads_avif(), "AVIF", "libavif-dev"), std::tuple(reads_gif(), "GIF", "libgif-dev"),
        std::tuple(reads_jpeg2000(), "JPEG 2000", "libopenjp2-7-dev"),
        std::tuple(reads_tiff(), "TIFF", "libtiff-dev")}) {
    if (!reads)
      findings.push_back({.text = fmt::format("images in {} cannot be read", format),
                          .mend = fmt::format("install {} and build the program again", package)});
  }
  sort_worst_first(findings);
  return findings;
}

std::string cost_text(const Finding& finding) {
  return finding.cost > 0 ? fmt::format(" (costs up to {:.0f} %)", 100 * finding.cost) : "";
}

void print_all(const std::vector<Section>& sections, const std::vector<Finding>& findings) {
  print_text("trainer {}\n", kVersion);
  for (const Section& section : sections) {
    print_text("\n{}\n", section.title);
    for (const auto& [what, found] : section.rows) print_text("  {:<16} {}\n", what, found);
  }
  print_text("\nfindings\n");
  if (findings.empty()) print_text("  none\n");
  for (const Finding& finding : findings)
    print_text("  {}{}\n    {}\n", finding.text, cost_text(finding), finding.mend);
}

void print_as_json(const std::vector<Section>& sections, const std::vector<Finding>& findings,
                   const std::optional<ReadingSpeed>& reading) {
  Json all = {{"version", kVersion}};
  for (const Section& section : sections) {
    Json& rows = all[section.title] = Json::array();
    for (const auto& [what, found] : section.rows) rows.push_back({{"name", what}, {"value", found}});
  }
  if (reading) all["reading"] = reading_json(*reading);
  Json& list = all["findings"] = Json::array();
  for (const Finding& finding : findings)
    list.push_back({{"text", finding.text}, {"mend", finding.mend}, {"cost", finding.cost}});
  print_text("{}\n", all.dump(2));
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
  if (!arguments.links.empty()) {
    const std::vector<Json> gpus = devices_of(cuda);
    write_links(arguments.links, gpus.empty() ? "" : gpus[0]["name"].text());
    return 0;
  }
  if (!arguments.out.empty()) {
    write_description(cuda, arguments.out);
    return 0;
  }
  std::optional<ReadingSpeed> reading;
  if (!arguments.path.empty()) reading = measure_reading(arguments.path);
  std::vector<RankPlacement> ranks;
  std::string problem;
  try {
    const RankIdentity identity = launched_as();
    if (!identity.is_alone()) ranks = placements_of_ranks(identity, devices_of(cuda));
    if (!ranks.empty() && identity.rank > 0) return 0;  // rank 0 prints the line of each
  } catch (const Error& found) {
    problem = found.what();
  }
  std::vector<Section> sections = {device_section(), cpu_section(), cuda_section(cuda), rank_section()};
  std::vector<Finding> findings = find_all(cuda, !ranks.empty());
  if (!problem.empty()) sections.back().print("the ranks", problem);
  if (!ranks.empty()) {
    sections.emplace_back("ranks").rows = placement_rows(ranks);
    const std::vector<Finding> placed = placement_findings(ranks);
    findings.insert(findings.end(), placed.begin(), placed.end());
    sort_worst_first(findings);
  }
  if (arguments.json) {
    print_as_json(sections, findings, reading);
  } else {
    if (reading) sections.push_back(reading_section(arguments.path, *reading));
    print_all(sections, findings);
  }
  constexpr double kSerious = 0.1;
  const bool is_serious = !findings.empty() && findings.front().cost > kSerious;
  return arguments.strict && is_serious ? static_cast<int>(ExitCode::no_device) : 0;
}

}  // namespace trainer

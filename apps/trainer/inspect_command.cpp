// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "apps/trainer/commands.h"
#include "apps/trainer/inspection.h"
#include "apps/trainer/plan_report.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/units.h"

namespace trainer {
namespace {

int64_t elements(const FileInspection& file) {
  int64_t count = 0;
  for (const StoredTensor& tensor : file.tensors) count += numel(tensor.shape);
  return count;
}

const char* verdict(const std::string& problem) {
  return problem.empty() ? "intact" : "DAMAGED";
}

const char* verdict(const CheckpointInspection& checkpoint) {
  return checkpoint.is_unknown ? "OF ANOTHER VERSION" : verdict(checkpoint.problem);
}

Json& add_verdict(Json& json, const std::string& problem) {
  json["whole"] = problem.empty();
  if (!problem.empty()) json["problem"] = problem;
  return json;
}

Json json_of(const FileInspection& file) {
  Json json = {{"kind", "safetensors"}, {"path", file.path.string()}, {"bytes", file.bytes}};
  add_verdict(json, file.problem);
  if (!file.metadata.empty()) json["metadata"] = file.metadata;
  json["tensors"] = Json::array();
  for (const StoredTensor& tensor : file.tensors) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"dtype", tensor.dtype},
                               {"shape", tensor.shape},
                               {"bytes", tensor.end - tensor.begin}});
  }
  return json;
}

Json json_of(const CheckpointInspection& checkpoint) {
  Json json = {{"kind", "checkpoint"}, {"path", checkpoint.path.string()}};
  if (checkpoint.manifest) json["step"] = checkpoint.manifest->step;
  add_verdict(json, checkpoint.problem);
  json["files"] = Json::array();
  for (const auto& [expected, problem] : checkpoint.files) {
    Json file = {{"name", expected.name},
                 {"bytes", expected.bytes},
                 {"xxh3", fmt::format("{:016x}", expected.checksum)}};
    json["files"].push_back(add_verdict(file, problem));
  }
  if (const auto state = Json::parse(checkpoint.state)) json["state"] = *state;
  return json;
}

Json json_of(const RunInspection& run) {
  Json json = {{"kind", "run"}, {"path", run.path.string()}};
  if (run.overview) {
    json["state"] = to_string(run.overview->state);
    json["step"] = run.overview->step;
    if (run.overview->steps) json["steps"] = *run.overview->steps;
    if (!run.overview->problems.empty()) json["problems"] = run.overview->problems;
  }
  json["weights"] = Json::array();
  json["checkpoints"] = Json::array();
  for (const CheckpointInspection& checkpoint : run.checkpoints)
    json["checkpoints"].push_back(json_of(checkpoint));
  json["set_aside"] = Json::array();
  for (const std::filesystem::path& path : run.set_aside) json["set_aside"].push_back(path.string());
  for (const FileInspection& file : run.weights) json["weights"].push_back(json_of(file));
  return json;
}

void print(const FileInspection& file) {
  print_text("{}: safetensors, {} tensors, {} elements, {}, {}\n", one_line(file.path.string()),
             file.tensors.size(), elements(file), human_bytes(file.bytes), verdict(file.problem));
  for (const auto& [key, text] : file.metadata) print_text("  {}: {}\n", one_line(key), one_line(text));
  if (file.tensors.empty()) return;  // as one that is not whole
  size_t name_width = 6, shape_width = 5;
  for (const StoredTensor& tensor : file.tensors) {
    name_width = std::max(name_width, one_line(tensor.name).size());
    shape_width = std::max(shape_width, shape_text(tensor.shape).size());
  }
  print_text("  {:<{}}  {:<7}  {:<{}}  {:>12}\n", "tensor", name_width, "type", "shape", shape_width,
             "bytes");
  for (const StoredTensor& tensor : file.tensors) {
    print_text("  {:<{}}  {:<7}  {:<{}}  {:>12}\n", one_line(tensor.name), name_width, tensor.dtype,
               shape_text(tensor.shape), shape_width, tensor.end - tensor.begin);
  }
}

/// Every single value under its dotted path; long lists and texts only by their size.
void print_values(const Json& json, const std::string& path) {
  constexpr size_t kMostItems = 16, kMostCharacters = 80;
  if (json.is_object() && json.size() <= kMostItems) {
    for (const auto& [key, value] : json.members())
      print_values(value, path.empty() ? key : fmt::format("{}.{}", path, key));
    return;
  }
  std::string text = json.is_text() ? json.text() : json.dump();
  if ((json.is_array() || json.is_object()) && (json.size() > kMostItems || text.size() > kMostCharacters))
    text = fmt::format("({} entries)", json.size());
  if (text.size() > kMostCharacters || text.find('\n') != std::string::npos)
    text = fmt::format("({} lines)", 1 + std::ranges::count(text, '\n'));
  print_text("    {}: {}\n", one_line(path), text);
}

void print(const CheckpointInspection& checkpoint) {
  print_text("{}: checkpoint, ", one_line(checkpoint.path.string()));
  if (checkpoint.manifest) {
    print_text("step {}, {} files, {}, ", checkpoint.manifest->step, checkpoint.files.size(),
               human_bytes(checkpoint.manifest->bytes()));
  }
  print_text("{}\n", verdict(checkpoint));
  for (const auto& [expected, problem] : checkpoint.files) {
    print_text("  {:<22} {:>14}  {:016x}  {}\n", expected.name, expected.bytes, expected.checksum,
               verdict(problem));
  }
  const std::optional<Json> state = Json::parse(checkpoint.state);
  if (!state) return;
  print_text("  {}\n", kStateFile);
  print_values(*state, "");
}

/// The step of the best checkpoint, by the newest state that can be read; 0: there is none.
int64_t best_step(const RunInspection& run) {
  for (const CheckpointInspection& checkpoint : run.checkpoints) {
    const std::optional<Json> state = Json::parse(checkpoint.state);
    const Json* step = state ? state->find("best_step") : nullptr;
    if (step != nullptr && step->integer()) return *step->integer();
  }
  return 0;
}

void print(const RunInspection& run) {
  print_text("{}: ", one_line(run.path.string()));
  if (run.overview) {
    print_text("run, {}, step {}", to_string(run.overview->state), run.overview->step);
    if (run.overview->steps) print_text("/{}", *run.overview->steps);
    print_text(", ");
  }
  print_text("{} checkpoints\n", run.checkpoints.size());
  const int64_t best = best_step(run);
  for (const CheckpointInspection& checkpoint : run.checkpoints) {
    const int64_t bytes = checkpoint.manifest ? checkpoint.manifest->bytes() : 0;
    const bool is_best = best > 0 && checkpoint_step(checkpoint.path) == best;
    print_text("  {}  {:>10}  {}{}\n", one_line(checkpoint.path.filename().string()), human_bytes(bytes),
               verdict(checkpoint), is_best ? ", best" : "");
  }
  for (const std::filesystem::path& path : run.set_aside)
    print_text("  {}  set aside by a run that found it damaged; no run uses it\n",
               one_line(path.filename().string()));
  for (const FileInspection& file : run.weights) {
    print_text("  {}  {} tensors, {} elements, {}, {}\n", one_line(file.path.filename().string()),
               file.tensors.size(), elements(file), human_bytes(file.bytes), verdict(file.problem));
  }
}

/// The first, or empty.
std::string problem_of(const FileInspection& file) {
  return file.problem;
}
std::string problem_of(const CheckpointInspection& checkpoint) {
  return checkpoint.problem;
}
std::string problem_of(const RunInspection& run) {
  if (run.overview && !run.overview->problems.empty()) return run.overview->problems.front();
  for (const CheckpointInspection& checkpoint : run.checkpoints)
    if (!checkpoint.problem.empty()) return checkpoint.problem;
  for (const FileInspection& file : run.weights)
    if (!file.problem.empty()) return file.problem;
  return "";
}

/// Exit 65 if something is damaged; the JSON report says so itself.
template <class Inspection>
int report(const Inspection& inspection, bool as_json) {
  const std::string problem = problem_of(inspection);
  if (as_json) {
    // A path need not be UTF-8, JSON must.
    print_text("{}\n", json_of(inspection).dump(2, Json::NotUtf8::replace));
    return static_cast<int>(problem.empty() ? ExitCode::done : ExitCode::data);
  }
  print(inspection);
  if (!problem.empty()) throw Error(ExitCode::data, problem);
  return 0;
}

}  // namespace

int inspect_command(const Arguments& arguments) {
  const std::filesystem::path path = arguments.path;
  if (!std::filesystem::is_directory(path)) return report(inspect_file(path), arguments.json);
  if (is_checkpoint(path)) return report(inspect_checkpoint(path), arguments.json);
  return report(inspect_run(path), arguments.json);
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/trainer/commands.h"
#include "apps/trainer/plan_report.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/host/stop.h"
#include "core/import/foreign_weights.h"
#include "core/import/renames.h"
#include "core/import/tensor_name.h"
#include "core/storage/output_file.h"
#include "core/storage/safetensors.h"

namespace trainer {
namespace {

int64_t bytes_of_all(const std::vector<StoredTensor>& tensors) {
  int64_t bytes = 0;
  for (const StoredTensor& tensor : tensors) {
    if (__builtin_add_overflow(bytes, tensor.end, &bytes)) return std::numeric_limits<int64_t>::max();
  }
  return bytes;
}

void print_tensors(const std::vector<StoredTensor>& tensors) {
  size_t name_width = 6, shape_width = 5;
  for (const StoredTensor& tensor : tensors) {
    name_width = std::max(name_width, one_line(tensor.name).size());
    shape_width = std::max(shape_width, shape_text(tensor.shape).size());
  }
  print_text("{:<{}}  {:<7}  {:<{}}  {:>12}\n", "tensor", name_width, "type", "shape", shape_width, "bytes");
  for (const StoredTensor& tensor : tensors) {
    print_text("{:<{}}  {:<7}  {:<{}}  {:>12}\n", one_line(tensor.name), name_width, tensor.dtype,
               shape_text(tensor.shape), shape_width, tensor.end);
  }
}

}  // namespace

int import_command(const Arguments& arguments) {
  const std::filesystem::path path = arguments.path;
  if (arguments.out.empty() && !arguments.list)
    throw Error(ExitCode::usage, "import: name the file to write, --out FILE, or print the tensors, --list");
  StopSignals signals(StopSignals::kPass);
  std::vector<Rename> renames;
  for (const std::string& text : arguments.renames) renames.push_back(parse_rename(text));
  const std::unique_ptr<ForeignWeights> weights = open_foreign_weights(path);
  std::vector<StoredTensor> tensors = weights->tensors();
  rename_tensors(tensors, renames);
  require_different_names(path, tensors);
  for (const std::string& remark : weights->remarks())
    print_remark(fmt::format("{}: {}", one_line(path.string()), remark));
  if (arguments.list) {
    print_tensors(tensors);
    return 0;
  }
  const OutputFile output(arguments.out, {path});
  signals.watch_loop();
  output.write([&](const ByteSink& sink) {
    const auto produce = [&](size_t index, const ByteSink& take) { weights->copy(index, take); };
    compose_safetensors(tensors, {{"format", "pt"}}, produce, [&](std::span<const std::byte> piece) {
      signals.throw_if_asked();  // here, so that no partial file remains
      sink(piece);
    });
  });
  print_note(output, fmt::format("{}: {} tensors, {}", one_line(arguments.out), tensors.size(),
                                 human_bytes(bytes_of_all(tensors))));
  return 0;
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/import/foreign_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/import/onnx_file.h"
#include "core/import/torch_storages.h"
#include "core/storage/safetensors_header.h"

namespace trainer {
namespace {

/// At most `most` bytes from the start of a file.
std::string start_of(const std::filesystem::path& path, int64_t most) {
  const FileDescriptor file = open_regular(path);
  std::string start(static_cast<size_t>(std::min(most, file_bytes(file.get(), path))), '\0');
  read_exactly(file.get(), path, 0, std::as_writable_bytes(std::span(start)));
  return start;
}

/// The length of its header, if the file is a safetensors file.
uint64_t length_in(const std::string& start) {
  uint64_t length = 0;
  std::memcpy(&length, start.data(), sizeof length);
  return length;
}

}  // namespace

std::unique_ptr<ForeignWeights> open_foreign_weights(const std::filesystem::path& path) {
  constexpr int64_t kStartBytes = 9;
  constexpr std::string_view kZip = "PK\x03\x04";
  constexpr char kPickle = '\x80';   // every pickle since protocol 2 begins with it
  constexpr char kVersion = '\x08';  // the tag of ir_version, an ONNX model's first field
  const std::string start = start_of(path, kStartBytes);
  const auto refuse = [&](const char* text) {
    throw Error(ExitCode::data, fmt::format("{}: {}", one_line(path.string()), text));
  };
  if (start.starts_with(kZip)) return open_torch_archive(path);
  if (start.starts_with(kPickle)) return open_legacy_torch_file(path);
  if (start.size() == kStartBytes && start.back() == '{' && length_in(start) <= kMaxHeaderBytes)
    refuse("is a safetensors file, which needs no import; use it as it is");
  if (start.starts_with(kVersion)) return open_onnx_file(path);
  refuse("expected a file by torch.save (.pth, .pt, .bin) or an ONNX model, found another; name such a file");
  return nullptr;
}

}  // namespace trainer

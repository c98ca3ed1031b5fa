// SPDX-License-Identifier: Apache-2.0
#include "core/storage/safetensors.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/storage/safetensors_header.h"

namespace trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "the format stores little-endian numbers");

constexpr std::string_view kIntegers = "I8";  // of weights with 8 bits
constexpr int64_t kLengthBytes = 8;           // of the header's length, with which a file starts

/// Whether these first bytes are those of a file by torch.save: a zip archive or, before PyTorch 1.6, a
/// pickle of protocol 2 or later.
bool is_from_torch_save(std::span<const std::byte> start) {
  constexpr std::array kZip = {std::byte{'P'}, std::byte{'K'}, std::byte{3}, std::byte{4}};
  constexpr std::byte kProtocol{0x80}, kFirst{2}, kLast{5};
  if (std::ranges::equal(start.first(kZip.size()), kZip)) return true;
  return start[0] == kProtocol && start[1] >= kFirst && start[1] <= kLast;
}

/// A word of a line of shell.
std::string quoted_word(const std::string& word) {
  std::string text = "'";
  for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string how_to_convert(const std::filesystem::path& path) {
  std::filesystem::path converted = path;
  converted.replace_extension(".safetensors");
  return fmt::format(
      "it was written by torch.save; convert it with\n"
      "  trainer import {} --out {}\n"
      "and name the new file",
      quoted_word(path.string()), quoted_word(converted.string()));
}

float from_f16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u, fraction = half & 1023u;
  if (exponent == 0) {  // zero and the subnormal numbers, fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  // The exponents' biases are 15 and 127; all ones mean infinity or NaN in both.
  const uint32_t wide = exponent == 31 ? 255 : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

float from_bf16(uint16_t upper_half) {
  return std::bit_cast<float>(static_cast<uint32_t>(upper_half) << 16);
}

float from_f64(double value) {
  return static_cast<float>(value);
}

float from_i8(int8_t value) {
  return value;
}

/// Reads in pieces, so that a converted tensor is never in memory twice. read(offset, bytes) reads the
/// file.
template <class Stored, class Read>
void convert(std::span<float> values, const Read& read, float (*to_float)(Stored)) {
  std::vector<Stored> piece(std::min<size_t>(values.size(), 1 << 15));
  for (size_t first = 0; first < values.size(); first += piece.size()) {
    const size_t count = std::min(piece.size(), values.size() - first);
    read(static_cast<int64_t>(first * sizeof(Stored)), std::as_writable_bytes(std::span(piece).first(count)));
    std::transform(piece.begin(), piece.begin() + static_cast<int64_t>(count),
                   values.begin() + static_cast<int64_t>(first), to_float);
  }
}

}  // namespace

void compose_safetensors(const std::vector<StoredTensor>& tensors, const StoredMetadata& metadata,
                         const TensorProducer& produce, const ByteSink& sink) {
  std::vector<StoredTensor> placed = tensors;
  const std::string header = compose_header(placed, metadata);
  const uint64_t length = header.size();
  sink(std::as_bytes(std::span(&length, 1)));
  sink(std::as_bytes(std::span(header)));
  for (size_t i = 0; i < placed.size(); ++i) {
    int64_t missing = placed[i].end - placed[i].begin;
    produce(i, [&](std::span<const std::byte> bytes) {
      missing -= static_cast<int64_t>(bytes.size());
      sink(bytes);
    });
    if (missing != 0) {
      throw Error(ExitCode::internal, fmt::format("tensor \"{}\" was given {} bytes too {}", placed[i].name,
                                                  std::abs(missing), missing > 0 ? "few" : "many"));
    }
  }
}

void write_safetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors,
                       const StoredMetadata& metadata, const TensorProducer& produce) {
  write_atomically(path,
                   [&](const ByteSink& sink) { compose_safetensors(tensors, metadata, produce, sink); });
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(open_regular(path)) {
  const auto fail = [&path](const std::string& text) {
    throw Error(ExitCode::data,
                fmt::format("{}: not a valid safetensors file: {}", one_line(path.string()), text));
  };
  struct stat status = {};
  if (::fstat(file_.get(), &status) != 0) throw io_error(path, "fstat", errno);
  if (status.st_size < kLengthBytes) fail(fmt::format("it has {} bytes", status.st_size));
  uint64_t length = 0;
  read_exactly(file_.get(), path_, 0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxHeaderBytes) {
    if (is_from_torch_save(std::as_bytes(std::span(&length, 1)))) fail(how_to_convert(path));
    fail(fmt::format("its header would have {} bytes, at most {} are allowed", length, kMaxHeaderBytes));
  }
  data_start_ = kLengthBytes + static_cast<int64_t>(length);
  if (data_start_ > status.st_size) {
    fail(fmt::format("its header would end at byte {}, the file ends at {}", data_start_, status.st_size));
  }
  std::string header(length, '\0');
  read_exactly(file_.get(), path_, kLengthBytes, std::as_writable_bytes(std::span(header)));
  tensors_ = parse_header(header, status.st_size - data_start_, one_line(path.string()), metadata_);
  for (size_t i = 0; i < tensors_.size(); ++i) places_.emplace(tensors_[i].name, i);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &tensors_[found->second];
}

void SafetensorsFile::read_bytes(const StoredTensor& tensor, std::span<std::byte> bytes) const {
  if (static_cast<int64_t>(bytes.size()) != tensor.end - tensor.begin) {
    throw Error(ExitCode::internal, fmt::format("\"{}\" has {} bytes, {} were asked for", tensor.name,
                                                tensor.end - tensor.begin, bytes.size()));
  }
  read_exactly(file_.get(), path_, data_start_ + tensor.begin, bytes);
}

void SafetensorsFile::copy_bytes(const StoredTensor& tensor, const ByteSink& sink) const {
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPiece, tensor.end - tensor.begin)));
  for (int64_t at = tensor.begin; at < tensor.end; at += std::ssize(piece)) {
    const auto part = std::span(piece).first(static_cast<size_t>(std::min(kPiece, tensor.end - at)));
    read_exactly(file_.get(), path_, data_start_ + at, part);
    sink(part);
  }
}

std::vector<float> SafetensorsFile::read_floats(const StoredTensor& tensor) const {
  std::vector<float> values(static_cast<size_t>(numel(tensor.shape)));
  const auto read = [&](int64_t offset, std::span<std::byte> bytes) {
    read_exactly(file_.get(), path_, data_start_ + tensor.begin + offset, bytes);
  };
  if (tensor.dtype == "F32") {
    read(0, std::as_writable_bytes(std::span(values)));
  } else if (tensor.dtype == "F16") {
    convert<uint16_t>(values, read, from_f16);
  } else if (tensor.dtype == "BF16") {
    convert<uint16_t>(values, read, from_bf16);
  } else if (tensor.dtype == "F64") {
    convert<double>(values, read, from_f64);
  } else if (tensor.dtype == kIntegers) {
    const std::vector<float> scales = read_scales(tensor);
    convert<int8_t>(values, read, from_i8);
    const size_t count = values.size() / std::max<size_t>(1, scales.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] *= scales[i / count];
  } else {
    throw Error(ExitCode::data, fmt::format("{}: tensor \"{}\" holds {}, expected F32, F16, BF16, F64 or I8",
                                            one_line(path_.string()), tensor.name, tensor.dtype));
  }
  return values;
}

bool SafetensorsFile::is_scale(const StoredTensor& tensor) const {
  if (!tensor.name.ends_with(kScaleSuffix)) return false;
  const StoredTensor* of =
      find(std::string_view(tensor.name).substr(0, tensor.name.size() - kScaleSuffix.size()));
  return of != nullptr && of->dtype == kIntegers;
}

std::vector<float> SafetensorsFile::read_scales(const StoredTensor& integers) const {
  const std::string name = integers.name + std::string(kScaleSuffix);
  const auto fail = [&](const std::string& text) {
    throw Error(ExitCode::data,
                fmt::format("{}: tensor \"{}\" holds I8: {}", one_line(path_.string()), integers.name, text));
  };
  const StoredTensor* scales = find(name);
  if (scales == nullptr) fail(fmt::format("expected its scales in \"{}\", found none", name));
  const Shape wanted(integers.shape.begin(),
                     integers.shape.begin() + static_cast<std::ptrdiff_t>(!integers.shape.empty()));
  if (wanted.empty() || scales->shape != wanted || scales->dtype != "F32")
    fail(fmt::format("expected F32 {} in \"{}\", a scale for each output, found {} {}", to_string(wanted),
                     name, scales->dtype, to_string(scales->shape)));
  std::vector<float> values = read_floats(*scales);
  for (const float value : values) {
    if (!(value > 0) || !std::isfinite(value))
      fail(fmt::format("expected scales above 0 in \"{}\", found {}", name, value));
  }
  return values;
}

}  // namespace trainer

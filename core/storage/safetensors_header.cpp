// SPDX-License-Identifier: Apache-2.0
#include "core/storage/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/storage/stored_type.h"

namespace trainer {
namespace {

constexpr const char* kMetadataKey = "__metadata__";

/// A tensor as messages show it: `F32 of shape [2, 3]`.
std::string type_text(const StoredTensor& tensor) {
  return fmt::format("{} of shape [{}]", tensor.dtype, fmt::join(tensor.shape, ", "));
}

/// Reads one header; each method names the file, and the tensor if there is one.
class HeaderParser {
 public:
  explicit HeaderParser(const std::string& file) : file_(file) {}

  Json parse(std::string_view text) const;
  StoredMetadata metadata(const Json& value) const;
  StoredTensor tensor(const std::string& name, const Json& value) const;
  void check_layout(const std::vector<StoredTensor>& tensors, int64_t data_bytes) const;

  [[noreturn]] void fail(const std::string& text) const {
    throw Error(ExitCode::data, fmt::format("{}: not a valid safetensors file: {}", file_, text));
  }
  [[noreturn]] void fail(const std::string& name, const std::string& text) const {
    fail(fmt::format("tensor \"{}\": {}", one_line(name), text));
  }

 private:
  void check_members(const Json& value, int depth) const;
  std::vector<int64_t> sizes(const std::string& name, const Json& value, const char* key) const;

  const std::string& file_;
};

Json HeaderParser::parse(std::string_view text) const {
  if (text.empty() || text.front() != '{') fail("the header does not start with '{'");
  // The JSON parser would take a zero byte for the end of its input.
  if (text.find('\0') != std::string_view::npos) fail("the header holds a zero byte");
  std::string problem;
  std::optional<Json> header = Json::parse(text, &problem);
  if (!header) fail(fmt::format("the header is not JSON: {}", problem));
  check_members(*header, 0);
  header->sort();
  return *header;
}

/// A valid header is three deep, and no object has two members of one name.
void HeaderParser::check_members(const Json& value, int depth) const {
  if (depth > 8) fail("the header is nested too deeply");
  if (value.is_array()) {
    for (const Json& item : value.items()) check_members(item, depth + 1);
  }
  if (!value.is_object()) return;
  std::set<std::string_view> keys;
  for (const auto& [key, member] : value.members()) {
    if (!keys.insert(key).second) fail(fmt::format("the key \"{}\" is there twice", key));
    check_members(member, depth + 1);
  }
}

StoredMetadata HeaderParser::metadata(const Json& value) const {
  StoredMetadata result;
  if (!value.is_object()) fail("__metadata__ is not a map of texts");
  for (const auto& [key, text] : value.members()) {
    if (!text.is_text()) fail(fmt::format("__metadata__: the value of \"{}\" is not text", key));
    result[key] = text.text();
  }
  return result;
}

std::vector<int64_t> HeaderParser::sizes(const std::string& name, const Json& value, const char* key) const {
  const Json* found = value.find(key);
  if (found == nullptr || !found->is_array()) fail(name, fmt::format("has no list {}", key));
  std::vector<int64_t> result;
  for (const Json& item : found->items()) {
    const std::optional<int64_t> size = item.integer();
    if (!size || *size < 0) {
      fail(name, fmt::format("{} holds {}, expected whole numbers from 0", key, item.dump()));
    }
    result.push_back(*size);
  }
  return result;
}

StoredTensor HeaderParser::tensor(const std::string& name, const Json& value) const {
  if (!value.is_object()) fail(name, "is not a map");
  StoredTensor tensor;
  tensor.name = name;
  const Json* dtype = value.find("dtype");
  if (dtype == nullptr || !dtype->is_text()) fail(name, "has no dtype");
  tensor.dtype = dtype->text();
  if (element_bits(tensor.dtype) == 0)
    fail(name, fmt::format("unknown dtype \"{}\"", one_line(tensor.dtype)));
  tensor.shape = sizes(name, value, "shape");
  const std::vector<int64_t> offsets = sizes(name, value, "data_offsets");
  if (offsets.size() != 2) fail(name, fmt::format("{} data_offsets, expected 2", offsets.size()));
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  if (tensor.begin > tensor.end) fail(name, "its data ends before it begins");
  const std::optional<int64_t> bytes = tensor_bytes(tensor.shape, tensor.dtype);
  if (!bytes) fail(name, fmt::format("{} is not a whole number of bytes below 2^60", type_text(tensor)));
  if (*bytes != tensor.end - tensor.begin) {
    fail(name, fmt::format("{} needs {} bytes, data_offsets give it {}", type_text(tensor), *bytes,
                           tensor.end - tensor.begin));
  }
  return tensor;
}

void HeaderParser::check_layout(const std::vector<StoredTensor>& tensors, int64_t data_bytes) const {
  int64_t position = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin != position) {
      const char* what =
          tensor.begin < position ? "overlaps the tensor before it" : "leaves a hole before it";
      fail(tensor.name,
           fmt::format("its data begins at {}, expected {}: it {}", tensor.begin, position, what));
    }
    if (tensor.end > data_bytes) {
      fail(tensor.name, fmt::format("its data ends at {}, the file's at {}: the file is cut short",
                                    tensor.end, data_bytes));
    }
    position = tensor.end;
  }
  if (position != data_bytes) {
    fail(fmt::format("{} bytes follow the data of the last tensor", data_bytes - position));
  }
}

}  // namespace

std::string compose_header(std::vector<StoredTensor>& tensors, const StoredMetadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  int64_t position = 0;
  std::set<std::string> names = {kMetadataKey};
  for (StoredTensor& tensor : tensors) {
    const std::optional<int64_t> bytes = tensor_bytes(tensor.shape, tensor.dtype);
    if (element_bits(tensor.dtype) == 0 || !bytes) {
      throw Error(ExitCode::internal, fmt::format("cannot store \"{}\", {}", tensor.name, type_text(tensor)));
    }
    if (!names.insert(tensor.name).second) {
      throw Error(ExitCode::internal, fmt::format("cannot store two tensors named \"{}\"", tensor.name));
    }
    tensor.begin = position;
    tensor.end = position += *bytes;
    header.add(
        tensor.name,
        {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}});
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeaderBytes)
    throw Error(
        ExitCode::data,
        fmt::format("the names and shapes of {} tensors take {} bytes, a safetensors file has room for {}; "
                    "store fewer, or shorten their names",
                    tensors.size(), text.size(), kMaxHeaderBytes));
  return text;
}

std::vector<StoredTensor> parse_header(std::string_view text, int64_t data_bytes, const std::string& file,
                                       StoredMetadata& metadata) {
  const HeaderParser parser(file);
  const Json header = parser.parse(text);
  std::vector<StoredTensor> tensors;
  for (const auto& [name, value] : header.members()) {
    if (name != kMetadataKey) {
      tensors.push_back(parser.tensor(name, value));
    } else if (!value.is_null()) {
      metadata = parser.metadata(value);
    }
  }
  // By their ends too: a tensor without elements may share its begin with the one after it.
  std::ranges::stable_sort(tensors, {}, [](const StoredTensor& t) { return std::pair(t.begin, t.end); });
  parser.check_layout(tensors, data_bytes);
  return tensors;
}

}  // namespace trainer

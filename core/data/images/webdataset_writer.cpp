// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/webdataset_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/data/data_error.h"
#include "core/data/images/decode.h"
#include "core/data/images/packed.h"
#include "core/data/images/tar.h"
#include "core/data/mapped_file.h"

namespace trainer {
namespace {

using Sink = std::function<void(std::span<const std::byte>)>;

constexpr const char* kFactsName = "__trainer__";
constexpr const char *kClassesKey = "classes", *kTransformsKey = "transforms";

/// The header of a ustar archive for a file that everybody may read. It has no time, so that the same samples
/// give the same bytes.
std::array<char, kTarBlock> tar_header(const std::string& name, size_t bytes) {
  std::array<char, kTarBlock> header{};
  const auto put = [&header](size_t at, std::string_view text) {
    std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
  };
  if (name.size() > 100) throw std::logic_error("a name of a shard's member is too long");
  put(0, name);
  put(100, "0000444");                      // mode
  put(108, "0000000");                      // user
  put(116, "0000000");                      // group
  put(124, fmt::format("{:011o}", bytes));  // size
  put(136, "00000000000");                  // time
  put(148, "        ");                     // sum, as it counts itself
  put(156, "0");                            // a file
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  uint32_t sum = 0;
  for (const char byte : header) sum += static_cast<uint8_t>(byte);
  put(148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  return header;
}

void put_member(const std::string& name, std::span<const std::byte> bytes, const Sink& sink) {
  constexpr std::array<std::byte, kTarBlock> kZeros{};
  const std::array<char, kTarBlock> header = tar_header(name, bytes.size());
  sink(std::as_bytes(std::span(header)));
  sink(bytes);
  if (const size_t rest = bytes.size() % kTarBlock; rest != 0)
    sink(std::span(kZeros).first(kTarBlock - rest));
}

void put_member(const std::string& name, std::string_view text, const Sink& sink) {
  put_member(name, std::as_bytes(std::span(text)), sink);
}

std::vector<std::string> texts_in(const Json& facts, const char* key) {
  std::vector<std::string> texts;
  const Json* list = facts.find(key);
  if (list == nullptr || !list->is_array()) return texts;
  for (const Json& item : list->items())
    if (item.is_text()) texts.push_back(item.text());
  return texts;
}

}  // namespace

void write_webdataset(const ImageSource& source, int64_t begin, int64_t end, const ShardFacts& facts,
                      int64_t threads, const Sink& sink) {
  if (!facts.class_names.empty() || !facts.transforms.empty()) {
    const Json json = {{kClassesKey, facts.class_names}, {kTransformsKey, facts.transforms}};
    put_member(kFactsName, json.dump(-1, Json::NotUtf8::replace), sink);
  }
  int64_t number = begin;
  read_for_packing(source, begin, end, threads, [&](const Image& image) {
    const std::string key = fmt::format("{:09}", number++), ending = image_file_ending(image.encoded);
    put_member(key + ".cls", std::to_string(image.label), sink);
    put_member(key + "." + (ending.empty() ? "jpg" : ending), std::as_bytes(std::span(image.encoded)), sink);
  });
  constexpr std::array<std::byte, 2 * kTarBlock> kArchiveEnd{};
  sink(kArchiveEnd);
}

ShardFacts webdataset_facts(const std::string& path) {
  const MappedFile file(path);
  const std::optional<TarMember> first = TarReader(path, file.bytes()).next();
  if (!first || first->name != kFactsName) return {};
  const ShardBytes shard{path, file.bytes()};
  const auto bytes = shard.part(first->offset, first->bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::optional<Json> facts = Json::parse(text);
  file.require_intact();
  if (!facts) fail_in_file(path, first->offset, fmt::format("JSON in {}", kFactsName), "something else");
  return {texts_in(*facts, kClassesKey), texts_in(*facts, kTransformsKey)};
}

}  // namespace trainer

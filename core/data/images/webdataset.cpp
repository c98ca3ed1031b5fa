// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/webdataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/data/data_error.h"
#include "core/data/formats.h"
#include "core/data/images/image_files.h"
#include "core/data/images/shard_format.h"
#include "core/data/images/tar.h"
#include "core/data/images/webdataset_writer.h"

namespace trainer {
namespace {

constexpr int64_t kMostLabel = std::numeric_limits<int32_t>::max() - 1;  // the number of classes is i32, too
constexpr int64_t kMostImageBytes = int64_t{1} << 30;

std::string in_lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Members of webdataset itself, about the whole archive.
bool is_about_archive(const std::string& name) {
  return name.find('/') == std::string::npos && name.starts_with("__") && name.ends_with("__");
}

/// Collects the members of samples, in their order.
class SampleCollector {
 public:
  SampleCollector(const ShardBytes& shard, const std::string& json_label)
      : shard_(shard), json_label_(json_label) {}

  void add(const TarMember& member) {
    const ShardKey name = shard_key_of(member.name);
    if (name.key.empty() || is_about_archive(member.name)) return;
    if (name.key != key_) begin(name.key, member);
    if (!endings_.insert(name.ending).second)
      fail(member.start, fmt::format("each member of sample '{}' once", one_line(key_)),
           fmt::format(".{} again", one_line(name.ending)));
    if (name.ending.find('.') == std::string::npos && is_image_name("x." + name.ending)) {
      take_image(member);
    } else if (name.ending == "cls") {
      take_class(member);
    } else if (name.ending == "json" && !has_class_) {
      take_json(member);
    }
  }

  std::vector<ShardSample> finish() {
    end();
    return std::move(samples_);
  }

 private:
  [[noreturn]] void fail(int64_t offset, const std::string& expected, const std::string& found) const {
    fail_in_file(shard_.path, offset, expected, found);
  }

  void begin(const std::string& key, const TarMember& member) {
    end();
    if (!keys_.insert(key).second)
      fail(member.start, "members of a sample next to each other, and each key once",
           fmt::format("key '{}' again", one_line(key)));
    key_ = key;
    sample_ = {.start = member.start};
    endings_.clear();
    has_image_ = has_class_ = false;
  }

  void end() {
    if (key_.empty()) return;
    if (!has_image_)
      fail(sample_.start, fmt::format("an image ({}) in sample '{}'", image_endings(), one_line(key_)),
           "none");
    samples_.push_back(sample_);
  }

  void take_image(const TarMember& member) {
    if (has_image_) fail(member.start, fmt::format("one image in sample '{}'", one_line(key_)), "another");
    if (member.bytes > kMostImageBytes)
      fail(member.start, fmt::format("an image of at most {} bytes", kMostImageBytes),
           std::to_string(member.bytes));
    has_image_ = true;
    sample_.offset = member.offset, sample_.bytes = static_cast<uint32_t>(member.bytes);
  }

  std::string_view text_of(const TarMember& member) const {
    const auto bytes = shard_.part(member.offset, member.bytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  void take_class(const TarMember& member) {
    constexpr std::string_view kBlanks = " \t\r\n";
    constexpr size_t kMostShown = 40;
    std::string_view text = text_of(member);
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    while (!text.empty() && kBlanks.find(text.back()) != std::string_view::npos) text.remove_suffix(1);
    int64_t label = -1;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), label);
    const bool is_label = problem == std::errc() && end == text.data() + text.size() && label >= 0;
    if (!is_label || label > kMostLabel)
      fail(member.offset, fmt::format("the number of a class in {}", one_line(member.name)),
           text.empty() ? "nothing" : fmt::format("'{}'", one_line(std::string(text.substr(0, kMostShown)))));
    has_class_ = true;
    sample_.label = static_cast<int32_t>(label);
  }

  /// A network without classes needs no label, so that other contents are no error yet.
  void take_json(const TarMember& member) {
    std::string problem;
    const std::optional<Json> json = Json::parse(text_of(member), &problem);
    if (!json) fail(member.offset, fmt::format("JSON in {}", one_line(member.name)), problem);
    const Json* found = json->find(json_label_);
    const std::optional<int64_t> label = found == nullptr ? std::nullopt : found->integer();
    if (label && *label >= 0 && *label <= kMostLabel) sample_.label = static_cast<int32_t>(*label);
  }

  const ShardBytes& shard_;
  const std::string& json_label_;
  std::vector<ShardSample> samples_;
  std::unordered_set<std::string> keys_, endings_;  // of all samples, and of this one's members
  std::string key_;
  ShardSample sample_;
  bool has_image_ = false, has_class_ = false;
};

class WebDatasetLayout final : public ShardLayout {
 public:
  explicit WebDatasetLayout(std::string json_label) : json_label_(std::move(json_label)) {}

  // What counts as an image depends on the libraries of the build.
  std::string settings() const override {
    return fmt::format("webdataset {} {}", Json(json_label_).dump(), image_endings());
  }
  std::vector<ShardSample> find_samples(const ShardBytes& shard) const override {
    TarReader reader(shard.path, shard.bytes);
    SampleCollector collector(shard, json_label_);
    while (const std::optional<TarMember> member = reader.next()) collector.add(*member);
    return collector.finish();
  }
  std::span<const std::byte> image_of(const ShardBytes& shard, const ShardSample& sample) const override {
    return shard.part(sample.offset, sample.bytes);
  }
  std::string name_of(const ShardBytes& shard, const ShardSample& sample) const override {
    const std::optional<TarMember> first = TarReader(shard.path, shard.bytes, sample.start).next();
    return fmt::format("{}, sample {}", shard.path, first ? shard_key_of(first->name).key : "");
  }
  ShardFacts facts_of(const std::string& path) const override { return webdataset_facts(path); }
  std::string label_place() const override {
    return fmt::format("a member .cls, or .json with a number at '{}' (data.webdataset.label)",
                       one_line(json_label_));
  }

 private:
  std::string json_label_;
};

class WebDatasetFormat final : public ShardFormat {
 public:
  WebDatasetFormat() : ShardFormat(".tar") {}
  void declare(Fields& fields) override {
    fields
        .section("webdataset", "of format webdataset",
                 [this](Fields& section) {
                   section
                       .add("label", &json_label_,
                            "the member of a sample's .json that is its label, if it has no .cls")
                       .absent_as("label");
                 })
        .absent_if_unset();
  }
  std::shared_ptr<const ShardLayout> layout() const override { return webdataset_layout(json_label_); }

 private:
  std::string json_label_ = "label";
};

}  // namespace

ShardKey shard_key_of(const std::string& name) {
  const size_t folder = name.rfind('/');
  const size_t begin = folder == std::string::npos ? 0 : folder + 1, dot = name.find('.', begin);
  if (dot == std::string::npos || dot == begin) return {};
  return {name.substr(0, dot), in_lower_case(name.substr(dot + 1))};
}

std::shared_ptr<const ShardLayout> webdataset_layout(const std::string& json_label) {
  return std::make_shared<WebDatasetLayout>(json_label);
}

Registered<DataFormat> webdataset_format() {
  return {"webdataset",
          "tar files of images with labels, as the Python package webdataset writes them; named as shards of "
          "tokens are",
          [] { return std::make_unique<WebDatasetFormat>(); }};
}

}  // namespace trainer

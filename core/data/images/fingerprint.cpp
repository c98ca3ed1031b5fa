// SPDX-License-Identifier: Apache-2.0
#include "core/data/fingerprint.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "core/base/checksum.h"
#include "core/data/images/source.h"

namespace trainer {
namespace {

/// Enough to detect another set, and few enough to read from a network disk within a second.
constexpr int64_t kSamplesRead = 64;

void add_to(Checksum& sum, int64_t number) {
  sum.add(std::as_bytes(std::span(&number, 1)));
}

/// With its length, so that "ab" and "c" are not "a" and "bc".
void add_to(Checksum& sum, const std::string& text) {
  add_to(sum, static_cast<int64_t>(text.size()));
  sum.add(std::as_bytes(std::span(text)));
}

std::string hex_of(const Checksum& sum) {
  return fmt::format("{:016x}", sum.value());
}

void add_to(Checksum& sum, const std::vector<uint8_t>& bytes) {
  add_to(sum, static_cast<int64_t>(bytes.size()));
  sum.add(std::as_bytes(std::span(bytes)));
}

/// An image's file and its mask's as they are; other samples as they are stored.
void add_sample(Checksum& sum, const ImageSource& source, int64_t index, Image& image) try {
  if (source.is_encoded()) {
    source.read_encoded(index, image);
  } else {
    source.read(index, image);
  }
  add_to(sum, image.label);
  add_to(sum, source.is_encoded() ? image.encoded : image.pixels);
  if (!source.has_masks()) return;
  source.read_encoded_mask(index, image);
  add_to(sum, image.encoded);
} catch (const UnreadableSampleError&) {
  add_to(sum, -1);
}

}  // namespace

Fingerprint ImageSource::fingerprint() const {
  using fingerprint_name::kClasses;
  using fingerprint_name::kContents;
  using fingerprint_name::kGroups;
  using fingerprint_name::kLabels;
  using fingerprint_name::kNames;
  using fingerprint_name::kSamples;
  Fingerprint found = {{kSamples, std::to_string(size())}};
  Checksum classes, names, labels, contents;
  for (const std::string& name : class_names()) add_to(classes, name);
  if (!class_names().empty()) found[kClasses] = hex_of(classes);
  if (!sample_name(0).empty()) {
    for (int64_t i = 0; i < size(); ++i) add_to(names, sample_name(i));
    found[kNames] = hex_of(names);
  }
  if (label_of(0)) {
    Image image;
    for (int64_t i = 0; i < size(); ++i) {
      image.label = *label_of(i);
      add_to(labels, image.label);
      if (!has_label_sets()) continue;
      const std::span<const int32_t> set = label_set(image);
      add_to(labels, static_cast<int64_t>(set.size()));
      labels.add(std::as_bytes(set));
    }
    found[kLabels] = hex_of(labels);
  }
  if (group_of(0)) {
    Checksum groups;
    for (int64_t i = 0; i < size(); ++i) add_to(groups, *group_of(i));
    found[kGroups] = hex_of(groups);
  }
  Image image;
  const int64_t count = std::min(size(), kSamplesRead);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = count == 1 ? 0 : i * (size() - 1) / (count - 1);
    add_sample(contents, *this, index, image);
  }
  found[kContents] = hex_of(contents);
  return found;
}

}  // namespace trainer

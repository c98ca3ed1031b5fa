// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/example.h"

#include <fmt/format.h>

#include <protozero/data_view.hpp>
#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>
#include <protozero/types.hpp>
#include <protozero/varint.hpp>
#include <stdexcept>
#include <vector>

#include "core/base/printable.h"

namespace trainer {
namespace {

using protozero::pbf_reader;
using protozero::tag_and_type;

constexpr auto kVarint = protozero::pbf_wire_type::varint,
               kDelimited = protozero::pbf_wire_type::length_delimited;

// Numbers of fields in TensorFlow's example.proto and feature.proto.
constexpr protozero::pbf_tag_type kFeatures = 1;               // of Example
constexpr protozero::pbf_tag_type kFeature = 1;                // of Features: a map
constexpr protozero::pbf_tag_type kMapKey = 1, kMapValue = 2;  // of its entries
constexpr protozero::pbf_tag_type kBytes = 1, kInts = 3;       // of Feature
constexpr protozero::pbf_tag_type kListValue = 1;              // of each list

[[noreturn]] void fail_example(const std::string& expected, const std::string& found) {
  throw std::invalid_argument(fmt::format("expected {}, found {}", expected, found));
}

/// Moves to the next field. protozero drops the upper half of a length, so lengths are compared with the
/// remaining bytes before it reads them.
bool advance_example(pbf_reader& message) {
  if (!message.next()) return false;
  if (!message.has_wire_type(kDelimited)) return true;
  const char* at = message.data().data();
  const char* const end = at + message.length();
  const uint64_t length = protozero::decode_varint(&at, end);
  if (length > static_cast<uint64_t>(end - at)) throw protozero::end_of_buffer_exception();
  return true;
}

std::string_view field_view(pbf_reader& field) {
  const protozero::data_view view = field.get_view();
  return {view.data(), view.size()};
}

pbf_reader reader_of(std::string_view message) {
  return pbf_reader(message.data(), message.size());
}

/// The only value of a feature that holds a list of this kind; nothing if the list is empty or of another
/// kind.
std::optional<std::string_view> bytes_value(std::string_view feature) {
  std::optional<std::string_view> value;
  int64_t count = 0;
  pbf_reader message = reader_of(feature);
  while (advance_example(message)) {
    if (message.tag_and_type() != tag_and_type(kBytes, kDelimited)) {
      message.skip();
      continue;
    }
    pbf_reader list = reader_of(field_view(message));
    while (advance_example(list)) {
      if (list.tag_and_type() == tag_and_type(kListValue, kDelimited)) {
        value = field_view(list);
        ++count;
      } else {
        list.skip();
      }
    }
  }
  return count == 1 ? value : std::nullopt;
}

/// Numbers are packed, or a field each.
std::optional<int64_t> int_value(std::string_view feature) {
  std::optional<int64_t> value;
  int64_t count = 0;
  pbf_reader message = reader_of(feature);
  while (advance_example(message)) {
    if (message.tag_and_type() != tag_and_type(kInts, kDelimited)) {
      message.skip();
      continue;
    }
    pbf_reader list = reader_of(field_view(message));
    while (advance_example(list)) {
      if (list.tag_and_type() == tag_and_type(kListValue, kVarint)) {
        value = list.get_int64();
        ++count;
      } else if (list.tag_and_type() == tag_and_type(kListValue, kDelimited)) {
        const std::string_view packed = field_view(list);
        for (const char* at = packed.data(); at != packed.data() + packed.size(); ++count)
          value = static_cast<int64_t>(protozero::decode_varint(&at, packed.data() + packed.size()));
      } else {
        list.skip();
      }
    }
  }
  return count == 1 ? value : std::nullopt;
}

/// Calls take(name, feature) for each entry of the map.
template <class Take>
void for_each_feature(std::string_view example, const Take& take) {
  pbf_reader message = reader_of(example);
  while (advance_example(message)) {
    if (message.tag_and_type() != tag_and_type(kFeatures, kDelimited)) {
      message.skip();
      continue;
    }
    pbf_reader features = reader_of(field_view(message));
    while (advance_example(features)) {
      if (features.tag_and_type() != tag_and_type(kFeature, kDelimited)) {
        features.skip();
        continue;
      }
      pbf_reader entry = reader_of(field_view(features));
      std::string_view name, feature;
      while (advance_example(entry)) {
        if (entry.tag_and_type() == tag_and_type(kMapKey, kDelimited)) {
          name = field_view(entry);
        } else if (entry.tag_and_type() == tag_and_type(kMapValue, kDelimited)) {
          feature = field_view(entry);
        } else {
          entry.skip();
        }
      }
      take(name, feature);
    }
  }
}

/// For a message: the names of some features.
std::string names_of(std::string_view example) {
  constexpr size_t kMostNames = 8, kMostShown = 64;
  std::vector<std::string> names;
  for_each_feature(example, [&](std::string_view name, std::string_view) {
    if (names.size() < kMostNames) names.push_back(one_line(std::string(name.substr(0, kMostShown))));
  });
  return names.empty() ? "no features" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

ImageExample parse_example(std::string_view message, const std::string& image_feature,
                           const std::string& label_feature) try {
  std::optional<std::string_view> image, label;
  for_each_feature(message, [&](std::string_view name, std::string_view feature) {
    if (name == image_feature) image = feature;
    if (name == label_feature) label = feature;
  });
  if (!image)
    fail_example(fmt::format("a feature '{}' with an image", one_line(image_feature)), names_of(message));
  const std::optional<std::string_view> file = bytes_value(*image);
  if (!file)
    fail_example(fmt::format("one text of bytes in feature '{}', an image file", one_line(image_feature)),
                 "none or several");
  ImageExample example{.image = *file};
  if (!label) return example;
  example.label = int_value(*label);
  if (!example.label)
    fail_example(fmt::format("one whole number in feature '{}', the label", one_line(label_feature)),
                 "none, several or another type");
  return example;
} catch (const protozero::end_of_buffer_exception&) {
  fail_example("a message tf.train.Example", "the end of the record within a field");
} catch (const protozero::varint_too_long_exception&) {
  fail_example("a message tf.train.Example", "a number of more than ten bytes");
} catch (const protozero::exception&) {  // of a field's type or number
  fail_example("a message tf.train.Example", "something else");
}

}  // namespace trainer

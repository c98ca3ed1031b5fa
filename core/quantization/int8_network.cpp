// SPDX-License-Identifier: Apache-2.0
#include "core/quantization/int8_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/printable.h"

namespace trainer {
namespace {

constexpr int64_t kFormatVersion = 1;

namespace key {
constexpr const char* kVersionOfText = "version";
constexpr const char* kWeightBits = "weight_bits";
constexpr const char* kMethod = "method";
constexpr const char* kSamples = "samples";
constexpr const char* kInputs = "inputs";
constexpr const char* kInF32 = "in_f32";
}  // namespace key

constexpr double kSteps = 255;  ///< of a range

/// Reads the text's members, or refuses them.
class Reader {
 public:
  Reader(const std::string& text, const std::string& file) : file_(file) {
    std::string problem;
    auto parsed = Json::parse(text, &problem);
    if (!parsed) fail("it is not JSON: " + problem);
    if (!parsed->is_object()) fail("expected an object");
    all_ = *std::move(parsed);
  }

  int64_t whole(const char* name, int64_t least, int64_t most) const {
    const Json* found = all_.find(name);
    const auto value = found == nullptr ? std::nullopt : found->integer();
    if (!value || *value < least || *value > most)
      fail(fmt::format("'{}' must be a whole number from {} to {}", name, least, most));
    return *value;
  }
  std::string text(const char* name) const {
    const Json* found = all_.find(name);
    if (found == nullptr || !found->is_text()) fail(fmt::format("'{}' must be a text", name));
    return found->text();
  }
  const std::vector<Json::Member>& members(const char* name) const {
    const Json* found = all_.find(name);
    if (found == nullptr || !found->is_object()) fail(fmt::format("'{}' must be an object", name));
    return found->members();
  }
  ValueRange range(const Json::Member& member) const {
    const Json& pair = member.second;
    const bool is_pair =
        pair.is_array() && pair.size() == 2 && pair[size_t{0}].is_number() && pair[size_t{1}].is_number();
    const ValueRange range = is_pair ? ValueRange{pair[size_t{0}].number(), pair[size_t{1}].number()}
                                     : ValueRange{.low = 1, .high = 0};
    const double largest = std::max(-range.low, range.high);
    const bool has_scale = largest == 0 || std::isnormal(static_cast<float>(largest / kSteps));
    if (!std::isfinite(range.low) || !std::isfinite(range.high) || !(range.low <= range.high) ||
        range.high < 0 || !has_scale)
      fail(
          fmt::format("the range of '{}' must be two finite numbers, of which the second is at least 0 and "
                      "not below the first, and wide enough for a scale",
                      one_line(member.first)));
    return range;
  }
  [[noreturn]] void fail(const std::string& text) const {
    throw Error(ExitCode::data,
                fmt::format("{}: the metadata '{}' is damaged: {}; quantise the network again",
                            one_line(file_), kQuantizationMetadata, text));
  }

 private:
  std::string file_;
  Json all_;
};

}  // namespace

std::string to_text(const Int8Network& network) {
  Json inputs = Json::object();
  for (const auto& [name, range] : network.inputs) inputs.add(name, Json::array({range.low, range.high}));
  Json json = Json::object();
  json.add(key::kVersionOfText, kFormatVersion);
  json.add(key::kWeightBits, network.weight_bits);
  json.add(key::kMethod, network.method);
  json.add(key::kSamples, network.samples);
  json.add(key::kInputs, std::move(inputs));
  json.add(key::kInF32, network.in_f32);
  return json.dump(-1, Json::NotUtf8::replace);
}

Int8Network int8_network_from(const std::string& text, const std::string& file) {
  constexpr int64_t kLeastBits = 7, kMostBits = 8, kMostSamples = int64_t{1} << 53;
  const Reader reader(text, file);
  if (reader.whole(key::kVersionOfText, 1, kMostSamples) > kFormatVersion)
    throw Error(ExitCode::data,
                one_line(file) + ": a newer version of the program quantised this network; use that");
  Int8Network network{.weight_bits = reader.whole(key::kWeightBits, kLeastBits, kMostBits),
                      .method = reader.text(key::kMethod),
                      .samples = reader.whole(key::kSamples, 1, kMostSamples),
                      .inputs = {},
                      .in_f32 = {},
                      .file = file};
  for (const Json::Member& member : reader.members(key::kInputs))
    network.inputs[member.first] = reader.range(member);
  for (const Json::Member& member : reader.members(key::kInF32)) {
    if (!member.second.is_text()) reader.fail("a reason must be a text");
    network.in_f32[member.first] = member.second.text();
  }
  return network;
}

}  // namespace trainer

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
constexpr const char* kPerTensor = "per_tensor";
constexpr const char* kActivationBits = "activation_bits";
constexpr const char* kPowerOfTwo = "power_of_two";
constexpr const char* kMethod = "method";
constexpr const char* kSamples = "samples";
constexpr const char* kInputs = "inputs";
constexpr const char* kInF32 = "in_f32";
}  // namespace key

constexpr double kSteps = 255;  ///< of a range

/// Reads the text's members, or refuses them.
class Reader {
 public:
  Reader(const std::string& text, const std::string& file, const char* name, const char* remedy)
      : file_(file), name_(name), remedy_(remedy) {
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
  bool flag(const char* name) const {
    const Json* found = all_.find(name);
    if (found == nullptr || !found->is_boolean()) fail(fmt::format("'{}' must be true or false", name));
    return found->boolean();
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
  const std::vector<Json::Member>& members() const { return all_.members(); }
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
      fail(fmt::format(
          "the range of '{}' must be two finite numbers in order, the second at least 0, and wide "
          "enough for a scale",
          one_line(member.first)));
    return range;
  }
  [[noreturn]] void fail(const std::string& text) const {
    throw Error(ExitCode::data, fmt::format("{}: the metadata '{}' is damaged: {}; {}", one_line(file_),
                                            name_, text, remedy_));
  }

 private:
  std::string file_;
  const char *name_, *remedy_;
  Json all_;
};

Json json_of(const InputRanges& ranges) {
  Json json = Json::object();
  for (const auto& [name, range] : ranges) json.add(name, Json::array({range.low, range.high}));
  return json;
}

InputRanges ranges_of(const Reader& reader, const std::vector<Json::Member>& members) {
  InputRanges ranges;
  for (const Json::Member& member : members) ranges[member.first] = reader.range(member);
  return ranges;
}

}  // namespace

std::string to_text(const Int8Network& network) {
  Json json = Json::object();
  json.add(key::kVersionOfText, kFormatVersion);
  json.add(key::kWeightBits, network.weights.bits);
  json.add(key::kPerTensor, network.weights.per_tensor);
  json.add(key::kActivationBits, network.activations.bits);
  json.add(key::kPowerOfTwo, network.weights.power_of_two);
  json.add(key::kMethod, network.method);
  json.add(key::kSamples, network.samples);
  json.add(key::kInputs, json_of(network.inputs));
  json.add(key::kInF32, network.in_f32);
  return json.dump(-1, Json::NotUtf8::replace);
}

Int8Network int8_network_from(const std::string& text, const std::string& file) {
  constexpr int64_t kMostSamples = int64_t{1} << 53;
  const Reader reader(text, file, kQuantizationMetadata, "quantise the network again");
  if (reader.whole(key::kVersionOfText, 1, kMostSamples) > kFormatVersion)
    throw Error(ExitCode::data,
                one_line(file) + ": a newer version of the program quantised this network; use that");
  const bool power_of_two = reader.flag(key::kPowerOfTwo);
  Int8Network network{.weights = {.bits = reader.whole(key::kWeightBits, kLeastBits, kMostBits),
                                  .per_tensor = reader.flag(key::kPerTensor),
                                  .power_of_two = power_of_two},
                      .activations = {.bits = reader.whole(key::kActivationBits, kLeastBits, kMostBits),
                                      .power_of_two = power_of_two},
                      .method = reader.text(key::kMethod),
                      .samples = reader.whole(key::kSamples, 0, kMostSamples),
                      .inputs = ranges_of(reader, reader.members(key::kInputs)),
                      .in_f32 = {},
                      .file = file};
  for (const Json::Member& member : reader.members(key::kInF32)) {
    if (!member.second.is_text()) reader.fail("a reason must be a text");
    network.in_f32[member.first] = member.second.text();
  }
  return network;
}

std::string ranges_text(const InputRanges& ranges) {
  return json_of(ranges).dump(-1, Json::NotUtf8::replace);
}

InputRanges ranges_from(const std::string& text, const std::string& file) {
  const Reader reader(text, file, kRangesMetadata, "choose weights of another checkpoint");
  return ranges_of(reader, reader.members());
}

}  // namespace trainer

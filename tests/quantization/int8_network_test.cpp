// SPDX-License-Identifier: Apache-2.0
#include "core/quantization/int8_network.h"

#include "tests/catch.h"

#include "core/base/error.h"

namespace trainer {
namespace {

const Int8Network kNetwork{
    .weights = {.bits = 8, .per_tensor = true, .power_of_two = true},
    .activations = {.bits = 4, .power_of_two = true},
    .method = "entropy",
    .samples = 512,
    .inputs = {{"conv1.weight", {.low = 0, .high = 2.640625}}, {"fc.weight", {.low = -0.1, .high = 1e-30}}},
    .in_f32 = {{"conv2.weight", "slower in 8 bits"}},
    .file = "net.safetensors"};

std::string refusal(const std::string& text) {
  try {
    int8_network_from(text, "net.safetensors");
  } catch (const Error& problem) {
    CHECK(problem.code() == ExitCode::data);
    return problem.what();
  }
  return "";
}

/// The network's text with one part replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_text(kNetwork);
  const size_t place = text.find(from);
  REQUIRE(place != std::string::npos);
  return text.replace(place, from.size(), to);
}

}  // namespace

TEST_CASE("the metadata of a network in 8 bits is read as it was written") {
  CHECK(int8_network_from(to_text(kNetwork), "net.safetensors") == kNetwork);
}

TEST_CASE("damaged metadata of a network in 8 bits is refused by what is wrong") {
  using Catch::Matchers::ContainsSubstring;
  const std::pair<std::string, const char*> cases[] = {
      {"{", "it is not JSON"},
      {"[]", "expected an object"},
      {"{}", "'version' must be a whole number"},
      {changed("\"weight_bits\":8", "\"weight_bits\":9"), "'weight_bits' must be a whole number from 2 to 8"},
      {changed("\"activation_bits\":4", "\"activation_bits\":1"),
       "'activation_bits' must be a whole number from 2 to 8"},
      {changed("\"per_tensor\":true", "\"per_tensor\":1"), "'per_tensor' must be true or false"},
      {changed("\"samples\":512", "\"samples\":-1"), "'samples' must be a whole number from 0"},
      {changed("\"entropy\"", "3"), "'method' must be a text"},
      {changed("2.640625", "-1"), "the range of 'conv1.weight' must be two finite numbers"},
      {changed("2.640625", "1e999"), "damaged"},
      {changed("2.640625", "null"), "the range of 'conv1.weight'"},
      {changed("[0.0,2.640625]", "[2.640625]"), "the range of 'conv1.weight'"},
      {changed("\"slower in 8 bits\"", "1"), "a reason must be a text"},
  };
  for (const auto& [text, expected] : cases) {
    INFO(text);
    CHECK_THAT(refusal(text), ContainsSubstring(expected) && ContainsSubstring("net.safetensors: "));
  }
  CHECK_THAT(refusal(changed("\"version\":1", "\"version\":2")), ContainsSubstring("a newer version"));
}

}  // namespace trainer

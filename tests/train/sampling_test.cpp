// SPDX-License-Identifier: Apache-2.0
#include "core/train/sampling.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/base/error.h"
#include "tests/catch.h"
#include "tests/storage/scratch_directory.h"

using namespace trainer;

namespace {

/// Logits of these probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

/// How often each token is drawn by draws that are spread evenly: its probability, to a thousandth.
std::map<int32_t, double> shares(const SamplingSettings& settings, const std::vector<float>& logits) {
  constexpr int kDraws = 4000;
  TokenSampler sampler(settings);
  std::map<int32_t, double> found;
  for (int i = 0; i < kDraws; ++i) found[sampler.pick(logits, (i + 0.5) / kDraws)] += 1.0 / kDraws;
  return found;
}

void check_shares(const std::map<int32_t, double>& found, const std::map<int32_t, double>& expected) {
  CHECK(found.size() == expected.size());
  for (const auto& [token, share] : expected) {
    INFO("token " << token);
    REQUIRE(found.contains(token));
    CHECK(std::abs(found.at(token) - share) < 1e-3);
  }
}

const std::vector<double> kFour = {0.1, 0.4, 0.2, 0.3};

}  // namespace

TEST_CASE("sampling: temperature 0 takes the lowest of the largest logits") {
  TokenSampler greedy({.temperature = 0});
  CHECK(greedy.pick(std::vector<float>{1, 3, 2, 3}, 0.99) == 1);
  CHECK(greedy.pick(std::vector<float>{-5}, 0) == 0);
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(greedy.pick(std::vector<float>{-infinity, -4, -3}, 0) == 2);
}

TEST_CASE("sampling: probabilities are those of the softmax, sharpened by a temperature") {
  check_shares(shares({}, logits_of(kFour)), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  // p^2 of each over their sum, 0.3
  check_shares(shares({.temperature = 0.5}, logits_of(kFour)),
               {{0, 0.01 / 0.3}, {1, 0.16 / 0.3}, {2, 0.04 / 0.3}, {3, 0.09 / 0.3}});
}

TEST_CASE("sampling: top_k leaves the k likeliest") {
  check_shares(shares({.top_k = 1}, logits_of(kFour)), {{1, 1.0}});
  check_shares(shares({.top_k = 2}, logits_of(kFour)), {{1, 4.0 / 7}, {3, 3.0 / 7}});
  check_shares(shares({.top_k = 9}, logits_of(kFour)), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  // Of equal ones the lower tokens.
  check_shares(shares({.top_k = 2}, {0, 0, 0, 0}), {{0, 0.5}, {1, 0.5}});
}

TEST_CASE("sampling: top_p leaves the fewest likeliest that reach it") {
  check_shares(shares({.top_p = 0}, logits_of(kFour)), {{1, 1.0}});
  check_shares(shares({.top_p = 0.39}, logits_of(kFour)), {{1, 1.0}});
  check_shares(shares({.top_p = 0.41}, logits_of(kFour)), {{1, 4.0 / 7}, {3, 3.0 / 7}});
  check_shares(shares({.top_p = 0.75}, logits_of(kFour)), {{1, 4.0 / 9}, {3, 3.0 / 9}, {2, 2.0 / 9}});
  check_shares(shares({.top_p = 0.95}, logits_of(kFour)), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  check_shares(shares({.top_p = 0.6}, {0, 0, 0, 0}), {{0, 1.0 / 3}, {1, 1.0 / 3}, {2, 1.0 / 3}});
  check_shares(shares({.top_p = 0.5}, {0, 0, 0, 0}), {{0, 0.5}, {1, 0.5}});
}

TEST_CASE("sampling: top_p counts what top_k has left") {
  // 4/9, 3/9 and 2/9 are left by top_k; the first two reach 0.7.
  check_shares(shares({.top_k = 3, .top_p = 0.7}, logits_of(kFour)), {{1, 4.0 / 7}, {3, 3.0 / 7}});
  check_shares(shares({.top_k = 2, .top_p = 0.7}, logits_of(kFour)), {{1, 4.0 / 7}, {3, 3.0 / 7}});
  check_shares(shares({.top_k = 2, .top_p = 0.5}, logits_of(kFour)), {{1, 1.0}});
}

TEST_CASE("sampling: what is impossible is not drawn, and what is no number is refused") {
  const float infinity = std::numeric_limits<float>::infinity();
  TokenSampler sampler({});
  CHECK(sampler.pick(std::vector<float>{-infinity, 0, -infinity}, 1 - 1e-16) == 1);
  CHECK(sampler.pick(std::vector<float>{-infinity, 0, -infinity}, 0) == 1);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity}) {
    const std::vector<float> logits = {0, bad, 1};
    CHECK_THAT(test::error_text(ExitCode::internal, [&] { sampler.pick(logits, 0.5); }),
               Catch::Matchers::ContainsSubstring("output"));
  }
}

TEST_CASE("sampling: draws are a function of seed, sample and position, uniform, and never 1") {
  CHECK(token_draw(1, 2, 3) == token_draw(1, 2, 3));
  std::set<double> different;
  double sum = 0;
  for (uint64_t seed : {0, 1}) {
    for (int64_t sample = 0; sample < 20; ++sample) {
      for (int64_t position = 0; position < 100; ++position) {
        const double draw = token_draw(seed, sample, position);
        CHECK((draw >= 0 && draw < 1));
        different.insert(draw);
        sum += draw;
      }
    }
  }
  CHECK(different.size() == 4000);
  CHECK(std::abs(sum / 4000 - 0.5) < 0.02);
}

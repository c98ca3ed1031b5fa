// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/decode_rate.h"

#include <algorithm>

#include "apps/trainer/devices.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/json.h"
#include "core/recipe/decode_rate.h"

namespace trainer {
namespace {

constexpr double kSeconds = 2;

/// So that no micro-batch takes longer than the whole measurement should.
constexpr int64_t kMostRows = 16;

int64_t largest_divisor(int64_t number, int64_t most) {
  int64_t divisor = std::min(number, most);
  while (number % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

void print_decode_rate(const Arguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  overrides.emplace_back("data.cache=none");  // samples that a GPU keeps are not made here again and again
  const std::shared_ptr<const Recipe> recipe = Recipe::load(arguments.config, overrides);
  require_data(*recipe, Split::train);
  const RunSpec alone(recipe);
  const RunSpec spec = alone.with_micro_batch(largest_divisor(alone.batch().rank_batch(), kMostRows));
  Tuning tuning;
  const Backend backend = open_device(spec, tuning, {.type = "cpu"});
  const Job job = make_job(spec, *backend.planner, {.disabled_passes = {}, .observe = {}, .plan = false});
  const DecodeRate rate = measure_decode_rate(job, kSeconds);
  if (arguments.json) {
    const Json report{{"samples", rate.samples},
                      {"processor_seconds", rate.seconds},
                      {"samples_per_second_of_a_core", rate.per_second()}};
    print_text("{}\n", report.dump(2));
    return;
  }
  print_text(
      "one core reads, decodes and augments {0:.0f} samples of data.train a second ({1} in {2:.1f} s)\n"
      "`trainer plan --decode-rate {0:.0f}` says how many cores a GPU needs\n",
      rate.per_second(), rate.samples, rate.seconds);
}

}  // namespace trainer

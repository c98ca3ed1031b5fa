// SPDX-License-Identifier: Apache-2.0
#include "core/layers/initializer.h"

#include <cmath>

namespace trainer {
namespace {

Initial within(double bound) {
  return {.kind = Initial::Kind::uniform, .a = -bound, .b = bound, .table = {}};
}
Initial around_zero(double deviation, Initial::Kind kind = Initial::Kind::normal) {
  return {.kind = kind, .a = 0, .b = deviation, .table = {}};
}

}  // namespace

void Initializer::declare(Fields& fields) {
  fields
      .add("init", &name,
           "weight initialisation; default: PyTorch's (uniform in 1/sqrt(fan_in); embeddings: normal with "
           "standard deviation 1); kaiming_*: for relu, fan-out mode unless it ends in _fan_in; "
           "trunc_normal: normal, truncated at two standard deviations; uniform: around 0")
      .one_of({"default", "kaiming_normal", "kaiming_uniform", "kaiming_normal_fan_in",
               "kaiming_uniform_fan_in", "xavier_normal", "xavier_uniform", "normal", "trunc_normal",
               "uniform", "zeros"});
  fields.add("init_std", &deviation, "standard deviation of init: normal, trunc_normal and uniform")
      .at_least(0);
}

Initial Initializer::weight(int64_t fan_in, int64_t fan_out) const {
  const auto in = static_cast<double>(fan_in), out = static_cast<double>(fan_out);
  if (name == "kaiming_normal") return around_zero(std::sqrt(2 / out));
  if (name == "kaiming_uniform") return within(std::sqrt(6 / out));
  if (name == "kaiming_normal_fan_in") return around_zero(std::sqrt(2 / in));
  if (name == "kaiming_uniform_fan_in") return within(std::sqrt(6 / in));
  if (name == "xavier_normal") return around_zero(std::sqrt(2 / (in + out)));
  if (name == "xavier_uniform") return within(std::sqrt(6 / (in + out)));
  if (name == "normal") return around_zero(deviation);
  if (name == "trunc_normal") return around_zero(deviation, Initial::Kind::truncated_normal);
  if (name == "uniform") return within(std::sqrt(3.0) * deviation);
  if (name == "zeros") return {};
  return within(1 / std::sqrt(in));
}

Initial Initializer::table(int64_t rows, int64_t features) const {
  return name == "default" ? around_zero(1) : weight(features, rows);
}

Initial Initializer::bias(int64_t fan_in) const {
  return name == "default" ? within(1 / std::sqrt(static_cast<double>(fan_in))) : Initial{};
}

}  // namespace trainer

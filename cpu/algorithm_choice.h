// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/ops/conv2d.h"
#include "cpu/onednn.h"
#include "cpu/own_winograd.h"

namespace trainer::cpu {

constexpr const char* kWinograd = "winograd";
constexpr const char* kDirect = "direct";
constexpr const char* kChannelsLast = "direct, channels last";

/// Winograd's algorithm if it suits and exists, the program's own if that is faster, else the direct one,
/// blocked; with a tuning, the fastest.
class AlgorithmChoice {
 public:
  AlgorithmChoice(std::shared_ptr<OneDnn> onednn, Tuning* tuning, bool own)
      : onednn_(std::move(onednn)), tuning_(tuning), own_(own) {}

  const OneDnn& onednn() const { return *onednn_; }

  /// The descriptor that make(algorithm's name) gives for the chosen one; its name goes into the choice.
  /// Nothing if that is the program's own.
  template <class Primitive, class Make>
  auto best(const OpContext& context, bool suits_winograd, Choice& choice, const Make& make) const {
    std::vector<std::string> all;
    if (own_ && offers_own_winograd(context)) all.emplace_back(kOwnWinograd);
    if (suits_winograd && exists(make, kWinograd)) all.emplace_back(kWinograd);
    all.emplace_back(kDirect);
    if (all.size() > 1 && all[0] == kOwnWinograd && !own_winograd_wins(context)) std::swap(all[0], all[1]);
    choice.algorithm = tuning_ == nullptr ? all[0] : fastest<Primitive>(context, all, make);
    return choice.algorithm == kOwnWinograd ? std::nullopt : std::make_optional(make(choice.algorithm));
  }

 private:
  template <class Make>
  static bool exists(const Make& make, const char* algorithm) {
    try {
      make(algorithm);
      return true;
    } catch (const dnnl::error&) {  // this processor has none
      return false;
    }
  }

  /// The name in the tuning, which is added if missing. `all`: the usual one first.
  template <class Primitive, class Make>
  std::string fastest(const OpContext& c, std::vector<std::string> all, const Make& make) const {
    std::string key =
        fmt::format("{} {}, {} threads:", c.op.name(), attributes_text(c.op), omp_get_max_threads());
    // The part of a convolution that the CPU computes: it adds no sums to zeros.
    for (size_t i = 0; i <= Conv2d::kBias && i < c.inputs.size(); ++i)
      key += fmt::format(" {}{}", to_string(c.inputs[i].dtype), to_string(c.inputs[i].shape));
    if (exists(make, kChannelsLast)) all.emplace_back(kChannelsLast);
    const auto [known, added] = tuning_->fastest.try_emplace(key, all[0]);
    if (!added) return std::find(all.begin(), all.end(), known->second) == all.end() ? all[0] : known->second;
    double shortest = std::numeric_limits<double>::infinity();
    for (const std::string& name : all) {
      const double spent = name == kOwnWinograd
                               ? own_winograd_milliseconds(c)
                               : milliseconds<Primitive>(*onednn_, make(name)) + reorders(make, name);
      if (spent < shortest) known->second = name, shortest = spent;
    }
    return known->second;
  }

  /// The cost of converting images to the layout of an algorithm and back to its neighbours', which are
  /// blocked.
  template <class Make>
  double reorders(const Make& make, const std::string& algorithm) const {
    if (algorithm != kChannelsLast) return 0;
    double sum = 0;
    const auto blocked = make(kDirect), last = make(algorithm);
    for (const int number : {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST}) {
      const dnnl::memory::desc from = blocked.query_md(dnnl::query::exec_arg_md, number),
                               to = last.query_md(dnnl::query::exec_arg_md, number);
      if (from.get_size() == 0 || from == to) continue;
      sum += milliseconds<dnnl::reorder>(*onednn_, {onednn_->engine, from, onednn_->engine, to});
    }
    return sum;
  }

  std::shared_ptr<OneDnn> onednn_;
  Tuning* tuning_;
  bool own_;
};

}  // namespace trainer::cpu

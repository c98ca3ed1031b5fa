// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <omp.h>

#include <memory>
#include <string>

#include "cpu/onednn.h"

namespace trainer::cpu {

constexpr const char* kWinograd = "winograd";
constexpr const char* kDirect = "direct";
constexpr const char* kChannelsLast = "direct, channels last";

/// Winograd's algorithm where that suits and exists, else the direct one, blocked; with a tuning, whichever
/// runs fastest.
class AlgorithmChoice {
 public:
  AlgorithmChoice(std::shared_ptr<OneDnn> onednn, Tuning* tuning)
      : onednn_(std::move(onednn)), tuning_(tuning) {}

  const OneDnn& onednn() const { return *onednn_; }

  /// The descriptor that make(algorithm's name) gives for the chosen one; its name goes into the choice.
  template <class Primitive, class Make>
  auto best(const OpContext& context, bool suits_winograd, Choice& choice, const Make& make) const {
    choice.algorithm = suits_winograd && exists(make, kWinograd) ? kWinograd : kDirect;
    if (tuning_ != nullptr) choice.algorithm = fastest<Primitive>(context, choice.algorithm, make);
    return make(choice.algorithm);
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

  /// The name that the tuning has, or now gets. `usual` is the one without a tuning.
  template <class Primitive, class Make>
  std::string fastest(const OpContext& c, const std::string& usual, const Make& make) const {
    std::string key =
        fmt::format("{} {}, {} threads:", c.op.name(), attributes_text(c.op), omp_get_max_threads());
    for (const TensorSpec& spec : c.inputs)
      key += fmt::format(" {}{}", to_string(spec.dtype), to_string(spec.shape));
    const auto [known, added] = tuning_->fastest.try_emplace(key, usual);
    if (!added) return exists(make, known->second.c_str()) ? known->second : usual;
    double shortest = milliseconds<Primitive>(*onednn_, make(usual));
    for (const char* other : {kDirect, kChannelsLast}) {
      if (other == usual || !exists(make, other)) continue;
      const double spent = milliseconds<Primitive>(*onednn_, make(other)) + reorders(make, other);
      if (spent < shortest) known->second = other, shortest = spent;
    }
    return known->second;
  }

  /// What it costs to bring images into the layout of an algorithm and back into that of its neighbours,
  /// which are blocked.
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
};

}  // namespace trainer::cpu

// SPDX-License-Identifier: Apache-2.0
#include "core/optim/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <string>

namespace trainer {
namespace {

class Constant : public Schedule {
  double after_warmup(int64_t, int64_t, int64_t, const BatchCounts&) const override { return 1; }
};

/// gamma^k, if k milestones have been reached; they count from the start of training, warm-up included.
class MultiStep : public Schedule {
 public:
  void declare(Fields& fields) override {
    Schedule::declare(fields);
    fields.add("milestones", &milestones_, "when to drop the rate, from the start of training: [3ep, 5ep]")
        .required();
    fields.add("gamma", &gamma_, "factor at each milestone").above(0).at_most(1);
  }

  void check(Diagnostics& diagnostics) const override {
    const Origin place = origin_of("milestones");
    if (milestones_.empty()) diagnostics.error(place, "expected at least one milestone, as in [3ep, 5ep]");
    std::optional<Duration> last;
    for (size_t i = 0; i < milestones_.size(); ++i) {
      const std::optional<Duration> milestone = parse_duration(milestones_[i]);
      const Origin item{place.where, fmt::format("{}[{}]", place.path, i)};
      if (!milestone || milestone->count < 1) {
        diagnostics.error(
            item,
            fmt::format("expected a duration such as 3ep or 500ba, at least 1, got \"{}\"", milestones_[i]));
        continue;
      }
      // Epochs and batches cannot be compared before the length of an epoch is known.
      if (last && last->unit == milestone->unit && last->count >= milestone->count) {
        diagnostics.error(item, fmt::format("expected a milestone after {}, got {}", to_string(*last),
                                            to_string(*milestone)));
      }
      last = milestone;
    }
  }

 private:
  double after_warmup(int64_t update, int64_t, int64_t, const BatchCounts& batches) const override {
    const auto reached = std::ranges::count_if(milestones_, [&](const std::string& text) {
      return update >= batches_in(parse_duration(text).value(), batches);
    });
    return std::pow(gamma_, static_cast<double>(reached));
  }

  std::vector<std::string> milestones_;
  double gamma_ = 0.1;
};

/// A factor that falls from 1 at the end of the warm-up to min_factor at the end of training; the last update
/// is one step short of it.
class Falling : public Schedule {
 public:
  void declare(Fields& fields) override {
    Schedule::declare(fields);
    fields.add("min_factor", &min_factor_, "factor at the end of training").at_least(0).at_most(1);
  }

 private:
  double after_warmup(int64_t update, int64_t warmup_updates, int64_t total_updates,
                      const BatchCounts&) const override {
    if (update >= total_updates) return min_factor_;
    const double part =
        static_cast<double>(update - warmup_updates) / static_cast<double>(total_updates - warmup_updates);
    return min_factor_ + (1 - min_factor_) * height(part);
  }
  /// From 1 at `part` 0 to 0 at 1.
  virtual double height(double part) const = 0;

  double min_factor_ = 0;
};

/// Loshchilov and Hutter, "SGDR", 2017, without restarts.
class Cosine : public Falling {
  double height(double part) const override { return 0.5 * (1 + std::cos(std::numbers::pi * part)); }
};

class LinearDecay : public Falling {
  double height(double part) const override { return 1 - part; }
};

class Polynomial : public Falling {
 public:
  void declare(Fields& fields) override {
    Falling::declare(fields);
    fields.add("power", &power_, "exponent of the polynomial").above(0);
  }

 private:
  double height(double part) const override { return std::pow(1 - part, power_); }
  double power_ = 2;
};

/// A constant rate until the last part of training, in which it falls linearly ("WSD": warm-up, stable,
/// decay).
class Trapezoid : public Falling {
 public:
  void declare(Fields& fields) override {
    Falling::declare(fields);
    fields.add("decay", &decay_, "fraction of training spent in the final decay").above(0).at_most(1);
  }

 private:
  double height(double part) const override { return std::min(1.0, (1 - part) / decay_); }
  double decay_ = 0.2;
};

/// The square root of the warm-up's length over the number of the update, from 1 (Vaswani et al., "Attention
/// Is All You Need", 2017); a warm-up of 0 counts as 1.
class InverseSqrt : public Schedule {
  double after_warmup(int64_t update, int64_t warmup_updates, int64_t, const BatchCounts&) const override {
    return std::sqrt(static_cast<double>(std::max<int64_t>(warmup_updates, 1)) /
                     static_cast<double>(update + 1));
  }
};

/// gamma^k after k periods from the end of the warm-up; with a period of 1ep as PyTorch's ExponentialLR.
class Exponential : public Schedule {
 public:
  void declare(Fields& fields) override {
    Schedule::declare(fields);
    fields.add("gamma", &gamma_, "factor after each period").above(0).at_most(1);
    fields.add("period", &period_, "length of a period").at_least(1);
  }

 private:
  double after_warmup(int64_t update, int64_t warmup_updates, int64_t,
                      const BatchCounts& batches) const override {
    const int64_t periods = (update - warmup_updates) / batches_in(period_, batches);
    return std::pow(gamma_, static_cast<double>(periods));
  }

  double gamma_ = 0.95;
  Duration period_{1, Duration::Unit::epochs};
};

/// Half a cosine wave from 1 to min_factor, again and again (Loshchilov and Hutter, "SGDR", 2017): the first
/// lasts a period, each other `growth` times as long as the one before.
class CosineRestarts : public Schedule {
 public:
  void declare(Fields& fields) override {
    Schedule::declare(fields);
    fields.add("period", &period_, "length of the first cycle").at_least(1);
    fields.add("growth", &growth_, "length of each cycle relative to the previous one").at_least(1);
    fields.add("min_factor", &min_factor_, "factor at the end of a cycle").at_least(0).at_most(1);
  }

 private:
  double after_warmup(int64_t update, int64_t warmup_updates, int64_t,
                      const BatchCounts& batches) const override {
    int64_t at = update - warmup_updates, length = batches_in(period_, batches);
    for (; at >= length; length *= growth_) at -= length;
    const double part = static_cast<double>(at) / static_cast<double>(length);
    return min_factor_ + (1 - min_factor_) / 2 * (1 + std::cos(std::numbers::pi * part));
  }

  Duration period_{10, Duration::Unit::epochs};
  int64_t growth_ = 1;
  double min_factor_ = 0;
};

/// Up to the base rate along half a cosine wave and down again (Smith and Topin, "Super-Convergence", 2018).
/// Equal in every update to PyTorch's OneCycleLR without its cycle of momentum. It is its own warm-up.
class OneCycle : public Schedule {
 public:
  void declare(Fields& fields) override {
    fields.add("rise", &rise_, "fraction of training during which the rate rises").above(0).below(1);
    fields.add("div_factor", &div_factor_, "base rate divided by the initial rate").at_least(1);
    fields.add("final_div_factor", &final_div_factor_, "initial rate divided by the final rate").at_least(1);
  }

 private:
  double after_warmup(int64_t update, int64_t, int64_t total_updates, const BatchCounts&) const override {
    const auto at = static_cast<double>(update), last = static_cast<double>(total_updates - 1);
    const double top = rise_ * static_cast<double>(total_updates) - 1;  // the update of the base rate
    const double first = 1 / div_factor_, end = first / final_div_factor_;
    if (at <= top) return wave(first, 1, top > 0 ? at / top : 1);
    return wave(1, end, last > top ? std::min(1.0, (at - top) / (last - top)) : 1);
  }
  static double wave(double from, double to, double part) {
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
  }

  double rise_ = 0.3, div_factor_ = 25, final_div_factor_ = 1e4;
};

/// A constant rate until a metric of the validation split no longer improves (PyTorch's ReduceLROnPlateau).
class Plateau : public Schedule {
 public:
  void declare(Fields& fields) override {
    Schedule::declare(fields);
    fields.add("metric", &settings_.metric, "metric of the validation split (loss, top1, ema_loss, ...)");
    fields.add("factor", &settings_.factor, "factor of each drop").above(0).below(1);
    fields
        .add("patience", &settings_.patience,
             "evaluations in a row without improvement before the one at which the rate drops")
        .at_least(0);
    fields.add("threshold", &settings_.threshold, "an improvement must be larger than this").at_least(0);
    fields
        .add("threshold_mode", &threshold_mode_,
             "rel: the threshold is relative to the best value so far; abs: it is an absolute difference")
        .one_of({"rel", "abs"});
    fields.add("cooldown", &settings_.cooldown, "evaluations after a drop that are not counted").at_least(0);
    fields.add("min_factor", &settings_.min_factor, "lower limit of the rate, as a factor of the base rate")
        .at_least(0)
        .at_most(1);
  }

  std::optional<PlateauSettings> plateau() const override {
    PlateauSettings settings = settings_;
    settings.absolute = threshold_mode_ == "abs";
    return settings;
  }

 private:
  double after_warmup(int64_t, int64_t, int64_t, const BatchCounts&) const override { return 1; }

  PlateauSettings settings_;
  std::string threshold_mode_ = "rel";
};

}  // namespace

void Schedule::declare(Fields& fields) {
  fields.add("warmup", &warmup_, "linear warm-up from 0 over this duration");
}

double Schedule::factor(int64_t update, int64_t total_updates, const BatchCounts& batches) const {
  const int64_t warmup = batches_in(warmup_, batches);
  if (update < warmup) return static_cast<double>(update + 1) / static_cast<double>(warmup);
  return after_warmup(update, warmup, total_updates, batches);
}

const Registry<Schedule>& schedules() {
  static const Registry<Schedule> table = {
      {"constant", "constant learning rate", [] { return std::make_unique<Constant>(); }},
      {"multi_step", "multiplies the rate by gamma at each milestone",
       [] { return std::make_unique<MultiStep>(); }},
      {"cosine", "cosine decay", [] { return std::make_unique<Cosine>(); }},
      {"linear", "linear decay", [] { return std::make_unique<LinearDecay>(); }},
      {"polynomial", "polynomial decay", [] { return std::make_unique<Polynomial>(); }},
      {"trapezoid", "constant rate, then linear decay (WSD)", [] { return std::make_unique<Trapezoid>(); }},
      {"inverse_sqrt", "decay with the inverse square root of the number of updates",
       [] { return std::make_unique<InverseSqrt>(); }},
      {"exponential", "multiplies the rate by gamma after each period",
       [] { return std::make_unique<Exponential>(); }},
      {"cosine_restarts", "cosine decay with warm restarts (SGDR)",
       [] { return std::make_unique<CosineRestarts>(); }},
      {"one_cycle",
       "one-cycle policy: the rate rises to its base value, then falls far below its initial value",
       [] { return std::make_unique<OneCycle>(); }},
      {"plateau", "the rate drops by a factor when a metric of the validation split no longer improves",
       [] { return std::make_unique<Plateau>(); }},
  };
  return table;
}

std::vector<float> learning_rates(const Schedule& schedule, double base_lr, int64_t total_updates,
                                  const BatchCounts& batches) {
  std::vector<float> rates(static_cast<size_t>(std::max<int64_t>(total_updates, 0)));
  for (size_t i = 0; i < rates.size(); ++i) {
    const double factor = schedule.factor(static_cast<int64_t>(i), total_updates, batches);
    rates[i] = static_cast<float>(base_lr * factor);
  }
  return rates;
}

}  // namespace trainer

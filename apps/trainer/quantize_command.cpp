// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/trainer/commands.h"
#include "apps/trainer/devices.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/trained_network.h"
#include "apps/trainer/trained_recipe.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/config/patterns.h"
#include "core/graph/ops/quantize.h"
#include "core/host/stop.h"
#include "core/quantization/ranges.h"
#include "core/recipe/assemble.h"
#include "core/recipe/feed.h"
#include "core/run/int8_weights.h"
#include "core/session/membership.h"
#include "core/session/product_times.h"
#include "core/step/quantized_products.h"
#include "core/storage/output_file.h"
#include "core/train/calibration.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDisabled = "prepare_weights";  // products are timed with weights as they are

/// Refuses networks that have no products in 8 bits yet. Throws Error (exit 78).
void check_network_kind(const Recipe& recipe) {
  if (recipe.model.kind() == InputKind::pixels) return;
  fail_at(recipe.origin_of("model.input"),
          fmt::format("networks of {} are not quantised yet, not even their weights alone; quantize is for "
                      "networks of images",
                      recipe.model.input_kind));
}

/// Samples of a batch, for which products are timed too.
constexpr int64_t kRowsOfBatch = 32;

/// The samples of data.train that calibrate a network.
class Calibration {
 public:
  Calibration(TrainedRecipe trained, int64_t samples, StopSignals& signals)
      : trained_(std::move(trained)), spec_(trained_.recipe), signals_(signals) {
    source_ = open_stored(spec_.recipe().data, source_request(spec_, Split::train));
    if (source_->size() == 0)
      throw Error(ExitCode::data, "data.train has no samples to observe the network on");
    samples_ = std::min(samples, source_->size());
    if (samples_ > kRowsOfBatch) samples_ -= samples_ % kRowsOfBatch;  // no row is padding
  }

  int64_t samples() const { return samples_; }
  BatchRows rows() const { return {.exactly = std::min(samples_, kRowsOfBatch)}; }

  /// One pass over the samples.
  ObservedInputs observe(const RangeObservation& observation) {
    TrainedNetwork network(spec_, trained_.files, Purpose::predict, rows(),
                           std::make_shared<const RangeObservation>(observation));
    const auto pipeline = open_pass(network.job(), network.device(),
                                    {.source = *source_, .samples = samples_, .shuffled = true});
    return observe_inputs(network.executable(), *pipeline, observation, [&] { signals_.throw_if_asked(); });
  }

 private:
  TrainedRecipe trained_;
  RunSpec spec_;
  StopSignals& signals_;
  std::unique_ptr<DataSource> source_;
  int64_t samples_ = 0;
};

/// The ranges of all products' inputs, from two passes: the extremes, then how often values are between them.
InputRanges ranges_of(Calibration& calibration, RangeMethod method) {
  const ObservedInputs first = calibration.observe({});
  RangeObservation within;
  for (const auto& [name, extremes] : first.extremes) within.ranges[name] = counted_range(extremes);
  ObservedInputs second;
  if (method != RangeMethod::min_max) second = calibration.observe(within);
  InputRanges ranges;
  for (const auto& [name, extremes] : first.extremes)
    ranges[name] = range_of(method, extremes, second.counts[name]);
  return ranges;
}

/// The network with ranges that are observed now.
Int8Network observed_network(const TrainedRecipe& trained, const QuantizeArguments& wanted,
                             StopSignals& signals) {
  require_data(*trained.recipe, Split::train);
  Calibration calibration(trained, wanted.samples, signals);
  return {.weights = {.bits = wanted.weight_bits == "8" ? 8 : 7},
          .method = wanted.method,
          .samples = calibration.samples(),
          .inputs = ranges_of(calibration, range_method_named(wanted.method).value())};
}

/// The network with ranges and levels of its training; nothing if that did not round.
std::optional<Int8Network> rounded_network(const TrainedRecipe& trained, const QuantizeArguments& wanted) {
  const QuantizeSection& rounded = trained.recipe->compression.quantize;
  if (!rounded.is_asked()) return std::nullopt;
  std::optional<InputRanges> ranges = trained_ranges_in(trained.files.model);
  if (!ranges) {
    print_remark(fmt::format("{} has no ranges of compression.quantize, so they are observed",
                             one_line(trained.files.model.string())));
    return std::nullopt;
  }
  if (wanted.asks_ranges)
    throw Error(
        ExitCode::usage,
        "the network was trained with compression.quantize, whose ranges and bits are used; leave out "
        "--method, --samples and --weight-bits");
  return Int8Network{.weights = rounded.weight_levels(),
                     .activations = rounded.activation_levels(),
                     .method = std::string(kFromTraining),
                     .inputs = *std::move(ranges)};
}

/// Moves a product to those in f32.
void leave_out(Int8Network& network, const std::string& name, const std::string& reason) {
  network.inputs.erase(name);
  network.in_f32[name] = reason;
}

/// Leaves out what the patterns of --except match. Throws Error (exit 64) if one matches nothing.
void leave_out_excepted(Int8Network& network, const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const auto& [name, range] : network.inputs) names.push_back(name);
  for (const auto& [name, reason] : network.in_f32) names.push_back(name);
  for (const std::string& pattern : patterns) {
    bool is_used = false;
    for (const std::string& name : names) {
      if (!matches(pattern, name)) continue;
      leave_out(network, name, "--except");
      is_used = true;
    }
    if (!is_used)
      throw Error(ExitCode::usage,
                  fmt::format("--except {}: no product has weights of that name; they are {}",
                              one_line(pattern), fmt::join(names, ", ")));
  }
}

/// Leaves out products for which bytes are no form, and unless --all those that are slower in it.
class Choosing {
 public:
  Choosing(const RunSpec& spec, const BatchRows& rows)
      : backend_(open_device(spec, tuning_, choose_device(spec.recipe().device))),
        job_(make_job(spec.with_micro_batch(rows.exactly.value()), *backend_.planner,
                      {.disabled_passes = {kDisabled},
                       .plan = false,
                       .has_data = false,
                       .use = {.purpose = Purpose::predict}})) {}

  const Program& program() const { return job_.program; }

  /// Training read their factors as they are.
  void leave_out_unrounded(Int8Network& network) const {
    const Entry* entry = job_.program.find_entry(entry_name::kPredict);
    for (const QuantizableProduct& product : quantizable_products(job_.program, *entry)) {
      if (!network.inputs.contains(product.name)) leave_out(network, product.name, "not rounded in training");
    }
  }

  /// Products that read the same numbers need one range. In training dropout may have come between.
  void join_ranges(Int8Network& network) const {
    const Entry* entry = job_.program.find_entry(entry_name::kPredict);
    const std::vector<QuantizableProduct> products = quantizable_products(job_.program, *entry);
    const auto visit_ranges = [&](const auto& visit) {
      for (const QuantizableProduct& product : products) {
        const auto own = network.inputs.find(product.name);
        if (own != network.inputs.end())
          visit(entry->nodes[product.node].inputs[product.form.x], own->second);
      }
    };
    std::map<TensorId, ValueRange> joint;
    visit_ranges([&](TensorId x, const ValueRange& own) {
      ValueRange& all = joint.try_emplace(x, own).first->second;
      all = {.low = std::min(all.low, own.low), .high = std::max(all.high, own.high)};
    });
    visit_ranges([&](TensorId x, ValueRange& own) { own = joint.at(x); });
  }

  /// Zero is stored as 128 there, which padding would not be.
  void leave_out_padded(Int8Network& network) const {
    const Entry* entry = job_.program.find_entry(entry_name::kPredict);
    for (const QuantizableProduct& product : quantizable_products(job_.program, *entry)) {
      const auto range = network.inputs.find(product.name);
      if (range != network.inputs.end() && product.form.pads && range->second.low < 0)
        leave_out(network, product.name, "pads an input with negative values");
    }
  }

  void leave_out_slower(Int8Network& network, StopSignals& signals) const {
    const auto times = time_products(job_.program, network, backend_, [&] { signals.throw_if_asked(); });
    constexpr double kMilliseconds = 1e3;
    for (const auto& [name, seconds] : slower_products(job_.program, times)) {
      leave_out(network, name, "slower in 8 bits");
      print_remark(fmt::format("{} stays in f32: {:.3f} ms in 8 bits, {:.3f} ms in f32", name,
                               seconds.int8 * kMilliseconds, seconds.f32 * kMilliseconds));
    }
  }

 private:
  Tuning tuning_;
  Backend backend_;
  Job job_;
};

/// Throws Error (exit 78), with the reasons, if no product is left.
void require_some(const Int8Network& network) {
  if (!network.inputs.empty()) return;
  std::string reasons;
  for (const auto& [name, reason] : network.in_f32) reasons += fmt::format("\n  {}: {}", name, reason);
  throw Error(
      ExitCode::recipe,
      fmt::format("no product is left for 8 bits, so nothing was written; --all also takes those that "
                  "are slower{}",
                  reasons));
}

/// Writes the file, and says what is in it.
void write(const Int8Weights& weights, const Int8Network& network, const OutputFile& file,
           const Arguments& arguments) {
  file.write([&](const ByteSink& sink) { weights.compose(sink); });
  const std::string ranges = network.is_from_training() ? "ranges of its training"
                                                        : fmt::format("ranges by {} over {} samples",
                                                                      network.method, network.samples);
  print_note(file,
             fmt::format("{}: {} products in 8 bits, {} in f32, {}; {}", one_line(arguments.out),
                         network.inputs.size(), network.in_f32.size(), human_bytes(weights.bytes()), ranges));
}

}  // namespace

int quantize_command(const Arguments& arguments) {
  require_one_process("quantisation");
  const QuantizeArguments& wanted = arguments.quantize;
  StopSignals signals(StopSignals::kPass);
  Arguments on_cpu = arguments;
  // Where its products run, and what they replace.
  on_cpu.overrides.insert(on_cpu.overrides.end(), {"device.type=cpu", "training.precision=fp32"});
  const std::shared_ptr<const Recipe> named = named_recipe(on_cpu);
  check_network_kind(*named);
  const TrainedRecipe trained = with_weights(named, on_cpu);
  const fs::path& source = trained.files.model;
  if (int8_network_in(source) != nullptr)
    throw Error(ExitCode::data, fmt::format("{} has weights of 8 bits already; name those of f32",
                                            one_line(source.string())));
  const OutputFile file(on_cpu.out, {source});
  signals.watch_loop();
  const std::optional<Int8Network> rounded = rounded_network(trained, wanted);
  Int8Network network = rounded ? *rounded : observed_network(trained, wanted, signals);
  const RunSpec spec(trained.recipe);
  const Choosing choosing(spec,
                          {.exactly = rounded ? kRowsOfBatch : std::min(network.samples, kRowsOfBatch)});
  if (rounded) choosing.leave_out_unrounded(network);
  leave_out_excepted(network, wanted.except);
  choosing.join_ranges(network);
  choosing.leave_out_padded(network);
  if (!wanted.all) choosing.leave_out_slower(network, signals);
  require_some(network);
  const Int8Weights weights(choosing.program().tensors, source, spec.recipe().model.tied_weights(), network);
  write(weights, network, file, on_cpu);
  return 0;
}

}  // namespace trainer

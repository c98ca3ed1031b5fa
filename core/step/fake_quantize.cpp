// SPDX-License-Identifier: Apache-2.0
#include "core/step/fake_quantize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "core/config/patterns.h"
#include "core/graph/builder.h"
#include "core/graph/names.h"
#include "core/graph/ops/fake_quantize.h"
#include "core/graph/ops/lerp.h"
#include "core/optim/optimizer.h"
#include "core/step/quantized_products.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// By tensor, whether it has no negative values.
std::vector<bool> non_negative_tensors(const Program& program, const Entry& entry) {
  std::vector<bool> found(program.tensors.size(), false);
  for (const Node& node : entry.nodes) {
    std::vector<bool> inputs;
    for (const TensorId id : node.inputs) inputs.push_back(id != kNone && found[static_cast<size_t>(id)]);
    if (!node.outputs.empty() && node.outputs[0] != kNone)
      found[static_cast<size_t>(node.outputs[0])] = node.op->is_non_negative(inputs);
  }
  return found;
}

/// The products of an entry that become products in 8 bits, and those that cannot.
struct Products {
  std::vector<QuantizableProduct> rounded;
  std::vector<std::string> padded;  ///< weights of those that pad an input which may be negative
};

Products products_of(const Program& program, const Entry& entry, const FakeQuantizeSpec& spec) {
  const std::vector<bool> non_negative = non_negative_tensors(program, entry);
  Products found;
  for (QuantizableProduct& product : quantizable_products(program, entry)) {
    if (matches_any(spec.except, product.name)) continue;
    const TensorId x = entry.nodes[product.node].inputs[product.form.x];
    if (product.form.pads && !non_negative[static_cast<size_t>(x)]) {
      found.padded.push_back(product.name);
    } else {
      found.rounded.push_back(std::move(product));
    }
  }
  return found;
}

/// Rewrites an entry. A tensor that a product reads is rounded before its first reader, and all of them read
/// the result: in 8 bits it exists as bytes only. The network's inputs have other readers, such as targets,
/// which read them as they are.
class Rounding {
 public:
  Rounding(Program& program, Entry& entry, const FakeQuantizeSpec& spec)
      : program_(program), entry_(entry), build_(program, entry), spec_(spec), step_(step_counter(program)) {}

  void run() {
    for (const QuantizableProduct& product : products_of(program_, entry_, spec_).rounded) {
      products_.emplace(product.node, product);
      names_[entry_.nodes[product.node].inputs[product.form.x]].push_back(product.name);
    }
    std::vector<Node> nodes;
    nodes.swap(entry_.nodes);
    for (size_t n = 0; n < nodes.size(); ++n) {
      build_.set_origin(nodes[n].origin);
      build_.set_phase(nodes[n].phase);
      read_rounded(nodes[n], products_.find(n));
      entry_.nodes.push_back(std::move(nodes[n]));
    }
  }

 private:
  using Found = std::map<size_t, QuantizableProduct>::const_iterator;

  void read_rounded(Node& node, Found product) {
    const bool is_product = product != products_.end();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId id = node.inputs[i];
      if (!names_.contains(id)) continue;
      const bool is_factor = is_product && i == product->second.form.x;
      if (is_factor || !is_from_outside(program_.tensor(id).role)) node.inputs[i] = rounded(id);
    }
    if (!is_product) return;
    TensorId& weight = node.inputs[product->second.form.weight];
    weight = build_.emit<FakeQuantizeWeights>({weight, step_}, spec_.weights, FakeQuantizeBegin{spec_.begin});
  }

  TensorId rounded(TensorId x) {
    const auto [known, fresh] = rounded_.try_emplace(x, kNone);
    if (fresh) known->second = round(x, names_.at(x));
    return known->second;
  }

  /// Products that share an input have equal ranges, so that each can be looked up by its name.
  TensorId round(TensorId x, const std::vector<std::string>& names) {
    const bool trains = entry_.name == entry_name::kTrainStep;
    std::vector<TensorId> ranges;
    for (const std::string& name : names)
      ranges.push_back(program_.persistent(name + state_suffix::kRange, {{2}, DType::f32}, Role::state, {}));
    const auto made = build_.emit_all(
        std::make_shared<FakeQuantize>(spec_.activations, trains, FakeQuantizeBegin{spec_.begin}),
        {x, ranges.front(), step_});
    if (!trains) return made[FakeQuantize::kY];
    for (const TensorId range : ranges)
      build_.assign(range, build_.emit<Lerp>({range, made[FakeQuantize::kFresh]}, FakeQuantize::kShare));
    return made[FakeQuantize::kY];
  }

  Program& program_;
  Entry& entry_;
  Builder build_;
  const FakeQuantizeSpec& spec_;
  TensorId step_;
  std::map<size_t, QuantizableProduct> products_;       ///< by node
  std::map<TensorId, std::vector<std::string>> names_;  ///< of the products that read a tensor
  std::map<TensorId, TensorId> rounded_;
};

void add_remark(Program& program, const FakeQuantizeSpec& spec) {
  const Products products = products_of(program, program.entry(entry_name::kTrainStep), spec);
  program.remarks.push_back(
      fmt::format("compression.quantize: {} products read rounded weights of {} bits and inputs of {}; this "
                  "makes training "
                  "slower, and only the network that `trainer quantize` writes faster",
                  products.rounded.size(), spec.weights.bits, spec.activations.bits));
  if (products.padded.empty()) return;
  program.remarks.push_back(fmt::format(
      "compression.quantize: products stay as they are that pad an input which may be negative: {}",
      fmt::join(products.padded, ", ")));
}

}  // namespace

std::vector<std::string> fake_quantized(const Program& program, const FakeQuantizeSpec& spec) {
  const Entry& entry = *program.find_entry(entry_name::kTrainStep);
  std::vector<std::string> all, names;
  for (const QuantizableProduct& product : quantizable_products(program, entry)) all.push_back(product.name);
  Diagnostics diagnostics;
  check_patterns(spec.except, all, "weight of a convolution or linear layer that can be computed in 8 bits",
                 spec.origin_of("except"), diagnostics);
  diagnostics.throw_if_any();
  for (const QuantizableProduct& product : products_of(program, entry, spec).rounded)
    names.push_back(product.name);
  if (names.empty()) {
    fail_at(spec.origin_of(""),
            "there is nothing to quantise: no convolution or linear layer can be computed in 8 bits, "
            "but for those of except and those that pad an input which may be negative; remove "
            "compression.quantize");
  }
  return names;
}

Pass fake_quantize(const FakeQuantizeSpec& spec) {
  auto run = [spec](Program& program) {
    fold_batch_norm(Folding::all).run(program);
    add_remark(program, spec);
    for (Entry& entry : program.entries) Rounding(program, entry, spec).run();
  };
  return {.name = "fake_quantize",
          .help = "round the factors of products to few bits (compression.quantize)",
          .optional = false,
          .run = run,
          .after = {"loss", "choose_pruned"}};
}

}  // namespace trainer

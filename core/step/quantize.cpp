// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <set>

#include "core/base/error.h"
#include "core/graph/ops/quantize.h"
#include "core/graph/ops/quantized_product.h"
#include "core/step/quantized_products.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Rewrites an entry. A tensor that a product in 8 bits reads exists as bytes: its product writes them, or
/// they are made of f32 before the first reader. What others read is made of the bytes again.
class Quantizing {
 public:
  Quantizing(Program& program, Entry& entry, const Int8Network& network)
      : program_(program), entry_(entry), build_(program, entry), network_(network) {}

  /// Returns the names of the products that are in 8 bits now.
  std::set<std::string> run() {
    const std::map<size_t, QuantizableProduct> products = chosen_products();
    std::vector<Node> nodes;
    nodes.swap(entry_.nodes);
    for (size_t n = 0; n < nodes.size(); ++n) {
      build_.set_origin(nodes[n].origin);
      build_.set_phase(nodes[n].phase);
      const auto product = products.find(n);
      if (product != products.end()) {
        write_product(nodes[n], product->second.form);
        continue;
      }
      for (TensorId& id : nodes[n].inputs) id = wide(id);
      entry_.nodes.push_back(std::move(nodes[n]));
    }
    for (const NamedTensor& output : entry_.outputs) make_wide(output.tensor);
    std::set<std::string> names;
    for (const auto& [n, product] : products) names.insert(product.name);
    return names;
  }

 private:
  std::map<size_t, QuantizableProduct> chosen_products() {
    std::map<size_t, QuantizableProduct> chosen;
    for (QuantizableProduct& product : quantizable_products(program_, entry_)) {
      const auto range = network_.inputs.find(product.name);
      if (range == network_.inputs.end()) continue;
      const Quantization quantization = quantization_of(range->second, network_.activations);
      if (product.form.pads && quantization.zero_point != 0)
        throw Error(
            ExitCode::data,
            fmt::format("{}: '{}' has 8-bit weights and negative inputs; a convolution that pads these "
                        "is computed in f32 only; quantise the network again",
                        network_.file, product.name));
      const auto [stored, is_new] =
          bytes_of_.try_emplace(entry_.nodes[product.node].inputs[product.form.x], quantization);
      if (!is_new && stored->second != quantization)
        throw Error(ExitCode::data,
                    fmt::format("{}: '{}' reads what another product reads, with another range; quantise the "
                                "network again",
                                network_.file, product.name));
      const size_t n = product.node;
      chosen.emplace(n, std::move(product));
    }
    return chosen;
  }

  /// How the product's result is stored: as bytes if another product reads these. Nothing: as f32.
  std::optional<Quantization> stored_as(TensorId y, TensorId residual, bool relu) const {
    const auto found = bytes_of_.find(y);
    if (found == bytes_of_.end() || (relu && found->second.zero_point != 0)) return std::nullopt;
    if (residual != kNone && !bytes_of_.contains(residual)) return std::nullopt;
    return found->second;
  }

  void write_product(const Node& node, const QuantizedForm& form) {
    const TensorId x = node.inputs[form.x], residual = node.inputs[form.addend], y = node.outputs[0];
    const std::optional<Quantization> stored = stored_as(y, residual, form.relu);
    QuantizedEnd end{.y = stored ? DType::u8 : DType::f32, .relu = form.relu};
    double shift = 0;
    if (stored) shift = static_cast<double>(stored->zero_point);
    if (stored && residual != kNone) {
      const Quantization& added = bytes_of_.at(residual);
      end.residual_factor = added.scale / stored->scale;
      shift -= end.residual_factor * static_cast<double>(added.zero_point);
    }
    const auto weights =
        build_.emit_all(std::make_shared<QuantizeWeights>(network_.weights), {node.inputs[form.weight]});
    const auto scales = build_.emit_all(
        std::make_shared<ProductScales>(bytes_of_.at(x), stored ? stored->scale : 1, shift),
        {weights[QuantizeWeights::kIntegers], weights[QuantizeWeights::kScale], node.inputs[form.bias]});
    const TensorId added = residual != kNone && stored ? bytes(residual) : wide(residual);
    const std::vector<TensorId> operands{bytes(x), weights[QuantizeWeights::kIntegers],
                                         scales[ProductScales::kMultiplier],
                                         scales[ProductScales::kShiftedBias], added};
    write(form.make(end), operands, y, stored);
  }

  /// The node; its result is `y` in f32, or the bytes that stand for it.
  void write(std::shared_ptr<const Operation> op, std::vector<TensorId> operands, TensorId y,
             const std::optional<Quantization>& stored) {
    if (!stored) return append(std::move(op), std::move(operands), y);
    const TensorId made = build_.emit_all(std::move(op), std::move(operands))[QuantizedProduct::kY];
    program_.tensors[static_cast<size_t>(made)].quantization = stored;
    narrow_[y] = made;
    only_narrow_.insert(y);
    made_narrow_.insert(y);
  }

  /// The bytes of a tensor.
  TensorId bytes(TensorId id) {
    const auto [known, fresh] = narrow_.try_emplace(id, kNone);
    if (!fresh) return known->second;
    const Quantization& quantization = bytes_of_.at(id);
    known->second = build_.emit<Quantize>({id}, quantization);
    program_.tensors[static_cast<size_t>(known->second)].quantization = quantization;
    return known->second;
  }

  /// The tensor in f32, for readers other than products. In a network that was trained with rounded numbers
  /// they all read these, but for readers of the network's inputs.
  TensorId wide(TensorId id) {
    make_wide(id);
    const bool is_rounded = made_narrow_.contains(id) || !bytes_of_.contains(id);
    if (!network_.is_from_training() || is_rounded || is_from_outside(program_.tensor(id).role)) return id;
    const auto [known, fresh] = rounded_.try_emplace(id, kNone);
    if (fresh) known->second = build_.emit<Dequantize>({bytes(id)}, bytes_of_.at(id));
    return known->second;
  }

  /// Makes a tensor of f32, if it exists as bytes only.
  void make_wide(TensorId id) {
    if (only_narrow_.erase(id) > 0)
      append(std::make_shared<Dequantize>(bytes_of_.at(id)), {narrow_.at(id)}, id);
  }

  /// A node with an output that exists already.
  void append(std::shared_ptr<const Operation> op, std::vector<TensorId> inputs, TensorId output) {
    entry_.nodes.push_back(
        {.op = std::move(op), .inputs = std::move(inputs), .outputs = {output}, .origin = build_.origin()});
  }

  Program& program_;
  Entry& entry_;
  Builder build_;
  const Int8Network& network_;
  std::map<TensorId, Quantization> bytes_of_;  ///< of tensors that are read as bytes
  std::map<TensorId, TensorId> narrow_;        ///< their bytes, once they are made
  std::set<TensorId> only_narrow_;             ///< those that do not exist in f32
  std::set<TensorId> made_narrow_;             ///< those that products wrote as bytes
  std::map<TensorId, TensorId> rounded_;       ///< f32 that was made of bytes, of other tensors
};

/// The products that stay in f32 and why, for the plan's readers: a sentence for each reason.
void add_remarks(Program& program, const Int8Network& network) {
  std::map<std::string, std::string> names;
  for (const auto& [name, reason] : network.in_f32) {
    std::string& all = names[reason];
    all += (all.empty() ? "" : ", ") + name;
  }
  for (const auto& [reason, all] : names)
    program.remarks.push_back(fmt::format("computed in f32 ({}): {}", reason, all));
}

}  // namespace

Pass quantize(const std::shared_ptr<const Int8Network>& network) {
  auto run = [network](Program& program) {
    for (Entry& entry : program.entries) {
      const std::set<std::string> done = Quantizing(program, entry, *network).run();
      for (const auto& [name, range] : network->inputs) {
        if (!done.contains(name))
          throw Error(
              ExitCode::data,
              fmt::format("{} has 8-bit weights '{}', for which this network has no product in 8 bits; name "
                          "the recipe that it was quantised with",
                          network->file, name));
      }
    }
    add_remarks(program, *network);
  };
  return {.name = "quantize",
          .help = "compute products in 8 bits, with the ranges that their inputs were observed to have",
          .run = run,
          .after = {"fold_batch_norm", "fuse_addend", "fuse_relu"}};
}

}  // namespace trainer

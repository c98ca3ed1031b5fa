// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "core/graph/ops/quantize.h"
#include "core/step/quantized_products.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Observes the input of one product, within this range if it is known.
void observe(Builder& build, const std::string& name, TensorId x, const ValueRange* range) {
  const ValueRange within = range == nullptr ? ValueRange{} : *range;
  const auto seen = build.emit_all(std::make_shared<ObserveRange>(within.low, within.high), {x});
  Entry& entry = build.entry();
  entry.outputs.push_back({observed_name::kExtremes + name, seen[ObserveRange::kExtremes]});
  if (range != nullptr) entry.outputs.push_back({observed_name::kCounts + name, seen[ObserveRange::kCounts]});
}

/// Each product follows the node that observes its input, so that no tensor lives longer.
void observe_all(Program& program, Entry& entry, const RangeObservation& observation) {
  std::map<size_t, QuantizableProduct> products;
  for (QuantizableProduct& product : quantizable_products(program, entry)) {
    const size_t n = product.node;
    products.emplace(n, std::move(product));
  }
  Builder build(program, entry);
  std::vector<Node> nodes;
  nodes.swap(entry.nodes);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const auto found = products.find(n);
    if (found != products.end()) {
      const QuantizableProduct& product = found->second;
      const auto range = observation.ranges.find(product.name);
      build.set_origin(nodes[n].origin);
      observe(build, product.name, nodes[n].inputs[product.form.x],
              range == observation.ranges.end() ? nullptr : &range->second);
    }
    entry.nodes.push_back(std::move(nodes[n]));
  }
}

}  // namespace

Pass observe_ranges(const std::shared_ptr<const RangeObservation>& observation) {
  auto run = [observation](Program& program) {
    for (Entry& entry : program.entries) observe_all(program, entry, *observation);
  };
  return {.name = "observe_ranges",
          .help = "observe the inputs of products that can be computed in 8 bits",
          .run = run,
          .after = {"fold_batch_norm", "fuse_addend", "fuse_relu"}};
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "core/graph/builder.h"
#include "core/graph/ops/cast.h"
#include "core/graph/ops/scale_pixels.h"
#include "core/passes/table.h"

namespace trainer {
namespace {

/// Puts the reading of bytes before an entry. If only images of a low type are read, it makes those
/// directly.
void read_pixels_of(Program& program, Entry& entry, TensorId images, const PixelNumbers& numbers) {
  const auto [scale, offset] = pixel_constants(program, entry.name, numbers);
  std::vector<Node> nodes;
  nodes.swap(entry.nodes);
  Builder build(program, entry);
  build.set_origin({{}, program.tensor(images).name});
  TensorId wide = kNone;
  for (Node& node : nodes) {
    if (const auto* cast = dynamic_cast<const Cast*>(node.op.get());
        cast != nullptr && node.inputs[Cast::kX] == images) {
      node.op = std::make_shared<ScalePixels>(cast->to);
      node.inputs = {images, scale, offset};
    } else {
      for (TensorId& id : node.inputs) {
        if (id != images) continue;
        if (wide == kNone) wide = build.emit<ScalePixels>({images, scale, offset}, DType::f32);
        id = wide;
      }
    }
    entry.nodes.push_back(std::move(node));
  }
}

}  // namespace

Pass read_pixels(std::map<std::string, PixelNumbers> numbers) {
  auto run = [numbers = std::move(numbers)](Program& program) {
    const TensorId images = program.find(input_name::kImages);
    if (images == kNone) throw std::logic_error("the program has no images");
    program.tensors[static_cast<size_t>(images)].spec.dtype = DType::u8;
    for (Entry& entry : program.entries) {
      read_pixels_of(program, entry, images, numbers.at(entry.name));
    }
  };
  return {.name = "read_pixels",
          .help = "read images as bytes and scale them on the device",
          .optional = true,
          .run = run,
          .after = {"mixed_precision"}};
}

std::optional<Pass> read_pixels_pass(const PassSettings& settings) {
  if (settings.pixels.empty()) return std::nullopt;
  Pass pass = read_pixels(settings.pixels);
  pass.optional = settings.samples.empty();  // samples on the device are bytes
  return pass;
}

}  // namespace trainer

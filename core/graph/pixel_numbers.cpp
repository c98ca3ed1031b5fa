// SPDX-License-Identifier: Apache-2.0
#include "core/graph/pixel_numbers.h"

namespace trainer {
namespace {

TensorId constant(Program& program, const std::string& name, const std::vector<float>& values) {
  return program.persistent(name, {{static_cast<int64_t>(values.size())}, DType::f32}, Role::constant,
                            {.kind = Initial::Kind::table, .table = {values.begin(), values.end()}});
}

}  // namespace

PixelConstants pixel_constants(Program& program, const std::string& entry, const PixelNumbers& numbers) {
  return {.scale = constant(program, entry + ".pixel_scale", numbers.scale),
          .offset = constant(program, entry + ".pixel_offset", numbers.offset)};
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/layers/layer.h"

namespace trainer {

void Layer::declare(Fields& fields) {
  declare_parameters(fields);
  fields.add("name", &name, "prefix of its parameters' names, and how other layers refer to it");
  fields.add("inputs", &inputs, "names of the layers it reads, or \"input\"; default: the layer before");
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/layers/table.h"

namespace trainer {

const Registry<Layer>& layers() {
  static const Registry<Layer> table = [] {
    Registry<Layer> rows;
#define TRAINER_ADD_ROW(function) rows.push_back(function());
    TRAINER_LAYERS(TRAINER_ADD_ROW)
#undef TRAINER_ADD_ROW
    add_elementwise_layers(rows);
    return rows;
  }();
  return table;
}

}  // namespace trainer

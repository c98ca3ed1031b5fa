// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/config/component.h"
#include "core/config/fields.h"
#include "core/data/order.h"

namespace trainer {

/// How an epoch's samples are put in order (data.shuffle).
class Shuffle : public Component {
 public:
  virtual ShuffleBlocks blocks() const = 0;
};

const Registry<Shuffle>& shuffles();

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/config/fields.h"
#include "core/data/transform.h"

namespace trainer {

/// Everything that `data.augment` and `data.eval_transform` may name.
const Registry<Transform>& transforms();

std::unique_ptr<Transform> make_center_crop();
std::unique_ptr<Transform> make_horizontal_flip();
std::unique_ptr<Transform> make_normalize();
std::unique_ptr<Transform> make_random_crop();
std::unique_ptr<Transform> make_random_resized_crop();
std::unique_ptr<Transform> make_resize();

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/config/fields.h"
#include "core/data/images/transform.h"

namespace trainer {

/// Everything that `data.augment` and `data.eval_transform` may name.
const Registry<Transform>& transforms();

std::unique_ptr<Transform> make_auto_augment();
std::unique_ptr<Transform> make_autocontrast();
std::unique_ptr<Transform> make_bilateral();
std::unique_ptr<Transform> make_center_crop();
std::unique_ptr<Transform> make_color_jitter();
std::unique_ptr<Transform> make_cutout();
std::unique_ptr<Transform> make_equalize();
std::unique_ptr<Transform> make_gaussian();
std::unique_ptr<Transform> make_gaussian_noise();
std::unique_ptr<Transform> make_horizontal_flip();
std::unique_ptr<Transform> make_median();
std::unique_ptr<Transform> make_normalize();
std::unique_ptr<Transform> make_random_augment();
std::unique_ptr<Transform> make_random_crop();
std::unique_ptr<Transform> make_random_erasing();
std::unique_ptr<Transform> make_random_resized_crop();
std::unique_ptr<Transform> make_resize();
std::unique_ptr<Transform> make_rotate90();
std::unique_ptr<Transform> make_rotation();
std::unique_ptr<Transform> make_trivial_augment();
std::unique_ptr<Transform> make_vertical_flip();
std::unique_ptr<Transform> make_window();

}  // namespace trainer

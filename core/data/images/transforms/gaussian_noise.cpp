// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/data/images/transforms/table.h"

namespace trainer {
namespace {

/// Two independent numbers from the standard normal distribution (Box and Muller 1958).
struct Normals {
  explicit Normals(RandomStream& random) {
    constexpr float kTurn = 6.2831853f;
    const float length = std::sqrt(-2 * std::log(1 - random.next_uniform()));  // of (0, 1]
    const float angle = kTurn * random.next_uniform();
    first = length * std::cos(angle);
    second = length * std::sin(angle);
  }
  float first, second;
};

/// torchvision's v2.GaussianNoise: black is 0 and white 1. Its `clip` is always on, as pixels are bytes here.
class GaussianNoise : public Transform {
 public:
  void declare(Fields& fields) override {
    fields.add("sigma", &sigma_, "standard deviation, where white is 1").at_least(0).at_most(1).bare();
    fields.add("mean", &mean_, "mean, where white is 1").at_least(-1).at_most(1);
  }
  bool is_random() const override { return true; }
  MaskEffect mask_effect() const override { return MaskEffect::kept; }

  void apply(Image& image, RandomStream& random) const override {
    const auto scale = static_cast<float>(255 * sigma_), shift = static_cast<float>(255 * mean_);
    const auto noisy = [&](uint8_t byte, float normal) {
      const float value = static_cast<float>(byte) + shift + scale * normal;
      return static_cast<uint8_t>(std::lrint(std::clamp(value, 0.0f, 255.0f)));
    };
    for (size_t i = 0; i < image.pixels.size(); i += 2) {
      const Normals normals(random);
      image.pixels[i] = noisy(image.pixels[i], normals.first);
      if (i + 1 < image.pixels.size()) image.pixels[i + 1] = noisy(image.pixels[i + 1], normals.second);
    }
  }

 private:
  double sigma_ = 0.1, mean_ = 0;
};

}  // namespace

std::unique_ptr<Transform> make_gaussian_noise() {
  return std::make_unique<GaussianNoise>();
}

}  // namespace trainer

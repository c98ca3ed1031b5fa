// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "core/base/normal.h"
#include "core/graph/operation.h"

namespace trainer {

// Noise in images. A rule makes a number for each element from a word of Philox, and the noisy element from
// that and the element's own: x = scale * byte + offset. It is compiled by g++ for the CPU and by nvcc for
// the GPU.
namespace noise {

/// Adds a normal number to the byte; with `clips` no result is darker than black or brighter than white.
struct Gaussian {
  static constexpr const char* kName = "gaussian_noise";
  double std = 0;  ///< of bytes
  bool clips = true;

  void describe(AttributeVisitor& visit) const;
  template <class T>
  TRAINER_HD static DrawnPair<T> draw(uint32_t a, uint32_t b) {
    return normal_pair<T>(a, b);
  }
  template <class T>
  TRAINER_HD T apply(T x, T drawn, T scale, T offset) const {
    const T noisy = x + T(std) * scale * drawn;
    // The last term is 0, or NaN if the bounds are, which a comparison would lose.
    return clips ? math::clamp(noisy, offset, T(255) * scale + offset) + T(0) * offset : noisy;
  }
};

/// Replaces a share of the elements, half of them by black and half by white.
struct SaltAndPepper {
  static constexpr const char* kName = "salt_and_pepper_noise";
  double share = 0;

  void describe(AttributeVisitor& visit) const;
  template <class T>
  TRAINER_HD static DrawnPair<T> draw(uint32_t a, uint32_t b) {
    return {T(uniform(a)), T(uniform(b))};
  }
  template <class T>
  TRAINER_HD T apply(T x, T drawn, T scale, T offset) const {
    const auto uniform = static_cast<float>(drawn);  // 24 bits
    const T replacement = uniform < static_cast<float>(0.5 * share) ? offset : T(255) * scale + offset;
    return uniform < static_cast<float>(share) ? replacement : x;
  }
};

using Rule = std::variant<Gaussian, SaltAndPepper>;

}  // namespace noise

/// x (N, C, H, W), sample indices i32 (N), step i32 (1) or absent, and the numbers that x has for bytes,
/// scale and offset (C) -> y of x's shape. Element e of a sample takes word e % 4 of block e / 4: a pure
/// function of key, step (0 if absent), sample index and e. Images have no gradient.
class Noise final : public Operation {
 public:
  enum : size_t { kX, kSample, kStep, kScale, kOffset, kInputs };
  enum : size_t { kY };

  Noise(noise::Rule how, uint64_t random_key) : rule(how), key(random_key) {}
  std::string_view name() const override;
  std::optional<size_t> input_count() const override { return kInputs; }
  void describe(AttributeVisitor& visit) const override;
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  double flops(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs) const override;
  bool in_place(size_t input, size_t) const override { return input == kX; }

  const noise::Rule rule;
  const uint64_t key;
};

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/config/fields.h"
#include "core/graph/builder.h"
#include "core/graph/pixel_numbers.h"

namespace trainer {

/// The context in which a layer writes its operations.
struct LayerContext {
  Builder& build;
  std::string name;  ///< its own, or its number: parameters are called `name.weight`
  bool training = false;
  bool given_statistics = false;  ///< batch normalisation uses its running statistics in training, too
  uint64_t seed = 0;
  TensorId sample_index = kNone;         ///< i32 (N), as input_name::kSampleIndex
  TensorId step = kNone;                 ///< i32 (1)
  TensorId first_position = kNone;       ///< i32 (1): place of the first token, in generation; none: 0
  TensorId document_start = kNone;       ///< i32 (N, T): where each token's document begins; none: 0
  TensorId token_weights = kNone;        ///< f32 (N, T), of padded samples; none: all tokens count alike
  int64_t cached_positions = 0;          ///< positions that attention keeps in its caches, in generation
  const PixelNumbers* pixels = nullptr;  ///< of the images, where noise is added: not in prediction
  const std::vector<std::string>* freeze = nullptr;        ///< patterns of names; owned by the maker of this
  const std::map<std::string, size_t>* earlier = nullptr;  ///< places of the layers before this one; likewise

  /// Called `name.suffix`, or as the layer itself if the suffix is empty.
  TensorId parameter(const std::string& suffix, const Shape& shape, const Initial& initial);
  /// The parameter of an earlier layer, of any shape. Throws Error (exit 78) at `place` if it does not exist.
  TensorId parameter_of(const std::string& layer, const std::string& suffix, const Origin& place) const;
  /// Whether training leaves the layer's tensor `name.suffix` unchanged.
  bool is_frozen(const std::string& suffix) const;
};

/// Sizes of a layer's tensors.
struct LayerSizes {
  Shape input;                              ///< the first
  Shape output;                             ///< the first
  std::map<std::string, Shape> parameters;  ///< by the suffixes of their names
  bool operator==(const LayerSizes&) const = default;
};

/// Keys of a layer with their values, as overrides have them.
using LayerKeys = std::map<std::string, std::string>;

/// An element of a network: parameters from the recipe, and a few operations.
class Layer : public Component {
 public:
  std::string name;                 ///< empty: the layer's number
  std::vector<std::string> inputs;  ///< empty: the layer before

  void declare(Fields& fields) final;
  /// The least and the largest number of inputs.
  virtual size_t min_inputs() const { return 1; }
  virtual size_t max_inputs() const { return 1; }
  /// The key that sets how many features or channels its weights give; nullptr if it has none.
  virtual const char* width_key() const { return nullptr; }
  /// The keys by which the layer has the sizes `after` in place of `before`: those on which its sizes depend,
  /// besides its input's.
  virtual LayerKeys keys_for(const LayerSizes& /*before*/, const LayerSizes& /*after*/) const { return {}; }
  /// The layer whose weight this one uses as its own; empty: none.
  virtual std::string weight_of() const { return ""; }
  /// Writes its operations for the inputs `x`; returns its outputs, at least one.
  virtual std::vector<TensorId> build(LayerContext& context, const std::vector<TensorId>& x) const = 0;

 protected:
  virtual void declare_parameters(Fields& /*fields*/) {}
};

/// Every layer that a recipe can name: the explicit table.
const Registry<Layer>& layers();

}  // namespace trainer

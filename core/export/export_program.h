// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/export/onnx_graph.h"
#include "core/export/prepared_weights.h"

namespace trainer {

/// What the file's network outputs: the program's logits, or a softmax or sigmoid of them.
enum class OnnxOutput { logits, softmax, sigmoid };

/// The numbers that a network reads for bytes of images, for each channel: scale * byte + offset.
struct ByteScales {
  std::vector<float> scale, offset;
};

struct ExportRequest {
  OnnxFormat format;
  OnnxOutput output = OnnxOutput::logits;
  std::optional<ByteScales> bytes = {};                       ///< the network reads bytes; nothing: numbers
  std::function<std::string(const Origin& origin)> layer_of;  ///< a layer's name, by its place in the recipe
};

/// A graph, and those of its weights that are computed on export.
struct ExportedProgram {
  OnnxGraph graph;
  PreparedWeights weights;
};

/// The ONNX form of the entry `predict` of a forward program (core/step/step.h): before any pass, or
/// quantised (int8_stages). `other` is the same network for another number of samples: dimensions that differ
/// become any batch. nullptr: the batch is the program's. Throws Error (exit 78) at a layer that has no form,
/// or that mixes samples.
ExportedProgram export_program(const Program& program, const Program* other, const ExportRequest& request);

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/export/onnx_graph.h"
#include "core/storage/atomic_file.h"

namespace trainer {

/// Gives the bytes of a weight: f32 or i8, little-endian, row-major, in any number of pieces.
using WeightSource = std::function<void(const std::string& name, const ByteSink& sink)>;

/// Messages of Protocol Buffers end at 2 GiB. Models of this many bytes or more keep their weights in a file
/// beside them.
constexpr int64_t kMostModelBytes = 2'000'000'000;

/// Bytes of the model file with all weights in it.
int64_t onnx_bytes(const OnnxGraph& graph);

/// Gives a model file (onnx/onnx.proto). Its weights are taken from `weights` or, if `data_file` is given,
/// refer to the file of this name in the model's folder. Passes on what `weights` and `sink` throw. Holds no
/// weight's data.
void compose_onnx(const OnnxGraph& graph, const WeightSource& weights, const std::string& data_file,
                  const ByteSink& sink);
/// Gives that other file.
void compose_onnx_data(const OnnxGraph& graph, const WeightSource& weights, const ByteSink& sink);

}  // namespace trainer

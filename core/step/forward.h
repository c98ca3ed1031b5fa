// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/layers/network.h"
#include "core/tasks/task.h"

namespace trainer {

/// The purpose of a program. Training has the entry points `train_step` and `evaluate`, evaluation
/// `evaluate`. Prediction has `predict`, which outputs the logits of images without labels, and generation
/// `prefill` and `decode`. All but training also have `prepare` (core/passes/prepare_weights.cpp).
enum class Purpose { train, evaluate, predict, generate };

/// Sizes of a generation.
struct GenerationSize {
  int64_t sequences = 1;  ///< side by side, all at the same position
  int64_t positions = 0;  ///< cached positions of each; 0: the length of the network's input
  int64_t piece = 0;      ///< positions of `prefill`; 0: derived from the positions
};

/// The use of a program.
struct ProgramUse {
  Purpose purpose = Purpose::train;
  GenerationSize generation = {};
  bool averages = false;  ///< evaluation: running averages of another run are given, and evaluated too
};

/// The outputs of evaluation.
struct Reported {
  std::vector<Metric> metrics;  ///< the loss first
  bool has_matrix = false;      ///< the cells of a confusion matrix
  bool has_scores = false;      ///< logits with their targets
};

/// Inputs of the forward part of a program. Network and loss must outlive the stages.
struct ForwardSpec {
  ProgramUse use;
  const Network* network = nullptr;
  const Loss* loss = nullptr;
  TaskContext task;
  int64_t samples = 1;                        ///< of a micro-batch
  uint64_t seed = 0;                          ///< of the run
  std::vector<double> balanced_weights = {};  ///< of each class; empty: not known, or not wanted
  /// What the network reads for bytes of images, by entry; empty: no noise is added.
  std::map<std::string, PixelNumbers> pixels = {};
  bool masks_documents = false;   ///< tokens attend to their own document only
  bool pads_tokens = false;       ///< a sample's last tokens are its text, the first ones padding
  bool given_statistics = false;  ///< training uses the running statistics of batch normalisation
  /// The prediction of the network that the loss learns from, for the same samples; null: it has none.
  std::shared_ptr<const Program> teacher = {};
  std::function<Reported()> reported;  ///< called after the loss is built, so that its errors come first

  /// Whether the network's output is compared with targets.
  bool has_targets() const { return use.purpose == Purpose::train || use.purpose == Purpose::evaluate; }
};

/// The network's output in each entry, which the loss is computed from, and the teacher's in training.
using Logits = std::map<std::string, TensorId>;
constexpr const char* kTeacherLogits = "teacher";
/// Begins the names of the teacher's tensors.
constexpr const char* kTeacherPrefix = "teacher.";

/// The shape of the network's output for this number of samples. Shapes that do not fit throw Error (exit 78)
/// at their layer.
Shape output_shape(const Network& network, int64_t samples);

/// Throws Error (exit 78) at an embedding of tokens with a table smaller than the network's outputs: token
/// ids reach these.
void check_vocabulary(const Program& program, int64_t outputs);

/// Throws Error (exit 78) at an embedding of these inputs that has fewer rows than there are ids; `why` says
/// what the largest one is.
void check_embeddings(const Program& program, const std::vector<const char*>& inputs, int64_t ids,
                      const std::string& why);

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "core/config/reading.h"
#include "core/graph/program.h"
#include "core/layers/loss.h"
#include "core/layers/network.h"
#include "core/optim/optimizer.h"
#include "core/step/stages.h"
#include "core/step/step.h"

namespace trainer {

/// Changes to the values before they are read.
using WriteOut = std::function<void(Value&, Reading&)>;

/// Reads YAML text ("test.yaml") into the targets bound by `declare`. Throws Error with all problems.
void read_text(const std::string& text, const std::function<void(Fields&)>& declare,
               const WriteOut& write_out = nullptr);

/// The text of a file of the source tree.
std::string source_text(const std::string& path);

/// A network from the keys `input` and `layers`, checked.
Network network_from(const std::string& text);
/// The same from a file of the source tree, after overrides of its keys such as "input=[3, 64, 64]".
Network network_file(const std::string& path, const std::vector<std::string>& overrides = {});
/// An optimiser from a map such as "{name: sgd, lr: 0.1}".
std::unique_ptr<Optimizer> optimizer_from(const std::string& text);

/// Appends the update of the entry's gradients by the optimiser.
void append_update(const Optimizer& optimizer, Program& program, Entry& entry,
                   const std::vector<float>& learning_rates, const StepGuards& guards = {},
                   bool adapts_lr = false);

/// A loss from such a map.
std::unique_ptr<Loss> loss_from(const std::string& text);

/// `train_step` and `evaluate` of the network, forward only, with a "loss", by default a cross entropy;
/// `evaluate` has "logits" too. Inputs: "images", "labels" (one for each pixel of logits (N, C, H, W)) or,
/// depending on the loss, "targets" of the logits' shape or none, "weights", "sample_index".
Program forward_program(const Network& network, int64_t batch, uint64_t seed = 1, const Loss* loss = nullptr);

/// The stages and passes of a training step that come after the forward part and its loss.
std::vector<Pass> rest_of_step(StepSpec spec);

/// The same ready to train: passes, gradients, update.
Program training_program(const Network& network, int64_t batch, const Optimizer& optimizer,
                         const std::vector<float>& lr_table, const std::vector<Pass>& optional_passes);

}  // namespace trainer

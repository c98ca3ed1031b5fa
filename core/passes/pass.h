// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/sample_steps.h"
#include "core/graph/names.h"
#include "core/graph/pixel_numbers.h"
#include "core/graph/program.h"

namespace trainer {

class Planner;

/// One named step from program to program. Optional ones only make things faster or smaller and may be left
/// out.
struct Pass {
  std::string name;
  std::string help;  ///< one line
  bool optional = false;
  std::function<void(Program&)> run;
  std::vector<std::string> after = {};  ///< passes that come earlier, if both run
};

/// Throws std::logic_error if one of the passes precedes another that it has to come after.
void check_order(const std::vector<Pass>& passes);

/// A batch normalisation with a sum as its only reader adds the other operand in its own pass.
Pass fuse_residual();
/// Which normalisations are folded: those that no gradient passes, or all.
enum class Folding { without_gradient, all };
/// A batch normalisation with given statistics after a convolution becomes part of the convolution's weights.
Pass fold_batch_norm(Folding folding = Folding::without_gradient);
/// A sum that is the only reader of a convolution or linear layer is computed with it, where no gradient
/// passes and the device's planner accepts it (nullptr: any device). Comes after fold_batch_norm, which
/// needs a convolution's own result.
Pass fuse_addend(const Planner* planner);
/// A relu that is the only reader of a convolution, batch normalisation or linear layer is computed with it.
Pass fuse_relu();
/// Makes the input `images` one of bytes, which each entry turns into numbers itself; `numbers` by entry.
/// Comes after mixed_precision, so that a cast of the images is part of that.
Pass read_pixels(std::map<std::string, PixelNumbers> numbers);
/// A split's samples on the device, and the steps applied to each.
struct SampleSet {
  std::string name;  ///< "train", "val"
  int64_t size = 0;
  Shape shape;  ///< as stored, (C, H, W)
  SampleSteps steps;
};
/// Takes the place of the inputs `images` and `labels`: entries read them from samples that are on the
/// device, by numbers and epochs; `sets` by entry. Comes after read_pixels.
Pass read_samples(std::map<std::string, SampleSet> sets);
/// Gives images of a low type zero channels, and the first convolution's weights too, if the device
/// then moves less. Engines that need 4 or 8 channels otherwise copy the images for the gradient of the
/// weights. Comes after read_pixels, whose kernel writes them, and before differentiation, which cuts that
/// gradient.
Pass pad_channels(const Planner& planner);
/// A sum of two gradients that only the gradient of a batch normalisation reads is computed in the latter's
/// pass.
Pass fuse_gradient_sum();
/// A function of one tensor and its product with another become one node (ops/gated.h), whose gradient reads
/// both: the function's result is not stored.
Pass fuse_gate();
/// Computes a linear layer's logits for this many samples at a time, together with their loss, metrics and
/// the gradients of the layer's inputs. Applies if only the loss and metrics read the logits, and they take
/// more than `piece_bytes`. Logits of all samples then never exist, and `evaluate` does not output them.
/// Comes after all passes that look at single operations, and before the entry is copied for micro-batches.
Pass fuse_classifier(int64_t piece_bytes);
/// A 1x1 convolution of stride 1 with a batch normalisation after it becomes one product with folded weights.
/// Its moments follow from its input's Gram matrix (ops/gram_batch_norm.h), if the device's planner accepts
/// it. The tensor between both is then neither stored nor differentiated. After a relu its gradient must come
/// from another product of this kind, which then masks it. Comes after differentiation and sync_batch_norm,
/// whose tables it leaves alone, and before fuse_moments. At least this many bytes must be saved each time to
/// be worth four more kernels.
Pass gram_batch_norm(const Planner& planner, int64_t least_saved);
/// A convolution that a batch normalisation reads outputs mean and variance of its result, if the device's
/// planner accepts it: the normalisation then need not read everything again to compute them. Comes after
/// differentiation, since gradients read the normalisation's outputs, and after sync_batch_norm, whose tables
/// it leaves alone.
Pass fuse_moments(const Planner& planner);
/// Moves gelu_tanh into the linear layer before it, and its gradient into the product before that, if the
/// device's planner accepts. Not with recompute: the gelu would be recomputed from the rounded sum, and
/// differ. Comes after differentiation.
Pass fuse_gelu(const Planner& planner);
/// Lets the product that makes a gradient add the others that it is summed with. For weights these are of
/// other micro-batches, other pieces of a classifier, other layers; for activations of other layers that read
/// them. `planner` says whether the device can. Comes after all passes that sum gradients.
Pass fuse_product_sum(const Planner& planner);
/// Activations that may be discarded after the forward part and computed again.
struct Recompute {
  enum class Kind { none, cheap, full, size };
  Kind kind = Kind::none;
  int64_t bytes = 0;  ///< size: stop once activations and gradients take no more than this
};
/// Discards activations, cheapest bytes first, as long as each lowers the peak. Results stay bitwise
/// identical.
Pass recompute(const Recompute& setting);
/// Discards what the forward part gathers, and gathers it again for the backward part, whatever `recompute`
/// does.
Pass gather_again();
/// With micro-batches weights are cast in the first run of a step only; NAME.low keeps them for the others.
Pass keep_low_weights();
/// Moves each node that reads only weights, statistics and constants into the entry `prepare`, which runs
/// once (Executable::prepare); its results persist. Equal nodes of several entries become one. Views stay:
/// they cost nothing. Weights for which the device has a form of its own are copied, if it is given. For
/// programs that change no weights. Comes after all passes but dead_code.
Pass prepare_weights(const Planner* planner = nullptr);
/// Removes nodes that no output and no assign needs.
Pass dead_code();
/// Casts of a step's weights become one node, and so do running averages of one share, if the device's
/// planner accepts it (ops/for_each.h): one kernel starts for all of them. Comes after dead_code, which looks
/// at single nodes.
Pass fuse_horizontally(const Planner& planner);

/// Called after each pass with its name.
using PassObserver = std::function<void(const std::string& pass, const Program& program)>;

/// Runs the passes in order, which it checks, verifying the program after each.
void run_passes(Program& program, const std::vector<Pass>& passes, const PassObserver& observe = {});

}  // namespace trainer

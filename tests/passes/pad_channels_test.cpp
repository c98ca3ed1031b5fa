// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "core/graph/ops/cast.h"
#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/scale_pixels.h"
#include "tests/passes/draft.h"
#include "tests/passes/trained.h"

using namespace trainer;

namespace {

/// Its engines for the gradient of weights copy images that have another number of channels. Its elements are
/// large, so that small images are worth it.
struct CopyingPlanner : RefusingPlanner {
  explicit CopyingPlanner(int64_t channels, int64_t bytes = int64_t{1} << 20)
      : wanted(channels), element(bytes) {}
  int64_t element_bytes(DType) const override { return element; }
  std::optional<int64_t> untimed_workspace(const OpContext& context) const override {
    Shape x = context.inputs[0].shape;
    if (x[1] == wanted) return 0;
    x[1] = wanted;
    return numel(x) * element;
  }
  const int64_t wanted, element;
};

/// A convolution of pixels, and one of the first one's output.
void draft_two(Draft& draft, int64_t channels) {
  const TensorId x = draft.input("x", {2, channels, 9, 9}, DType::u8),
                 scale = draft.input("scale", {channels}), offset = draft.input("offset", {channels});
  const TensorId w = draft.parameter("w", {5, channels, 3, 3}), v = draft.parameter("v", {4, 5, 3, 3});
  const TensorId pixels = draft.build.emit<ScalePixels>({x, scale, offset}, DType::bf16),
                 low_w = draft.build.emit<Cast>({w}, DType::bf16),
                 low_v = draft.build.emit<Cast>({v}, DType::bf16);
  const TensorId y = draft.build.emit<Conv2d>({pixels, low_w, kNone}, Conv2dGeometry{.kernel = {3, 3}});
  draft.output("y", draft.build.emit<Conv2d>({y, low_v, kNone}, Conv2dGeometry{.kernel = {3, 3}}));
}

}  // namespace

TEST_CASE("pad_channels gives images and the weights that meet them the channels that save a copy") {
  Draft draft;
  draft_two(draft, 3);
  CHECK(draft.run({pad_channels(CopyingPlanner(4))}).calls() ==
        Calls{"bf16 scale_pixels(x, scale, offset) {to=bf16 channels=4}", "bf16 cast(w) {to=bf16}",
              "bf16 cast(v) {to=bf16}", "bf16 pad(cast) {axis=1 before=0 after=1}",
              "bf16 conv2d(scale_pixels, pad, -, -, -, -) {kernel=3x3 stride=1x1 padding=0x0}",
              "bf16 conv2d(conv2d, cast, -, -, -, -) {kernel=3x3 stride=1x1 padding=0x0}"});
  Draft wider;
  draft_two(wider, 6);
  CHECK(wider.run({pad_channels(CopyingPlanner(8))}).calls("pad") ==
        Calls{"bf16 pad(cast) {axis=1 before=0 after=2}"});
}

TEST_CASE("pad_channels leaves a program as it is where more channels save nothing") {
  for (const auto& [channels, wanted] :
       {std::pair<int64_t, int64_t>{3, 3}, {4, 4}, {8, 8}, {8, 16}, {1, 8}}) {
    INFO(channels << " channels, " << wanted << " wanted");
    Draft draft;
    draft_two(draft, channels);
    CHECK_FALSE(draft.is_changed_by({pad_channels(CopyingPlanner(wanted))}));
  }
  Draft draft;
  draft_two(draft, 3);
  CHECK_FALSE(draft.is_changed_by({pad_channels(RefusingPlanner())}));
  CHECK_FALSE(draft.is_changed_by({pad_channels(CopyingPlanner(4, 2))}));  // small elements
  draft.program.tensors[static_cast<size_t>(draft.program.find("w"))].frozen = true;
  CHECK_FALSE(draft.is_changed_by({pad_channels(CopyingPlanner(4))}));
}

TEST_CASE("steps with and without pad_channels are the same, with micro-batches too") {
  const char* const network =
      "{input: [3, 9, 9], layers: [{conv2d: {out_channels: 8, kernel_size: 3, bias: false}}, batch_norm, "
      "relu, "
      "{conv2d: {out_channels: 4, kernel_size: 3}}, flatten, {linear: 10}]}";
  const int64_t micro_batches = GENERATE(int64_t{1}, int64_t{2});
  const CopyingPlanner planner(4);
  const PixelNumbers scales{.scale = {0.01f, 0.02f, 0.03f}, .offset = {-1, 0, 1}};
  check_same_as_without_planner(
      network, {.passes = {.pixels = {{entry_name::kTrainStep, scales}, {entry_name::kEvaluate, scales}},
                           .planner = &planner},
                .precision = Precision::amp_bf16,
                .micro_batches = micro_batches});
}

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/graph/ops/cast.h"
#include "core/graph/ops/channels.h"
#include "core/graph/ops/dropout.h"
#include "core/graph/ops/pool2d.h"
#include "core/graph/ops/read_samples.h"
#include "core/graph/ops/resample2d.h"
#include "core/graph/ops/scale_pixels.h"
#include "core/graph/ops/stochastic_depth.h"
#include "tests/cuda/cases.h"

namespace trainer {
namespace {

const std::vector<Shape> kResampledImages = {{2, 3, 5, 7}, {1, 17, 10, 6}, {3, 8, 7, 9}, {2, 40, 6, 8}};

const std::vector<Conv2dGeometry> kWindows = {
    {.kernel = {2, 2}, .stride = {2, 2}},
    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
    {.kernel = {3, 2}, .stride = {1, 3}, .padding = {1, 0}},
    {.kernel = {2, 2}, .stride = {3, 3}},
};

template <class Pool>
KernelCase pool(const char* name, const Shape& shape, const Conv2dGeometry& window) {
  return differentiable(fmt::format("{} {} {}", name, to_string(shape), attributes_text(AvgPool2d(window))),
                        [=](Sketch& sketch) {
                          return sketch.build().emit<Pool>({sketch.parameter("x", shape, Values::distinct)},
                                                           window);
                        });
}

void add_pools(std::vector<KernelCase>& cases) {
  for (const Shape& shape : kResampledImages) {
    for (const Conv2dGeometry& window : kWindows) {
      cases.push_back(pool<MaxPool2d>("max_pool2d", shape, window));
      cases.back().narrow = false;  // rounding makes neighbours on the grid equal
      cases.push_back(pool<AvgPool2d>("avg_pool2d", shape, window));
    }
    cases.push_back(pool<AvgPool2d>("global", shape, {.kernel = {shape[2], shape[3]}}));
  }
  cases.push_back(pool<AvgPool2d>("global", {2, 264, 5, 17}, {.kernel = {5, 17}}));
  cases.push_back({"a max pool whose places nobody wants", [](Sketch& sketch) {
                     const TensorId x = sketch.input("x", {3, 17, 9, 7}, Values::distinct);
                     sketch.output("y", sketch.build().emit<MaxPool2d>({x}, kWindows[1]));
                     sketch.loss(sketch.parameter("unrelated", {2, 3}));
                   }});
}

void add_factors(std::vector<KernelCase>& cases) {
  // The last one has several parts of rows to sum.
  for (const Shape& shape :
       {kResampledImages[0], kResampledImages[1], kResampledImages[3], Shape{5, 8, 23, 23}}) {
    cases.push_back(differentiable(fmt::format("scale_channels {}", to_string(shape)), [=](Sketch& sketch) {
      const TensorId x = sketch.parameter("x", shape), s = sketch.parameter("s", {shape[0], shape[1], 1, 1});
      return sketch.build().emit<ScaleChannels>({x, s});
    }));
    cases.push_back(differentiable(fmt::format("add_channels {}", to_string(shape)), [=](Sketch& sketch) {
      const TensorId x = sketch.parameter("x", shape), b = sketch.parameter("b", {shape[1]});
      return sketch.build().emit<AddChannels>({x, b});
    }));
  }
}

void add_resampling(std::vector<KernelCase>& cases) {
  struct Sizes {
    Shape x;
    Size2d output;
  };
  for (const auto rule :
       {Resampling::nearest, Resampling::bilinear, Resampling::bilinear_aligned, Resampling::average}) {
    for (const Sizes& s : {Sizes{{2, 3, 5, 7}, {10, 21}}, Sizes{{1, 17, 7, 9}, {3, 4}},
                           Sizes{{2, 8, 1, 6}, {3, 12}}, Sizes{{1, 16, 6, 6}, {6, 6}}}) {
      cases.push_back(differentiable(
          fmt::format("{} {} to {}x{}", attributes_text(Resample2d(rule, s.output)), to_string(s.x),
                      s.output[0], s.output[1]),
          [=](Sketch& sketch) {
            return sketch.build().emit<Resample2d>({sketch.parameter("x", s.x)}, rule, s.output);
          }));
    }
  }
}

/// In the layout of an operation on images, and in rows for one that sees features.
void add_pixels(std::vector<KernelCase>& cases) {
  for (const Shape& shape :
       {kResampledImages[0], kResampledImages[1], Shape{3, 1, 19, 17}, Shape{2, 3, 33, 31}}) {
    for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
      for (const bool features : {false, true}) {
        cases.push_back(differentiable(
            fmt::format("scale_pixels {} {}{}", to_string(to), to_string(shape), features ? " flat" : ""),
            [=](Sketch& sketch) {
              const TensorId x = sketch.pixels("x", shape), scale = sketch.input("scale", {shape[1]}),
                             offset = sketch.input("offset", {shape[1]});
              for (float& value : sketch.values["scale"]) value /= 128;
              Builder& build = sketch.build();
              TensorId y = build.emit<ScalePixels>({x, scale, offset}, to);
              sketch.output("plain", features ? y : build.emit<Cast>({y}, DType::f32));
              if (to != DType::f32) y = build.emit<Cast>({y}, DType::f32);
              return build.emit<ScaleChannels>({y, sketch.parameter("s", {shape[0], shape[1], 1, 1})});
            }));
        cases.back().narrow = false;
        if (to != DType::f32) cases.back().tolerances = narrow_tolerances(to);
      }
    }
  }
}

/// More channels than the pixels have, before a convolution with weights for all of them.
void add_padded_pixels(std::vector<KernelCase>& cases) {
  for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
    for (const int64_t channels : {4, 8}) {
      cases.push_back(differentiable(
          fmt::format("scale_pixels {} {} channels", to_string(to), channels), [=](Sketch& sketch) {
            const TensorId x = sketch.pixels("x", {2, 3, 33, 31}), scale = sketch.input("scale", {3}),
                           offset = sketch.input("offset", {3});
            for (float& value : sketch.values["scale"]) value /= 128;
            Builder& build = sketch.build();
            TensorId y = build.emit<ScalePixels>({x, scale, offset}, to, channels);
            if (to != DType::f32) y = build.emit<Cast>({y}, DType::f32);
            sketch.output("plain", y);
            return build.emit<ScaleChannels>({y, sketch.parameter("s", {2, channels, 1, 1})});
          }));
      cases.back().narrow = false;
      if (to != DType::f32) cases.back().tolerances = narrow_tolerances(to);
    }
  }
}

/// Rows of samples on the device, one of them padding; more pixels than a block has threads.
void add_sample_rows(std::vector<KernelCase>& cases) {
  const SampleStep mirror{.mirrors = true, .p = 0.5}, cut{.padding = 2, .height = 19, .width = 17},
      wide{.padding = 8, .height = 9, .width = 31};
  std::vector<SampleSteps> all(1);
  for (const std::vector<SampleStep>& list :
       {std::vector{cut, mirror}, std::vector{mirror, cut, wide, mirror}}) {
    SampleSteps steps;
    for (const SampleStep& step : list) steps.steps[steps.count++] = step;
    steps.key = 9;
    all.push_back(steps);
  }
  for (const SampleSteps& steps : all) {
    for (const int64_t channels : {1, 3}) {
      cases.push_back(differentiable(fmt::format("read_samples {} steps", steps.count), [=](Sketch& sketch) {
        constexpr int64_t kSamples = 5, kRows = 4;
        const std::vector<TensorId> inputs{
            sketch.pixels("samples", {kSamples, channels, 19, 21}), sketch.integers("answers", kSamples, 10),
            sketch.integers("numbers", kRows, kSamples), sketch.integers("epochs", kRows, 100)};
        sketch.values["numbers"][1] = -1;
        Builder& build = sketch.build();
        const auto read = build.emit_all(std::make_shared<ReadSamples>(steps), inputs);
        sketch.output("labels", read[1]);
        const TensorId scale = sketch.input("scale", {channels}), offset = sketch.input("offset", {channels});
        const TensorId y = build.emit<ScalePixels>({read[0], scale, offset}, DType::f32);
        return build.emit<ScaleChannels>({y, sketch.parameter("s", {kRows, channels, 1, 1})});
      }));
      cases.back().narrow = false;
    }
  }
}

}  // namespace

void add_image_cases(std::vector<KernelCase>& cases) {
  add_sample_rows(cases);
  add_pixels(cases);
  add_padded_pixels(cases);
  add_pools(cases);
  add_factors(cases);
  add_resampling(cases);
}

void add_random_cases(std::vector<KernelCase>& cases) {
  const DropoutSettings rule{.p = 0.3, .key = random_key(5, "layer")};
  for (const Shape& shape : {Shape{5, 31}, Shape{3, 8}, Shape{2, 1033}, Shape{7, 3, 3, 2}}) {
    auto draft = [=](Sketch& sketch, bool whole_samples) {
      const std::vector<TensorId> inputs{sketch.parameter("x", shape),
                                         sketch.integers("samples", shape[0], 1000),
                                         sketch.integers("step", 1, 50)};
      return whole_samples ? sketch.build().emit<StochasticDepth>(inputs, rule)
                           : sketch.build().emit<Dropout>(inputs, rule);
    };
    cases.push_back(differentiable(fmt::format("dropout {}", to_string(shape)),
                                   [=](Sketch& sketch) { return draft(sketch, false); }));
    cases.push_back(differentiable(fmt::format("stochastic_depth {}", to_string(shape)),
                                   [=](Sketch& sketch) { return draft(sketch, true); }));
  }
}

}  // namespace trainer

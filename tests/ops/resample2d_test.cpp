// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/resample2d.h"

#include <fmt/format.h>

#include <numeric>
#include "tests/catch.h"

#include "tests/ops/harness.h"

using namespace trainer;

namespace {

struct ResampleCase {
  Shape x;
  Size2d output;
};

const std::vector<ResampleCase> kResampleCases = {
    {{2, 1, 1, 1}, {1, 1}},  {{2, 3, 5, 7}, {10, 21}}, {{1, 17, 4, 3}, {8, 6}}, {{2, 5, 1, 6}, {3, 12}},
    {{1, 33, 7, 9}, {3, 4}}, {{2, 2, 11, 5}, {4, 7}},  {{1, 16, 6, 6}, {6, 6}}};
constexpr Resampling kRules[] = {Resampling::nearest, Resampling::bilinear, Resampling::bilinear_aligned,
                                 Resampling::average};

}  // namespace

TEST_CASE("resampling by every rule has the right values and gradient") {
  for (const Resampling rule : kRules) {
    for (const ResampleCase& c : kResampleCases) {
      check_program(fmt::format("{} {} to {}x{}", attributes_text(Resample2d(rule, c.output)), to_string(c.x),
                                c.output[0], c.output[1]),
                    [&](Sketch& sketch) {
                      const TensorId x = sketch.parameter("x", c.x);
                      const TensorId y = sketch.build().emit<Resample2d>({x}, rule, c.output);
                      sketch.output("y", y);
                      sketch.loss(y);
                    });
    }
  }
}

TEST_CASE("resampling takes a convolution's layout") {
  for (const Resampling rule : kRules) {
    for (int64_t channels : {int64_t{1}, int64_t{17}}) {
      const auto draft = [&](Sketch& sketch) {
        Builder& build = sketch.build();
        const Conv2dGeometry geometry{.kernel = {3, 3}, .padding = {1, 1}};
        const TensorId x = sketch.input("x", {2, 3, 5, 4}), w = sketch.parameter("w", {channels, 3, 3, 3});
        const TensorId v = sketch.parameter("v", {3, channels, 3, 3});
        const TensorId middle = build.emit<Conv2d>({x, w, kNone}, geometry);
        const TensorId large = build.emit<Resample2d>({middle}, rule, Size2d{9, 8});
        sketch.loss(build.emit<Conv2d>({large, v, kNone}, geometry));
      };
      check_program(fmt::format("{}, {} channels", attributes_text(Resample2d(rule, {9, 8})), channels),
                    draft, 1);
    }
  }
}

TEST_CASE("the weights of each output sum to 1") {
  for (const Resampling rule : kRules) {
    for (int64_t in : {1, 2, 3, 7, 31}) {
      for (int64_t out : {1, 2, 5, 14, 33}) {
        const Taps all = taps(rule, in, out);
        REQUIRE(all.begin.size() == static_cast<size_t>(out) + 1);
        for (int64_t o = 0; o < out; ++o) {
          const auto first = all.weight.begin() + all.begin[static_cast<size_t>(o)],
                     end = all.weight.begin() + all.begin[static_cast<size_t>(o) + 1];
          CHECK(std::accumulate(first, end, 0.0) == Approx(1).epsilon(1e-12));
        }
      }
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/psnr.h"

#include <cmath>
#include <limits>
#include "tests/catch.h"

#include "cpu/backend.h"
#include "tests/cuda/cases.h"
#include "tests/ops/fixture.h"
#include "tests/ops/harness.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

using Numbers = std::vector<float>;

/// The sum for images whose channels have these numbers for a byte.
double sum_of(const Backend& backend, const Shape& shape, const Numbers& x, const Numbers& targets,
              const Numbers& weights, const Numbers& scale) {
  Program program;
  program.entries.emplace_back("measure");
  Builder build(program, program.entries[0]);
  const TensorSpec images{shape, DType::f32};
  const std::vector<TensorId> in = {program.input("x", images), program.input("targets", images),
                                    program.input("weights", {{shape[0]}, DType::f32}),
                                    program.input("scale", {{shape[1]}, DType::f32})};
  program.entries[0].outputs.push_back({"psnr", build.emit<Psnr>(in)});
  Session session(program, backend);
  session.set({{"x", x}, {"targets", targets}, {"weights", weights}, {"scale", scale}});
  session.run("measure");
  return session.output("measure", "psnr")[0];
}

}  // namespace

TEST_CASE("signal-to-noise ratios have the reference's values") {
  std::vector<KernelCase> cases;
  add_psnr_cases(cases);
  for (const KernelCase& one : cases) check_program(one.name, one.draft, 3);
}

TEST_CASE(
    "signal-to-noise ratios are scikit-image's, also of normalised channels and of some of the images") {
  const Fixture fixture("filters");
  const auto cpu = make_cpu_backend(2);
  for (const std::string name : {"one", "three"}) {
    const Shape shape = fixture.shape(name + "/clean");
    Numbers clean = fixture.values(name + "/clean"), noisy = fixture.values(name + "/noisy");
    const Numbers psnr = fixture.values(name + "/psnr");
    const auto images = static_cast<size_t>(shape[0]), channels = static_cast<size_t>(shape[1]);
    for (size_t n = 0; n < images; ++n) {
      Numbers weights(images, 0);
      weights[n] = 1;
      CHECK(sum_of(cpu, shape, noisy, clean, weights, Numbers(channels, 1.0f / 255)) ==
            Approx(psnr[n]).epsilon(1e-6));
    }
    double all = 0;
    for (const float each : psnr) all += each;
    // Black is -1, -3, -5, and white 1, 1, 1.
    Numbers scale;
    for (size_t c = 0; c < channels; ++c) scale.push_back(static_cast<float>(2 * (c + 1)) / 255);
    const size_t area = clean.size() / images / channels;
    for (size_t i = 0; i < clean.size(); ++i) {
      const float range = static_cast<float>(2 * (i / area % channels + 1));
      clean[i] = 1 - range + range * clean[i];
      noisy[i] = 1 - range + range * noisy[i];
    }
    CHECK(sum_of(cpu, shape, noisy, clean, Numbers(images, 1), scale) == Approx(all).epsilon(1e-6));
  }
}

TEST_CASE("an exact copy has 100 dB, padding counts nothing, and NaN stays NaN") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Backend cpu = make_cpu_backend(1), reference = make_reference_backend();
  for (const Backend* backend : {&cpu, &reference}) {
    const Shape shape{2, 1, 1, 2};
    CHECK(sum_of(*backend, shape, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 1}, {1}) == Approx(200));
    CHECK(sum_of(*backend, shape, {1, 2, kNan, 4}, {1, 2, 3, 4}, {1, 0}, {1}) == Approx(100));
    CHECK(std::isnan(sum_of(*backend, shape, {1, 2, kNan, 4}, {1, 2, 3, 4}, {1, 1}, {1})));
    CHECK(sum_of(*backend, shape, {0, 0, 255, 255}, {255, 255, 0, 0}, {1, 3}, {1}) == Approx(0).margin(1e-9));
  }
}

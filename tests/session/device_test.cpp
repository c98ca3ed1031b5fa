// SPDX-License-Identifier: Apache-2.0
#include "core/session/device.h"

#include <catch2/catch.hpp>

#include "tests/host/environment.h"

namespace trainer {
namespace {

using Catch::Contains;

DeviceChoice chosen(const std::string& type, const ResumePoint* from = nullptr, bool must_keep = true) {
  const auto recipe = Recipe::parse(
      "model: {input: [1, 2, 2], layers: [flatten, linear: 2]}\ndata: {format: synthetic}\n"
      "device: {type: " +
          type + "}\n",
      "r.yaml", {});
  return choose_device(*recipe, from, must_keep);
}

ResumePoint made_on(const std::string& device) {
  ResumePoint point;
  point.state.facts = {{"device", device}, {"threads", "3"}};
  return point;
}

/// With a GPU that Slurm has allotted, or without any.
struct Surroundings {
  explicit Surroundings(bool has_gpu) {
    environment.set("CUDA_VISIBLE_DEVICES", has_gpu ? "0" : "");
    environment.set("SLURM_JOB_GPUS", has_gpu ? "0" : nullptr);
    environment.set("SLURM_STEP_GPUS", nullptr);
  }
  test::Environment environment;
};

}  // namespace

TEST_CASE("device.type=auto is cuda where there is a GPU, else cpu, and says why") {
  const Surroundings none(false);
  CHECK(chosen("auto").type == "cpu");
  CHECK(chosen("auto").reason == "device.type=auto: CUDA_VISIBLE_DEVICES= hides all GPUs");
  CHECK(chosen("cuda").type == "cuda");
  CHECK(chosen("cuda").reason == "device.type=cuda");
  const Surroundings one(true);
  CHECK(chosen("auto").type == "cuda");
  CHECK(chosen("auto").reason == "device.type=auto: SLURM_JOB_GPUS=0");
  CHECK(chosen("cpu").type == "cpu");
}

TEST_CASE("a run that resumes keeps its checkpoint's device, unless the recipe names one") {
  const ResumePoint cpu = made_on("cpu"), cuda = made_on("cuda");
  const Surroundings one(true);
  CHECK(chosen("auto", &cpu).type == "cpu");
  CHECK(chosen("auto", &cpu).threads == 3);
  CHECK_THAT(chosen("auto", &cpu).reason, Contains("the checkpoint was made on it"));
  CHECK(chosen("cuda", &cpu).type == "cuda");
  CHECK(chosen("auto", &cuda).type == "cuda");
  const Surroundings none(false);
  CHECK(chosen("auto", &cuda).type == "cuda");
  CHECK(chosen("cpu", &cuda).type == "cpu");
}

TEST_CASE("weights from a GPU are evaluated on the CPU where there is no GPU") {
  const ResumePoint cuda = made_on("cuda");
  const Surroundings none(false);
  CHECK(chosen("auto", &cuda, false).type == "cpu");
  const Surroundings one(true);
  CHECK(chosen("auto", &cuda, false).type == "cuda");
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "core/storage/safetensors.h"
#include "tests/app/command.h"
#include "tests/catch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// A trained teacher, and a student that learns from it.
class Lesson {
 public:
  Lesson() {
    workspace.write("big.yaml", kSmallRecipe);
    const Outcome taught = trained("big", "big.yaml");
    INFO(taught.errors);
    REQUIRE(taught.code == 0);
    workspace.write("student.yaml", R"(version: 1
run: {name: student, seed: 5}
model:
  input: [1, 12, 12]
  layers:
    - flatten
    - linear: {out_features: 5, name: fc}
data: {format: synthetic, synthetic: {train_samples: 640, val_samples: 130}}
training: {max_duration: 1ep, global_batch_size: 64}
loss: {name: distillation, teacher: {recipe: big.yaml, weights: runs/big}}
optimizer: {name: sgd, lr: 0.05}
)");
  }
  Outcome trained(const std::string& name, const std::string& recipe, const std::string& more = "") const {
    return run_shell("\"$TRAINER\" --config " + recipe + " run.output_dir=runs/" + name + " " + more,
                     workspace.path());
  }
  Outcome student(const std::string& name, const std::string& more = "") const {
    return trained(name, "student.yaml", more);
  }

  Workspace workspace;
};

}  // namespace

TEST_CASE("a student learns from a teacher, pauses, and is evaluated without it") {
  const Lesson lesson;
  const Outcome whole = lesson.student("whole");
  INFO(whole.errors);
  REQUIRE(whole.code == 0);
  CHECK_THAT(whole.errors, ContainsSubstring("teacher: ") && ContainsSubstring("runs/big/model.safetensors"));
  for (const char* step : {"3", "7"})
    REQUIRE(lesson.student("parts", std::string("run.stop_after=") + step + "ba").code == 0);
  REQUIRE(lesson.student("parts").code == 0);
  const auto weights = [&](const std::string& run) {
    return lesson.workspace.read("runs/" + run + "/model.safetensors");
  };
  CHECK((weights("whole") == weights("parts")));
  CHECK(lesson.student("alone", "loss.name=cross_entropy loss.teacher=null").code == 78);
  REQUIRE(lesson.student("other", "loss.temperature=1").code == 0);
  CHECK((weights("whole") != weights("other")));
  const SafetensorsFile rest(lesson.workspace.path() /
                             "runs/whole/checkpoints/step-00000010/optimizer.safetensors");
  for (const StoredTensor& tensor : rest.tensors()) CHECK_FALSE(tensor.name.starts_with("teacher."));
  fs::remove_all(lesson.workspace.path() / "runs/big");
  fs::remove(lesson.workspace.path() / "big.yaml");
  const Outcome measured = run_trainer({"eval", "runs/whole"}, lesson.workspace.path());
  INFO(measured.errors);
  CHECK(measured.code == 0);
}

TEST_CASE("a teacher that changed since the run began, or does not fit, is refused") {
  const Lesson lesson;
  REQUIRE(lesson.student("a", "run.stop_after=3ba").code == 0);
  REQUIRE(lesson.trained("other", "big.yaml", "run.seed=9").code == 0);
  fs::copy_file(lesson.workspace.path() / "runs/other/model.safetensors",
                lesson.workspace.path() / "runs/big/model.safetensors", fs::copy_options::overwrite_existing);
  const Outcome changed = lesson.student("a");
  CHECK(changed.code == 65);
  CHECK_THAT(changed.errors,
             ContainsSubstring("student.yaml:10:") && ContainsSubstring("is not the one that"));
  CHECK(lesson.student("a", "'run.allow_changes=[loss.teacher]'").code == 0);
  const Outcome classes = lesson.student("b", "model.num_classes=4");
  CHECK(classes.code == 78);
  CHECK_THAT(classes.errors,
             ContainsSubstring("loss.teacher.recipe: the teacher's output is 64x5, and the network's 64x4"));
  const Outcome scaled = lesson.student("b", "'data.augment=[{normalize: {mean: [0.5], std: [0.5]}}]'");
  CHECK(scaled.code == 78);
  CHECK_THAT(scaled.errors, ContainsSubstring("images that are normalised otherwise"));
  lesson.workspace.write("w.safetensors", lesson.workspace.read("runs/a/model.safetensors"));
  const Outcome misfit = lesson.student("b", "loss.teacher.weights=w.safetensors");
  CHECK(misfit.code == 65);
  CHECK_THAT(misfit.errors, ContainsSubstring("w.safetensors"));
  CHECK(lesson.student("b", "loss.teacher.recipe=no.yaml").code == 78);
  const Outcome lacks = lesson.student("b", "loss.teacher.weights=no.safetensors");
  INFO(lacks.errors);
  CHECK(lacks.code == 65);
}

TEST_CASE("ranks of a student all have the teacher that rank 0 has read") {
  if (!has_mpi()) return;
  const Lesson lesson;
  REQUIRE(lesson.student("one").code == 0);
  const Outcome two = run_ranks(
      "\"$TRAINER\" --config student.yaml run.output_dir=runs/two parallelism.data=2 device.threads=1 "
      "parallelism.verify=1ba",
      lesson.workspace.path());
  INFO(two.errors);
  REQUIRE(two.code == 0);
  const auto weights = [&](const std::string& run) {
    const SafetensorsFile file(lesson.workspace.path() / "runs" / run / "model.safetensors");
    return file.read_floats(*file.find("fc.weight"));
  };
  const std::vector<float> one = weights("one"), of_two = weights("two");
  for (size_t i = 0; i < one.size(); ++i) CHECK(of_two[i] == Approx(one[i]).margin(1e-5));
}

}  // namespace trainer

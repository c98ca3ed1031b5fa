// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/teacher.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "core/base/checksum.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/recipe/assemble.h"
#include "core/run/trained_files.h"
#include "core/run/weights.h"
#include "core/step/forward.h"

namespace trainer {
namespace {

bool are_equal(const PixelMap& a, const PixelMap& b) {
  return a.scale == b.scale && a.offset == b.offset;
}

/// The teacher sees the student's images: numbers that it was not trained on would make it useless in
/// silence.
void check_pixels(const Recipe& teacher, const Recipe& recipe, const Origin& origin) {
  if (recipe.model.kind() != InputKind::pixels || teacher.model.input != recipe.model.input) return;
  const int64_t channels = recipe.model.input[0];
  const auto map_of = [&](const Recipe& of, Split split) {
    return pixel_map(of.data.images.transform_list(split), channels);
  };
  if (are_equal(map_of(teacher, Split::train), map_of(recipe, Split::train))) return;
  fail_at(origin,
          "the teacher was trained on images that are normalised otherwise; write its normalize into "
          "data.augment and data.eval_transform");
}

std::filesystem::path weights_of(const Teacher& teacher) {
  return find_trained(teacher.weights).model;
}

std::shared_ptr<const Recipe> teacher_recipe(const Recipe& recipe) {
  const Teacher* teacher = recipe.loss->teacher();
  if (teacher == nullptr) return nullptr;
  const std::string& path = teacher->recipe;
  if (!is_there(path)) {
    fail_at(recipe.origin_of("loss.teacher.recipe"),
            fmt::format("there is no {}", one_line(with_base(teacher->recipe, path))));
  }
  return Recipe::load(path, {});
}

Program prediction_of(const std::shared_ptr<const Recipe>& teacher, int64_t samples) {
  return forward_program(RunSpec(teacher).with_micro_batch(samples), {.purpose = Purpose::predict});
}

}  // namespace

std::shared_ptr<const Program> teacher_program(const RunSpec& run) {
  const std::shared_ptr<const Recipe> teacher = teacher_recipe(run.recipe());
  if (teacher == nullptr) return nullptr;
  check_pixels(*teacher, run.recipe(), run.recipe().origin_of("loss.teacher.recipe"));
  return std::make_shared<const Program>(prediction_of(teacher, run.batch().micro_batch));
}

std::string load_teacher(const RunSpec& run, Executable& executable) {
  const std::shared_ptr<const Recipe> teacher = teacher_recipe(run.recipe());
  if (teacher == nullptr) return "";
  const std::filesystem::path path = weights_of(*run.recipe().loss->teacher());
  load_constants(executable, prediction_of(teacher, 1).tensors, kTeacherPrefix, path,
                 teacher->model.tied_weights());
  return fmt::format("teacher: {}", one_line(path.string()));
}

std::string teacher_checksum(const Recipe& recipe) {
  const Teacher* teacher = recipe.loss->teacher();
  if (teacher == nullptr) return "";
  const std::filesystem::path path = weights_of(*teacher);
  const FileDescriptor file = open_regular(path);
  const int64_t bytes = file_bytes(file.get(), path);
  std::vector<std::byte> piece(size_t{1} << 20);
  Checksum sum;
  for (int64_t at = 0; at < bytes; at += std::ssize(piece)) {
    const auto part = std::span(piece).first(static_cast<size_t>(std::min(std::ssize(piece), bytes - at)));
    read_exactly(file.get(), path, at, part);
    sum.add(part);
  }
  const std::string network = to_text(prediction_of(teacher_recipe(recipe), 1));
  return fmt::format("xxh3 {:016x}, network {:016x}", sum.value(),
                     checksum(std::as_bytes(std::span(network.data(), network.size()))));
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/input_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/config/scalar_values.h"

namespace trainer {

PartRange InputPart::of(int64_t inputs) const {
  // The first `more` parts have one input more than the others.
  const int64_t each = inputs / parts, more = inputs % parts;
  return {.first = (number - 1) * each + std::min(number - 1, more),
          .count = each + (number <= more ? 1 : 0)};
}

InputPart parse_part(const std::string& text) {
  InputPart part;
  const size_t slash = std::min(text.find('/'), text.size());
  const bool is_read = slash < text.size() &&
                       parse_whole(text.substr(0, slash), part.number) == std::errc() &&
                       parse_whole(text.substr(slash + 1), part.parts) == std::errc();
  if (is_read && part.number >= 1 && part.number <= part.parts) return part;
  throw Error(ExitCode::usage,
              fmt::format("--part: expected I/N with I from 1 to N, as in 2/8, got '{}'; an array job with "
                          "--array=1-8 passes --part $SLURM_ARRAY_TASK_ID/8",
                          one_line(text)));
}

}  // namespace trainer

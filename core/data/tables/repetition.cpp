// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/repetition.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainer {
namespace {

std::string of_classes(const TableSource& source) {
  const Table& table = source.table();
  const size_t place = table.columns.all[*table.columns.label].place;
  int64_t right = 0;
  for (int64_t sample = 0; sample < source.size(); ++sample) {
    const int32_t last = table.codes_of(source.samples().last_row(sample))[place];
    if (last == table.codes_of(source.samples().target_row(sample))[place]) ++right;
  }
  return fmt::format("top1 {:.4f}", static_cast<double>(right) / static_cast<double>(source.size()));
}

}  // namespace

std::string repetition_text(const TableSource& source) {
  const Table& table = source.table();
  const TableColumns& columns = table.columns;
  if (!source.samples().windows || source.size() == 0) return "";
  if (columns.label) return of_classes(source);
  const std::vector<TablePreparation::Target>& targets = source.how().targets;
  if (targets.empty()) return "";
  double absolute = 0, squared = 0;
  for (size_t c = 0; c < targets.size(); ++c) {
    const size_t place = columns.all[columns.targets[c]].place;
    for (int64_t sample = 0; sample < source.size(); ++sample) {
      const float last = table.numbers_of(source.samples().last_row(sample))[place];
      const float target = table.numbers_of(source.samples().target_row(sample))[columns.target_place(c)];
      const double repeated = last == last ? last : source.how().numbers[place].fill,
                   error = (target - repeated) / targets[c].deviation;
      absolute += std::abs(error);
      squared += error * error;
    }
  }
  const double unit = targets.size() == 1 ? targets[0].deviation : 1,
               count = static_cast<double>(source.size()) * static_cast<double>(targets.size());
  return fmt::format("mae {:.6g}, rmse {:.6g}", unit * absolute / count, unit * std::sqrt(squared / count));
}

}  // namespace trainer

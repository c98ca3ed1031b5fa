// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/data/batch.h"
#include "core/data/row_reader.h"
#include "core/data/section.h"
#include "core/data/tables/source.h"
#include "core/graph/names.h"

namespace trainer {

/// What batches have of a sample.
struct ReadSample {
  std::vector<float> numbers, targets;
  std::vector<int32_t> categories;
};

inline ReadSample read_sample(const TableSource& source, int64_t sample) {
  const DataSection section;
  const BatchInputs inputs = {
      {.name = input_name::kFeatures, .dtype = DType::f32, .row = source.sample_shape()},
      {.name = input_name::kCategories,
       .dtype = DType::i32,
       .row = {static_cast<int64_t>(source.how().categories.size())}},
      {.name = input_name::kTargets,
       .dtype = DType::f32,
       .row = {static_cast<int64_t>(source.how().targets.size())}}};
  const auto reader = source.rows({.section = section,
                                   .split = Split::val,
                                   .network_shape = source.sample_shape(),
                                   .network_origin = {},
                                   .inputs = inputs});
  std::vector<std::byte> memory(static_cast<size_t>(batch_bytes(inputs, 1)));
  const Batch batch(memory.data(), inputs, 1);
  const auto own = reader->make_memory();
  reader->read({.sample = sample}, batch, 0, *own);
  const auto values = [&]<class T>(size_t input, std::vector<T>& into) {
    const T* const first = batch.row<T>(input, 0);
    into.assign(first, first + numel(inputs[input].row));
  };
  ReadSample found;
  values(0, found.numbers);
  values(1, found.categories);
  values(2, found.targets);
  return found;
}

}  // namespace trainer

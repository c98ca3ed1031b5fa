// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/synthetic.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/rng.h"
#include "core/data/row_reader.h"
#include "core/graph/names.h"

namespace trainer {
namespace {

struct NumbersMemory final : RowMemory {
  std::vector<float> numbers;
};

/// The sum of every `of`-th number, from this one on.
float sum_of(std::span<const float> numbers, size_t first, size_t of) {
  float sum = 0;
  for (size_t i = first; i < numbers.size(); i += of) sum += numbers[i];
  return sum;
}

void draw_numbers(uint64_t key, int64_t sample, std::span<float> numbers) {
  RandomStream draw(key, static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32));
  for (float& number : numbers) number = 2 * draw.next_uniform() - 1;
}

uint64_t key_of(uint64_t seed, Split split) {
  return random_key(seed, split == Split::train ? "synthetic train features" : "synthetic val features");
}

class SyntheticRows final : public RowReader {
 public:
  SyntheticRows(uint64_t key, int64_t numbers, int64_t classes, bool label_sets, const BatchInputs& inputs)
      : key_(key),
        numbers_(static_cast<size_t>(numbers)),
        classes_(static_cast<size_t>(std::max<int64_t>(classes, 1))),
        label_sets_(label_sets),
        features_(find_input(inputs, input_name::kFeatures)),
        categories_(find_input(inputs, input_name::kCategories)),
        labels_(find_input(inputs, input_name::kLabels)),
        targets_(find_input(inputs, input_name::kTargets)),
        row_categories_(categories_ ? inputs[*categories_].row[0] : 0),
        row_targets_(targets_ ? static_cast<size_t>(inputs[*targets_].row[0]) : 0) {}

  std::unique_ptr<RowMemory> make_memory() const override {
    auto memory = std::make_unique<NumbersMemory>();
    memory->numbers.resize(numbers_);
    return memory;
  }

  void read(const RowPlace& place, const Batch& batch, int64_t row, RowMemory& memory) const override {
    std::vector<float>& numbers = static_cast<NumbersMemory&>(memory).numbers;
    draw_numbers(key_, place.sample, numbers);
    if (features_) std::ranges::copy(numbers, batch.row<float>(*features_, row));
    if (categories_) std::fill_n(batch.row<int32_t>(*categories_, row), row_categories_, 0);
    if (labels_) *batch.row<int32_t>(*labels_, row) = label(numbers);
    for (size_t c = 0; c < row_targets_; ++c) {
      const float sum = sum_of(numbers, c, row_targets_);
      batch.row<float>(*targets_, row)[c] = label_sets_ ? static_cast<float>(sum > 0) : sum;
    }
  }

 private:
  int32_t label(std::span<const float> numbers) const {
    size_t best = 0;
    for (size_t c = 1; c < classes_; ++c)
      if (sum_of(numbers, c, classes_) > sum_of(numbers, best, classes_)) best = c;
    return static_cast<int32_t>(best);
  }

  uint64_t key_;
  size_t numbers_, classes_;
  bool label_sets_;
  std::optional<size_t> features_, categories_, labels_, targets_;
  int64_t row_categories_;
  size_t row_targets_;
};

class SyntheticFeatures final : public DataSource {
 public:
  SyntheticFeatures(uint64_t key, int64_t size, Shape shape, int64_t classes, bool label_sets)
      : key_(key), size_(size), shape_(std::move(shape)), classes_(classes), label_sets_(label_sets) {}

  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return shape_; }
  int64_t classes() const override { return classes_; }
  int64_t resident_bytes() const override { return 0; }
  void check_labels(const AllowedLabels&) const override {}
  std::unique_ptr<RowReader> rows(const RowRequest& request) const override {
    return std::make_unique<SyntheticRows>(key_, numel(shape_), classes_, label_sets_, request.inputs);
  }

 private:
  uint64_t key_;
  int64_t size_;
  Shape shape_;
  int64_t classes_;
  bool label_sets_;
};

}  // namespace

std::unique_ptr<DataSource> make_synthetic_features(uint64_t seed, Split split, int64_t size, Shape shape,
                                                    int64_t classes, bool label_sets) {
  return std::make_unique<SyntheticFeatures>(key_of(seed, split), size, std::move(shape), classes,
                                             label_sets);
}

TargetSpread synthetic_spread(uint64_t seed, Split split, int64_t size, const Shape& shape, int64_t targets) {
  const uint64_t key = key_of(seed, split);
  const auto count = static_cast<size_t>(targets);
  std::vector<float> numbers(static_cast<size_t>(numel(shape)));
  std::vector<double> sums(count), squares(count);
  for (int64_t sample = 0; sample < size; ++sample) {
    draw_numbers(key, sample, numbers);
    for (size_t c = 0; c < count; ++c) {
      const double value = sum_of(numbers, c, count);
      sums[c] += value;
      squares[c] += value * value;
    }
  }
  double all = 0;
  for (size_t c = 0; c < count; ++c) all += squares[c] - sums[c] * sums[c] / static_cast<double>(size);
  return {.deviation = 1, .squares = all / static_cast<double>(targets)};
}

}  // namespace trainer

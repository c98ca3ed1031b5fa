// SPDX-License-Identifier: Apache-2.0
#include "core/data/subset.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/data/order.h"

namespace trainer {
namespace {

class SubsetSource final : public DataSource {
 public:
  SubsetSource(std::unique_ptr<DataSource> source, std::vector<int64_t> samples)
      : source_(std::move(source)), samples_(std::move(samples)) {}

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  Shape sample_shape() const override { return source_->sample_shape(); }
  int64_t classes() const override { return source_->classes(); }
  void read(int64_t index, Image& into) const override { source_->read(sample(index), into); }
  void read_view(int64_t index, const ViewChooser& chooser, Image& into) const override {
    source_->read_view(sample(index), chooser, into);
  }
  std::vector<std::string> class_names() const override { return source_->class_names(); }
  std::string sample_file(int64_t index) const override { return source_->sample_file(sample(index)); }
  bool is_encoded() const override { return source_->is_encoded(); }
  void read_encoded(int64_t index, Image& into) const override { source_->read_encoded(sample(index), into); }
  int64_t resident_bytes() const override {
    return source_->resident_bytes() + static_cast<int64_t>(samples_.capacity() * sizeof(int64_t));
  }
  void check_labels(int64_t classes) const override { source_->check_labels(classes); }
  void map_labels(const Image& image, int32_t* map) const override { source_->map_labels(image, map); }

 private:
  int64_t sample(int64_t index) const { return samples_[static_cast<size_t>(index)]; }

  std::unique_ptr<DataSource> source_;
  std::vector<int64_t> samples_;
};

}  // namespace

int64_t validation_count(int64_t size, double fraction) {
  if (size < 2) throw Error(ExitCode::data, "data.val_fraction: one sample cannot be divided in two");
  return std::clamp<int64_t>(std::llround(fraction * static_cast<double>(size)), 1, size - 1);
}

/// The first places of a shuffled order of their own, so that the choice does not depend on epochs.
std::unique_ptr<DataSource> take_split(std::unique_ptr<DataSource> source, Split split, double fraction,
                                       uint64_t seed) {
  const int64_t size = source->size(), of_validation = validation_count(size, fraction);
  const uint64_t order = random_key(seed, "validation split");
  const int64_t begin = split == Split::val ? 0 : of_validation;
  const int64_t end = split == Split::val ? of_validation : size;
  std::vector<int64_t> samples;
  samples.reserve(static_cast<size_t>(end - begin));
  for (int64_t i = begin; i < end; ++i) samples.push_back(shuffled_index(order, 0, i, size));
  std::sort(samples.begin(), samples.end());
  return std::make_unique<SubsetSource>(std::move(source), std::move(samples));
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/subset.h"

#include <span>
#include <utility>

#include "core/data/exclude.h"

namespace trainer {
namespace {

class SubsetSource final : public ImageSource {
 public:
  SubsetSource(std::unique_ptr<ImageSource> source, std::vector<int64_t> samples,
               std::vector<int64_t> excluded)
      : source_(std::move(source)), samples_(std::move(samples)), excluded_(std::move(excluded)) {
    samples_.shrink_to_fit();  // they stay for the whole run
    excluded_.shrink_to_fit();
  }

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  Shape sample_shape() const override { return source_->sample_shape(); }
  int64_t classes() const override { return source_->classes(); }
  /// Prefetches the whole range only if at least half of it is in this subset, as it is in the training
  /// split.
  void expect(int64_t first, int64_t count) const override {
    const int64_t begin = sample(first), last = sample(first + count - 1);
    if (last >= begin && last - begin < 2 * count) source_->expect(begin, last - begin + 1);
  }
  void read(int64_t index, Image& into) const override { source_->read(sample(index), into); }
  void read_view(int64_t index, const ViewChooser& chooser, Image& into) const override {
    source_->read_view(sample(index), chooser, into);
  }
  std::vector<std::string> class_names() const override { return source_->class_names(); }
  std::string sample_file(int64_t index) const override { return source_->sample_file(sample(index)); }
  std::optional<int32_t> label_of(int64_t index) const override { return source_->label_of(sample(index)); }
  std::string exclude_name(int64_t index) const override { return source_->exclude_name(sample(index)); }
  /// Of the whole without the excluded samples.
  Fingerprint fingerprint() const override {
    Fingerprint found = source_->fingerprint();
    leave_out(excluded_, source_->size(), found);
    return found;
  }
  bool is_encoded() const override { return source_->is_encoded(); }
  void read_encoded(int64_t index, Image& into) const override { source_->read_encoded(sample(index), into); }
  int64_t resident_bytes() const override {
    return source_->resident_bytes() +
           static_cast<int64_t>((samples_.capacity() + excluded_.capacity()) * sizeof(int64_t));
  }
  void check_labels(const AllowedLabels& allowed) const override { source_->check_labels(allowed); }
  void map_labels(const Image& image, int32_t* map) const override { source_->map_labels(image, map); }
  std::optional<uint8_t> ignored_pixel() const override { return source_->ignored_pixel(); }
  void read_encoded_mask(int64_t index, Image& into) const override {
    source_->read_encoded_mask(sample(index), into);
  }
  bool has_label_sets() const override { return source_->has_label_sets(); }
  std::span<const int32_t> label_set(const Image& image) const override { return source_->label_set(image); }

 private:
  int64_t sample(int64_t index) const { return samples_[static_cast<size_t>(index)]; }

  std::unique_ptr<ImageSource> source_;
  std::vector<int64_t> samples_, excluded_;
};

}  // namespace

std::unique_ptr<ImageSource> take_samples(std::unique_ptr<ImageSource> source, std::vector<int64_t> samples,
                                          std::vector<int64_t> excluded) {
  return std::make_unique<SubsetSource>(std::move(source), std::move(samples), std::move(excluded));
}

}  // namespace trainer

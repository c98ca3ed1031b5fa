// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/tolerant.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/checksum.h"

namespace trainer {
namespace {

class TolerantSource final : public ImageSource {
 public:
  TolerantSource(std::unique_ptr<ImageSource> source, const ErrorBudget& budget, std::vector<double> weights)
      : source_(std::move(source)), reads_(budget, source_->size()), weights_(std::move(weights)) {}

  int64_t size() const override { return source_->size(); }
  Shape sample_shape() const override { return source_->sample_shape(); }
  int64_t classes() const override { return source_->classes(); }
  int64_t resident_bytes() const override {
    return source_->resident_bytes() + static_cast<int64_t>(weights_.capacity() * sizeof(double));
  }
  std::span<const double> sample_weights() const override { return weights_; }
  std::vector<std::string> class_names() const override { return source_->class_names(); }
  std::optional<int32_t> label_of(int64_t index) const override { return source_->label_of(index); }
  Fingerprint fingerprint() const override {
    Fingerprint found = source_->fingerprint();
    if (!weights_.empty())
      found[fingerprint_name::kWeights] =
          fmt::format("{:016x}", checksum(std::as_bytes(std::span(weights_))));
    return found;
  }
  void check_labels(const AllowedLabels& allowed) const override { source_->check_labels(allowed); }
  void map_labels(const Image& image, int32_t* map) const override { source_->map_labels(image, map); }
  std::optional<uint8_t> ignored_pixel() const override { return source_->ignored_pixel(); }
  bool has_label_sets() const override { return source_->has_label_sets(); }
  std::span<const int32_t> label_set(const Image& image) const override { return source_->label_set(image); }

  void expect(int64_t first, int64_t count) const override { source_->expect(first, count); }
  void read(int64_t index, Image& into) const override {
    reads_.first_readable(index, [&](int64_t sample) { source_->read(sample, into); });
  }
  void read_view(int64_t index, const ViewChooser& chooser, Image& into) const override {
    reads_.first_readable(index, [&](int64_t sample) { source_->read_view(sample, chooser, into); });
  }
  std::vector<UnreadableSample> take_unreadable() const override { return reads_.take(); }
  std::vector<int64_t> unreadable() const override { return reads_.known(); }
  void count_unreadable(const std::vector<int64_t>& samples) override { reads_.count(samples); }

 private:
  std::unique_ptr<ImageSource> source_;
  mutable BudgetedReads reads_;
  std::vector<double> weights_;  // of each sample, or none
};

}  // namespace

std::unique_ptr<ImageSource> tolerate_unreadable(std::unique_ptr<ImageSource> source,
                                                 const ErrorBudget& budget, std::vector<double> weights) {
  return std::make_unique<TolerantSource>(std::move(source), budget, std::move(weights));
}

}  // namespace trainer

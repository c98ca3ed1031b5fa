// SPDX-License-Identifier: Apache-2.0
#include "core/data/tolerant.h"

#include <fmt/core.h>

#include <mutex>
#include <unordered_set>
#include <utility>

#include "core/base/error.h"

namespace trainer {
namespace {

/// What is known to be unreadable is tried again each time: whether a damaged file can be read may depend on
/// the view, and only then is each sample a function of (seed, epoch, index) whatever was read before.
class TolerantSource final : public DataSource {
 public:
  TolerantSource(std::unique_ptr<DataSource> source, ErrorBudget budget)
      : source_(std::move(source)), budget_(std::move(budget)) {}

  int64_t size() const override { return source_->size(); }
  Shape sample_shape() const override { return source_->sample_shape(); }
  int64_t classes() const override { return source_->classes(); }
  int64_t resident_bytes() const override { return source_->resident_bytes(); }
  void check_labels(int64_t classes) const override { source_->check_labels(classes); }
  void map_labels(const Image& image, int32_t* map) const override { source_->map_labels(image, map); }

  void read(int64_t index, Image& into) const override {
    read_first(index, [&](int64_t sample) { source_->read(sample, into); });
  }
  void read_view(int64_t index, const ViewChooser& chooser, Image& into) const override {
    read_first(index, [&](int64_t sample) { source_->read_view(sample, chooser, into); });
  }

  std::vector<UnreadableSample> take_unreadable() const override {
    const std::lock_guard lock(mutex_);
    return std::exchange(fresh_, {});
  }

 private:
  template <class Read>
  void read_first(int64_t index, const Read& read) const {
    for (int64_t i = 0; i < size(); ++i) {
      const int64_t sample = (index + i) % size();
      try {
        read(sample);
        return;
      } catch (const UnreadableSampleError& error) {
        note(sample, error.sample());
      }
    }
    throw Error(ExitCode::data,
                fmt::format("{}: none of {} samples can be read{}", budget_.split, size(), list()));
  }

  void note(int64_t sample, const UnreadableSample& found) const {
    const std::lock_guard lock(mutex_);
    if (known_.insert(sample).second) fresh_.push_back(found);
    if (static_cast<double>(known_.size()) * 100 <= budget_.percent * static_cast<double>(size())) return;
    throw Error(ExitCode::data,
                fmt::format("{}: {} of {} samples cannot be read, more than data.error_budget, {} %{}",
                            budget_.split, known_.size(), size(), budget_.percent, list()));
  }

  std::string list() const {
    return budget_.list_file.empty() ? "" : "; they are listed in " + budget_.list_file;
  }

  std::unique_ptr<DataSource> source_;
  ErrorBudget budget_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::unordered_set<int64_t> known_;
  mutable std::vector<UnreadableSample> fresh_;
};

}  // namespace

std::unique_ptr<DataSource> tolerate_unreadable(std::unique_ptr<DataSource> source,
                                                const ErrorBudget& budget) {
  return std::make_unique<TolerantSource>(std::move(source), budget);
}

}  // namespace trainer

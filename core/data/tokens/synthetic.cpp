// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/synthetic.h"

#include <algorithm>

#include "core/base/rng.h"
#include "core/data/tokens/windows.h"

namespace trainer {
namespace {

/// Few enough tokens that a network learns each one's successor within some hundred steps.
constexpr int64_t kMostTokens = 64;

/// Windows in which three of four tokens are followed by a fixed successor, which the seed determines, and
/// the others by any token.
class SyntheticTokens final : public DataSource {
 public:
  SyntheticTokens(uint64_t seed, Split split, int64_t size, int64_t length, int64_t vocabulary)
      : size_(size),
        length_(length),
        vocabulary_(vocabulary),
        key_(random_key(seed, split == Split::train ? "synthetic train tokens" : "synthetic val tokens")) {
    RandomStream draw(random_key(seed, "synthetic successors"));
    followers_.resize(static_cast<size_t>(std::min(vocabulary, kMostTokens)));
    for (int32_t& follower : followers_) follower = any(draw);
  }

  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return {length_}; }
  int64_t classes() const override { return vocabulary_; }
  int64_t resident_bytes() const override { return 0; }
  void check_labels(const AllowedLabels&) const override {}

  std::unique_ptr<RowReader> rows(const RowRequest& request) const override {
    const auto read = [this](const RowPlace& place, std::span<int32_t> window) {
      RandomStream draw(key_, static_cast<uint32_t>(place.sample), static_cast<uint32_t>(place.sample >> 32));
      window[0] = any(draw);
      for (size_t t = 1; t < window.size(); ++t)
        window[t] = draw.next_below(4) == 0 ? any(draw) : followers_[static_cast<size_t>(window[t - 1])];
    };
    return window_rows(read, length_, std::nullopt, request.inputs);
  }

 private:
  int32_t any(RandomStream& draw) const {
    return static_cast<int32_t>(draw.next_below(static_cast<int64_t>(followers_.size())));
  }

  int64_t size_, length_, vocabulary_;
  uint64_t key_;
  std::vector<int32_t> followers_;  ///< of each token
};

}  // namespace

std::unique_ptr<DataSource> make_synthetic_tokens(uint64_t seed, Split split, int64_t size, int64_t length,
                                                  int64_t vocabulary) {
  return std::make_unique<SyntheticTokens>(seed, split, size, length, vocabulary);
}

}  // namespace trainer

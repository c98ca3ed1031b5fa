// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace trainer {

/// What a rank wants all ranks to do. Ranks are combined field by field: what one wants, all do.
struct Vote {
  bool stop = false;  ///< save and end
  bool save = false;  ///< save and continue
  bool fail = false;  ///< end without saving: this rank cannot continue
  bool operator==(const Vote&) const = default;
};

constexpr Vote operator|(const Vote& a, const Vote& b) {
  return {.stop = a.stop || b.stop, .save = a.save || b.save, .fail = a.fail || b.fail};
}

/// The processes that train one network together. Rounds are numbered from 0; every rank votes once in each
/// and asks once for its result, both in order, at most kMostOpenRounds behind its votes.
class Communicator {
 public:
  static constexpr int64_t kMostOpenRounds = 8;

  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t ranks() const = 0;

  /// Does not wait.
  virtual void vote(int64_t round, const Vote& own) = 0;
  /// The votes of all ranks, combined. Waits for those that have not voted yet.
  virtual Vote result(int64_t round) = 0;
};

/// One rank alone: its vote is the result. Allocates nothing.
class OneRank final : public Communicator {
 public:
  int64_t rank() const override { return 0; }
  int64_t ranks() const override { return 1; }
  void vote(int64_t round, const Vote& own) override { place(round) = own; }
  Vote result(int64_t round) override { return place(round); }

 private:
  Vote& place(int64_t round) { return votes_[static_cast<size_t>(round % kMostOpenRounds)]; }

  std::array<Vote, kMostOpenRounds> votes_;
};

}  // namespace trainer

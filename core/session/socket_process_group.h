// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/engine/process_group.h"
#include "core/ranks/peer_connections.h"

namespace trainer {

/// A group whose votes and exchanges travel over the peer connections. Its devices have their own
/// collectives, as GPUs have by NCCL.
class SocketProcessGroup final : public ProcessGroup {
 public:
  explicit SocketProcessGroup(const RankIdentity& identity) : identity_(identity) {}
  /// Before anything else. `peers` outlives this.
  void use(PeerConnections& peers) { peers_ = &peers; }

  int64_t rank() const override { return identity_.rank; }
  int64_t size() const override { return identity_.ranks; }
  void vote(int64_t round, const Vote& own) override;
  Vote result(int64_t round) override;
  void all_reduce(std::span<double> numbers) override;
  void broadcast(std::span<std::byte> bytes, int64_t root) override;

 private:
  std::vector<std::string> wait_all_gather(int64_t round);
  std::vector<std::string> all_gather(const std::string& own);

  RankIdentity identity_;
  PeerConnections* peers_ = nullptr;
  std::array<int64_t, kMaxOpenRounds> votes_{};  ///< which all-gather carries the votes of a round
};

}  // namespace trainer

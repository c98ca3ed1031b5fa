// SPDX-License-Identifier: Apache-2.0
#include "core/session/socket_process_group.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace trainer {
namespace {

/// Rank 0 holds a piece for each rank.
constexpr size_t kPiece = size_t{1} << 20;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Throws std::logic_error if ranks call different things.
void copy_from(const std::string& text, std::span<std::byte> bytes) {
  if (text.size() != bytes.size()) throw std::logic_error("ranks exchange data of different sizes");
  std::memcpy(bytes.data(), text.data(), text.size());
}

struct WireVote {
  uint8_t stop, save, exchange, fail;
};

}  // namespace

std::vector<std::string> SocketProcessGroup::wait_all_gather(int64_t round) {
  const Wait waits(*this);
  return peers_->wait_all_gather(round);
}

std::vector<std::string> SocketProcessGroup::all_gather(const std::string& own) {
  return wait_all_gather(peers_->start_all_gather(own));
}

void SocketProcessGroup::vote(int64_t round, const Vote& own) {
  const WireVote vote{own.stop, own.save, own.exchange, static_cast<uint8_t>(own.fail)};
  votes_[static_cast<size_t>(round % kMaxOpenRounds)] =
      peers_->start_all_gather(text_of(std::as_bytes(std::span(&vote, 1))));
}

Vote SocketProcessGroup::result(int64_t round) {
  Vote all;
  for (const std::string& text : wait_all_gather(votes_[static_cast<size_t>(round % kMaxOpenRounds)])) {
    WireVote vote{};
    copy_from(text, std::as_writable_bytes(std::span(&vote, 1)));
    all = all | Vote{.stop = vote.stop != 0,
                     .save = vote.save != 0,
                     .exchange = vote.exchange != 0,
                     .fail = vote.fail};
  }
  return all;
}

void SocketProcessGroup::all_reduce(std::span<double> numbers) {
  // The answer has every rank's numbers in one frame.
  const size_t most = std::max<size_t>(1, kPiece / sizeof(double) / static_cast<size_t>(size()));
  std::vector<double> others;
  for (size_t done = 0; done < numbers.size(); done += others.size()) {
    const std::span<double> piece = numbers.subspan(done, std::min(most, numbers.size() - done));
    const std::vector<std::string> texts = all_gather(text_of(std::as_bytes(piece)));
    others.resize(piece.size());
    std::ranges::fill(piece, 0);
    for (const std::string& text : texts) {
      copy_from(text, std::as_writable_bytes(std::span(others)));
      for (size_t i = 0; i < piece.size(); ++i) piece[i] += others[i];
    }
  }
}

void SocketProcessGroup::broadcast(std::span<std::byte> bytes, int64_t root) {
  for (size_t done = 0; done < bytes.size(); done += kPiece) {
    const std::span<std::byte> piece = bytes.subspan(done, std::min(kPiece, bytes.size() - done));
    copy_from(all_gather(rank() == root ? text_of(piece) : "").at(static_cast<size_t>(root)), piece);
  }
}

}  // namespace trainer

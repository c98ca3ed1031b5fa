// SPDX-License-Identifier: Apache-2.0
#include "core/session/control_communicator.h"

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

/// Throws std::logic_error if ranks do not do the same.
void copy_from(const std::string& text, std::span<std::byte> bytes) {
  if (text.size() != bytes.size()) throw std::logic_error("ranks share something of different sizes");
  std::memcpy(bytes.data(), text.data(), text.size());
}

[[noreturn]] void refuse_step() {
  throw std::logic_error("the control connections carry nothing of a step");
}

struct WireVote {
  uint8_t stop, save, tell, fail;
};

}  // namespace

std::vector<std::string> ControlCommunicator::take(int64_t given) {
  const Wait waits(*this);
  return control_->take(given);
}

void ControlCommunicator::vote(int64_t round, const Vote& own) {
  const WireVote vote{own.stop, own.save, own.tell, static_cast<uint8_t>(own.fail)};
  votes_[static_cast<size_t>(round % kMostOpenRounds)] =
      control_->give(text_of(std::as_bytes(std::span(&vote, 1))));
}

Vote ControlCommunicator::result(int64_t round) {
  Vote all;
  for (const std::string& text : take(votes_[static_cast<size_t>(round % kMostOpenRounds)])) {
    WireVote vote{};
    copy_from(text, std::as_writable_bytes(std::span(&vote, 1)));
    all =
        all | Vote{.stop = vote.stop != 0, .save = vote.save != 0, .tell = vote.tell != 0, .fail = vote.fail};
  }
  return all;
}

void ControlCommunicator::start_sum(int64_t, std::span<const std::span<float>>) {
  refuse_step();
}

void ControlCommunicator::finish_sum(int64_t) {
  refuse_step();
}

void ControlCommunicator::start_broadcast(int64_t, std::span<const std::span<float>>) {
  refuse_step();
}

void ControlCommunicator::finish_broadcast(int64_t) {
  refuse_step();
}

void ControlCommunicator::add_up(std::span<double> numbers) {
  // What comes back has every rank's numbers in one frame.
  const size_t most = std::max<size_t>(1, kPiece / sizeof(double) / static_cast<size_t>(ranks()));
  std::vector<double> others;
  for (size_t done = 0; done < numbers.size(); done += others.size()) {
    const std::span<double> piece = numbers.subspan(done, std::min(most, numbers.size() - done));
    const std::vector<std::string> texts = take(control_->give(text_of(std::as_bytes(piece))));
    others.resize(piece.size());
    std::ranges::fill(piece, 0);
    for (const std::string& text : texts) {
      copy_from(text, std::as_writable_bytes(std::span(others)));
      for (size_t i = 0; i < piece.size(); ++i) piece[i] += others[i];
    }
  }
}

void ControlCommunicator::broadcast(std::span<std::byte> bytes, int64_t from) {
  for (size_t done = 0; done < bytes.size(); done += kPiece) {
    const std::span<std::byte> piece = bytes.subspan(done, std::min(kPiece, bytes.size() - done));
    const std::vector<std::string> texts = take(control_->give(rank() == from ? text_of(piece) : ""));
    copy_from(texts.at(static_cast<size_t>(from)), piece);
  }
}

}  // namespace trainer

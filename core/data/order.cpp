// SPDX-License-Identifier: Apache-2.0
#include "core/data/order.h"

#include <fmt/core.h>

#include <bit>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace trainer {
namespace {

/// Four rounds make a Feistel network pseudo-random (Luby and Rackoff, 1988) if its halves are wide.
/// Halves of a bit or two favour some orders until there are sixteen (chi-square over the places of a
/// sample).
uint32_t feistel_rounds(int bits) {
  return bits < 10 ? 16 : 6;
}

}  // namespace

/// A Feistel network with parts that may differ in width by a bit permutes [0, 2^bits). Following the cycle
/// until it returns below `size` gives a permutation of [0, size): two steps on average, as size > 2^bits /
/// 2.
int64_t shuffled_index(uint64_t seed, int64_t epoch, int64_t index, int64_t size) {
  const uint64_t key = random_key(seed, "shuffle"), period = static_cast<uint64_t>(epoch);
  const int bits = std::bit_width(static_cast<uint64_t>(size - 1)), low_bits = bits / 2;
  const uint64_t low_mask = (uint64_t{1} << low_bits) - 1, high_mask = (uint64_t{1} << (bits - low_bits)) - 1;
  const uint32_t rounds = feistel_rounds(bits);
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t low = value & low_mask, high = value >> low_bits;
    for (uint32_t round = 0; round < rounds; ++round) {
      const auto half = static_cast<uint32_t>(round % 2 == 0 ? low : high);
      const uint32_t mixed =
          philox(key, {{half, round, static_cast<uint32_t>(period), static_cast<uint32_t>(period >> 32)}})
              .v[0];
      if (round % 2 == 0) {
        high ^= mixed & high_mask;
      } else {
        low ^= mixed & low_mask;
      }
    }
    value = high << low_bits | low;
  } while (value >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(value);
}

TrainingOrder::TrainingOrder(int64_t size, int64_t global_batch, bool drop_last,
                             std::shared_ptr<const SampleDraw> draw)
    : size_(size), global_batch_(global_batch), drop_last_(drop_last), draw_(std::move(draw)) {
  if (size < 1 || global_batch < 1) throw std::logic_error("an order needs samples and a batch size");
  if (drop_last && size < global_batch) {
    throw Error(ExitCode::recipe,
                fmt::format("training.global_batch_size: must be at most {}, the training samples, got {}; "
                            "lower it or set data.drop_last=false",
                            size, global_batch));
  }
}

TrainingOrder::Position TrainingOrder::at(int64_t step, int64_t i) const {
  if (drop_last_) {
    const int64_t steps = size_ / global_batch_;
    return {step / steps, step % steps * global_batch_ + i};
  }
  const int64_t sample = step * global_batch_ + i;
  return {sample / size_, sample % size_};
}

int64_t TrainingOrder::sample(uint64_t seed, const Position& position) const {
  return draw_ == nullptr ? shuffled_index(seed, position.epoch, position.index, size_)
                          : draw_->sample(seed, position.epoch, position.index);
}

RowPlace shuffled_place(uint64_t seed, const TrainingOrder& order, int64_t step, int64_t index) {
  const TrainingOrder::Position position = order.at(step, index);
  const int64_t sample = order.sample(seed, position);
  return {.step = step,
          .index = index,
          .sample = sample,
          .epoch = position.epoch,
          .draw = order.draws() ? position.index : sample};
}

int64_t TrainingOrder::steps_in(int64_t epochs) const {
  if (drop_last_) return product_or_most(epochs, size_ / global_batch_);
  const int64_t samples = product_or_most(epochs, size_);
  return samples / global_batch_ + (samples % global_batch_ == 0 ? 0 : 1);
}

int64_t TrainingOrder::steps_in(const Duration& duration, int64_t tokens_of_batch) const {
  return duration.unit == Duration::Unit::epochs ? steps_in(duration.count)
                                                 : batches_in(duration, {.tokens = tokens_of_batch});
}

}  // namespace trainer

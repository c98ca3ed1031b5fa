// SPDX-License-Identifier: Apache-2.0
#include "core/data/order.h"

#include <fmt/core.h>

#include <algorithm>
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

/// Where the blocks of an epoch are: `whole` of them from sample `begin` on, then the samples that are left,
/// all modulo the number of samples.
struct BlockPlaces {
  int64_t begin, whole;
};

BlockPlaces places_of_blocks(uint64_t seed, int64_t epoch, int64_t size, const ShuffleBlocks& blocks) {
  const auto period = static_cast<uint64_t>(epoch);
  const Words draw = philox(random_key(seed, "begin of blocks"),
                            {{0, 0, static_cast<uint32_t>(period), static_cast<uint32_t>(period >> 32)}});
  const uint64_t number = uint64_t{draw.v[1]} << 32 | draw.v[0];
  return {static_cast<int64_t>(number % static_cast<uint64_t>(size)), size / blocks.block};
}

/// The block at a place of an epoch's order of blocks.
int64_t block_at(uint64_t seed, int64_t epoch, int64_t place, int64_t whole) {
  return shuffled_index(random_key(seed, "order of blocks"), epoch, place, whole);
}

/// Of the order within a window.
uint64_t window_key(uint64_t seed, int64_t window) {
  const auto number = static_cast<uint64_t>(window);
  const Words draw = philox(random_key(seed, "order in a window"),
                            {{static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), 0, 0}});
  return uint64_t{draw.v[1]} << 32 | draw.v[0];
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

int64_t shuffled_in_blocks(uint64_t seed, int64_t epoch, int64_t index, int64_t size,
                           const ShuffleBlocks& blocks) {
  const BlockPlaces places = places_of_blocks(seed, epoch, size, blocks);
  const int64_t windows = std::max<int64_t>(1, (places.whole + blocks.window - 1) / blocks.window);
  // Less than a block is left after the last window of whole blocks, and belongs to it.
  const int64_t window = std::min(index / blocks.block / blocks.window, windows - 1);
  const int64_t first_block = window * blocks.window, first = first_block * blocks.block;
  const int64_t end = window == windows - 1 ? size : first + blocks.window * blocks.block;
  const int64_t within = shuffled_index(window_key(seed, window), epoch, index - first, end - first);
  const int64_t place = first_block + within / blocks.block;
  const int64_t block = place < places.whole ? block_at(seed, epoch, place, places.whole) : place;
  return (places.begin + block * blocks.block + within % blocks.block) % size;
}

TrainingOrder::TrainingOrder(int64_t size, int64_t global_batch, bool drop_last,
                             std::shared_ptr<const SampleDraw> draw, const ShuffleBlocks& blocks)
    : size_(size),
      global_batch_(global_batch),
      drop_last_(drop_last),
      draw_(std::move(draw)),
      blocks_(blocks) {
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
  const auto [epoch, index] = position;
  if (draw_ != nullptr) return draw_->sample(seed, epoch, index);
  return blocks_.any() ? shuffled_in_blocks(seed, epoch, index, size_, blocks_)
                       : shuffled_index(seed, epoch, index, size_);
}

void TrainingOrder::for_each_next_block(
    uint64_t seed, int64_t step, const std::function<void(int64_t first, int64_t count)>& expect) const {
  if (!blocks_.any() || draw_ != nullptr || size_ < blocks_.block) return;
  for (int64_t i = 0; i < global_batch_; ++i) {
    const Position now = at(step, i);
    if (now.index % blocks_.block != 0) continue;
    int64_t epoch = now.epoch, place = now.index / blocks_.block + blocks_.window;
    const int64_t whole = size_ / blocks_.block;
    if (place >= whole) place -= whole, ++epoch;
    if (place >= whole) continue;  // the window has all blocks
    const BlockPlaces places = places_of_blocks(seed, epoch, size_, blocks_);
    const int64_t first = (places.begin + block_at(seed, epoch, place, whole) * blocks_.block) % size_;
    expect(first, std::min(blocks_.block, size_ - first));
  }
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

// SPDX-License-Identifier: Apache-2.0
#include "core/engine/arena.h"

#include <algorithm>
#include "tests/catch.h"

#include "core/base/rng.h"
#include "core/engine/occupied_space.h"

using namespace trainer;

namespace {

std::vector<Lifetime> random_lifetimes(uint64_t seed) {
  RandomStream random(random_key(seed, "arena"));
  std::vector<Lifetime> lifetimes(static_cast<size_t>(1 + random.next_below(60)));
  const int64_t steps = 1 + random.next_below(50), largest = int64_t{1} << random.next_below(20);
  for (Lifetime& life : lifetimes) {
    life.bytes = random.next_below(largest + 1);
    life.first = random.next_below(steps);
    life.last = life.first + random.next_below(steps - life.first);
    if (seed % 2 == 1 && random.next_below(3) == 0) life.alignment = 256;  // as workspaces on a GPU
  }
  return lifetimes;
}

/// The bytes alive at each step, summed up.
int64_t most_alive(const std::vector<Lifetime>& lifetimes) {
  int64_t most = 0;
  for (int64_t step = 0; step < 50; ++step) {
    int64_t sum = 0;
    for (const Lifetime& life : lifetimes) {
      if (life.first <= step && step <= life.last) sum += (life.bytes + 63) / 64 * 64;
    }
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

TEST_CASE("what lives at one time never overlaps, whatever the lifetimes") {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    const std::vector<Lifetime> all = random_lifetimes(seed);
    const Arrangement found = arrange(all);
    REQUIRE(found.offsets.size() == all.size());
    int64_t end = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      REQUIRE(found.offsets[i] >= 0);
      REQUIRE(found.offsets[i] % all[i].alignment == 0);
      end = std::max(end, found.offsets[i] + all[i].bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool together = all[i].first <= all[j].last && all[j].first <= all[i].last;
        const bool apart = found.offsets[i] + all[i].bytes <= found.offsets[j] ||
                           found.offsets[j] + all[j].bytes <= found.offsets[i] || all[i].bytes == 0 ||
                           all[j].bytes == 0;
        if (together && !apart) FAIL(i << " overlaps " << j);
      }
    }
    REQUIRE(end <= found.bytes);
    REQUIRE(lower_bound_bytes(all) == most_alive(all));
    REQUIRE(found.bytes >= lower_bound_bytes(all));
    const int64_t skipped = seed % 2 == 1 ? static_cast<int64_t>(all.size()) * (256 - kArenaAlignment) : 0;
    REQUIRE(found.bytes <= 2 * lower_bound_bytes(all) + skipped);
    REQUIRE(arrange(all).offsets == found.offsets);
  }
}

TEST_CASE("a chain of layers needs no more than its two largest neighbours") {
  std::vector<Lifetime> chain;
  for (int64_t i = 0; i < 12; ++i)
    chain.push_back({.bytes = 64 * (1 + i * 7 % 5), .first = i, .last = i + 1});
  CHECK(arrange(chain).bytes == lower_bound_bytes(chain));
}

TEST_CASE("nothing takes nothing") {
  CHECK(arrange({}).bytes == 0);
  CHECK(lower_bound_bytes({}) == 0);
  CHECK(arrange({{.bytes = 0, .first = 0, .last = 3}}).bytes == 0);
}

namespace {

/// By comparison with all taken ranges, in the order of their begins.
int64_t best_gap_of(std::vector<TakenBytes> all, const Lifetime& life) {
  std::ranges::sort(all, {}, &TakenBytes::begin);
  int64_t best = -1, best_size = 0, start = 0;
  for (const TakenBytes& other : all) {
    if (other.first > life.last || life.first > other.last) continue;
    const int64_t gap = other.begin - start;
    if (gap >= life.bytes && (best < 0 || gap < best_size)) best = start, best_size = gap;
    if (other.end > start) start = align_up(other.end, life.alignment);
  }
  return best < 0 ? start : best;
}

}  // namespace

TEST_CASE("the smallest gap is that among all that is taken at the same time") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    std::vector<Lifetime> all = random_lifetimes(seed);
    for (uint64_t more = 0; more < 8 * (seed % 2); ++more)
      std::ranges::copy(random_lifetimes(1000 + seed + more), std::back_inserter(all));
    OccupiedSpace occupied;
    std::vector<TakenBytes> taken;
    for (const Lifetime& life : all) {
      if (life.bytes == 0) continue;
      const int64_t begin = occupied.best_gap(life.first, life.last, life.bytes, life.alignment);
      REQUIRE(begin == best_gap_of(taken, life));
      // Some begin elsewhere, so that gaps of all sizes arise.
      const int64_t at = seed % 3 == 0 ? begin : begin + 64 * (life.bytes % 7);
      taken.push_back({life.first, life.last, at, at + life.bytes});
      occupied.take(taken.back());
    }
  }
}

TEST_CASE("activations of a very deep network are arranged in time that does not grow with their square") {
  // Each lives from its layer to that layer's gradient. Comparing all pairs would take minutes.
  constexpr int64_t kLayers = 20'000;
  std::vector<Lifetime> lifetimes;
  for (int64_t i = 0; i < kLayers; ++i) {
    lifetimes.push_back({.bytes = 64 * (1 + i % 5), .first = i, .last = 2 * kLayers - i});
    lifetimes.push_back({.bytes = 128, .first = i, .last = i});
  }
  const Arrangement found = arrange(lifetimes);
  CHECK(found.bytes >= lower_bound_bytes(lifetimes));
  CHECK(found.bytes <= 2 * lower_bound_bytes(lifetimes));
}

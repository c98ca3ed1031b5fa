// SPDX-License-Identifier: Apache-2.0
#include "tests/data/images/damage.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include "tests/catch.h"

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/data/images/cifar.h"
#include "core/data/images/decode.h"
#include "core/data/images/idx.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/record.h"
#include "core/data/images/synthetic.h"
#include "tests/data/images/images.h"
#include "tests/data/samples.h"
#include "tests/sanitized.h"

namespace trainer {

std::string packed(const ImageSource& source) {
  std::string bytes;
  write_record(source, [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  return bytes;
}

void read_all(const ImageSource& source) {
  Image image;
  for (int64_t i = 0; i < source.size(); ++i) {
    try {
      source.read(i, image);
    } catch (const UnreadableSampleError&) {
    }
  }
}

std::string with_sealed_tail(std::string bytes, const std::function<void(RecordTail&)>& change) {
  RecordTail tail;
  if (bytes.size() < sizeof tail) return bytes;
  const size_t at = bytes.size() - sizeof tail;
  const auto all = std::as_bytes(std::span(bytes));
  std::memcpy(&tail, bytes.data() + at, sizeof tail);
  if (tail.index <= at) tail.index_sum = checksum(all.subspan(tail.index, at - tail.index));
  change(tail);
  tail.sum = checksum(std::as_bytes(std::span(&tail, 1)).first(offsetof(RecordTail, sum)));
  std::memcpy(bytes.data() + at, &tail, sizeof tail);
  return bytes;
}

std::string mutated(const std::string& bytes, uint64_t seed) {
  RandomStream random(random_key(seed, "damage"));
  std::string changed = bytes;
  // Heads and ends hold the numbers; half of the places are in them.
  const auto place = [&] {
    const auto size = static_cast<int64_t>(changed.size());
    const int64_t near = std::min<int64_t>(size, 120);
    const int64_t kind = random.next_below(4);
    return static_cast<size_t>(kind == 0   ? random.next_below(near)
                               : kind == 1 ? size - 1 - random.next_below(near)
                                           : random.next_below(size));
  };
  for (int64_t left = 1 + random.next_below(4); left > 0 && !changed.empty(); --left) {
    switch (random.next_below(6)) {
      case 0:
        changed.resize(place());
        break;
      case 1:
        changed.erase(place(), 1 + static_cast<size_t>(random.next_below(40)));
        break;
      case 2:
        changed.insert(place(), changed.substr(place(), 1 + static_cast<size_t>(random.next_below(40))));
        break;
      default: {
        constexpr uint8_t kTelling[] = {0, 1, 0x7F, 0x80, 0xFF};
        const bool telling = random.next_below(2) == 0;
        changed[place()] =
            static_cast<char>(telling ? kTelling[random.next_below(5)] : random.next_below(256));
      }
    }
  }
  return changed;
}

namespace {

using Open = std::function<std::unique_ptr<ImageSource>(const std::string& path)>;

/// Each mutation either opens and reads to the end, or is refused as data: nothing else may happen.
void check_mutations(const std::string& good, uint64_t count, const Open& open, bool sealed = false) {
  const TemporaryFolder folder;
  const std::string path = folder.path("mutated");
  int refused = 0;
  for (uint64_t seed = 0; seed < count; ++seed) {
    std::string bytes = mutated(good, seed);
    write_file(path, sealed ? with_sealed_tail(bytes, [](RecordTail&) {}) : bytes);
    INFO("seed " << seed);
    try {
      read_all(*open(path));
    } catch (const Error& error) {
      REQUIRE(error.code() == ExitCode::data);
      REQUIRE(std::string(error.what()).find(path + ": offset ") != std::string::npos);
      ++refused;
    }
  }
  CHECK(refused > static_cast<int>(count) / 10);
}

}  // namespace

/// Of each kind. Fuzzing tries far more of them with sanitizers.
constexpr uint64_t kMutations = few_or_all<uint64_t>(300, 3000);

TEST_CASE("mutated CIFAR files are read or refused") {
  std::string ten, hundred;
  for (int i = 0; i < 3; ++i) {
    ten += std::string(1, static_cast<char>(i)) + std::string(3072, 'p');
    hundred += std::string(1, '\3') + std::string(1, static_cast<char>(i)) + std::string(3072, 'p');
  }
  check_mutations(ten, kMutations,
                  [](const std::string& path) { return open_cifar(Cifar::ten, path, Split::train); });
  check_mutations(hundred, kMutations,
                  [](const std::string& path) { return open_cifar(Cifar::hundred, path, Split::train); });
}

TEST_CASE("mutated record files are read or refused, with wrong checksums and with right ones") {
  const TemporaryFolder folder;
  const std::string pixels = packed(*make_synthetic(3, Split::train, 4, {2, 3, 4}, 4));
  std::filesystem::create_directories(folder.path("set/ant"));
  write_file(folder.path("set/ant/a.png"), png(landscape(5, 6)));
  write_file(folder.path("set/ant/b.png"), png(landscape(7, 4)));
  const std::string encoded = packed(*open_image_folder({folder.path("set"), kMaxPixels}));
  for (const bool sealed : {false, true}) {
    for (const std::string& good : {pixels, encoded}) {
      check_mutations(
          good, kMutations, [](const std::string& path) { return open_record(path, kMaxPixels); }, sealed);
    }
  }
}

}  // namespace trainer

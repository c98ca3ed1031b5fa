// SPDX-License-Identifier: Apache-2.0
#include "core/train/unreadable_list.h"

#include <array>
#include <fstream>
#include <thread>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/base/regular_file.h"
#include "core/data/images/tolerant.h"
#include "tests/host/quiet_log.h"
#include "tests/reference/thread_group.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

constexpr int64_t kOdd = 3;

/// Ten samples; every third, from number 1 on, cannot be read.
class OddSource final : public ImageSource {
 public:
  int64_t size() const override { return 10; }
  Shape sample_shape() const override { return {1, 1, 1}; }
  int64_t classes() const override { return 1; }
  int64_t resident_bytes() const override { return 0; }
  void check_labels(const AllowedLabels&) const override {}
  void read(int64_t index, Image& into) const override {
    if (index % kOdd == 1) throw UnreadableSampleError({std::to_string(index) + ".png", "it is torn"});
    into.resize(1, 1, 1);
  }
};

/// The state of a rank's list.
struct Told {
  std::vector<int64_t> numbers;
  std::string file, error;
  int code = 0;
  bool had_new_lines_before = false, had_new_lines_after = false;
};

/// A rank reads the samples that are its own, and shares what it found.
Told read_and_share(ProcessGroup& rank, double percent, const std::vector<int64_t>& samples,
                    const std::filesystem::path& file) {
  test::QuietLog quiet;
  const auto source = tolerate_unreadable(std::make_unique<OddSource>(),
                                          {.percent = percent, .split = "data.train", .is_shared = true});
  UnreadableList list(file, quiet.log);
  list.watch(*source, "train");
  Image image;
  for (const int64_t sample : samples) source->read(sample, image);
  list.report();
  Told told{.had_new_lines_before = list.has_new_lines()};
  try {
    list.share(rank);
    list.share(rank);
  } catch (const Error& error) {
    told.code = static_cast<int>(error.code());
    told.error = error.what();
  }
  told.had_new_lines_after = list.has_new_lines();
  told.numbers = list.numbers()["train"];
  told.file = read_text(file).value_or("");
  return told;
}

std::array<Told, 3> on_three_ranks(double percent, const std::array<std::vector<int64_t>, 3>& samples) {
  const test::ScratchDirectory scratch;
  test::ThreadGroup table(3);
  std::array<Told, 3> told;
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        test::ThreadProcessGroup rank(table, i);
        told[i] = read_and_share(rank, percent, samples[i], i == 0 ? scratch / "bad.txt" : "");
      });
    }
  }
  return told;
}

}  // namespace

TEST_CASE("ranks exchange unreadable samples, and rank 0 lists all of them") {
  // Two ranks find the same one; the last finds none.
  const auto told = on_three_ranks(30, {{{1}, {1, 2, 4, 7}, {0, 2}}});
  for (const Told& rank : told) {
    CHECK(rank.error.empty());
    CHECK(rank.numbers == std::vector<int64_t>{1, 4, 7});
    CHECK(!rank.had_new_lines_after);
  }
  CHECK(told[0].had_new_lines_before);
  CHECK(!told[2].had_new_lines_before);
  CHECK(told[0].file == "1.png: it is torn\n4.png: it is torn (on rank 1)\n7.png: it is torn (on rank 1)\n");
}

TEST_CASE("ranks without unreadable samples write no list") {
  for (const Told& rank : on_three_ranks(0, {{{0}, {2, 3}, {5}}})) {
    CHECK(rank.error.empty());
    CHECK(rank.file.empty());
  }
}

TEST_CASE("more unreadable samples than the budget, of all ranks together, end every rank") {
  const auto told = on_three_ranks(20, {{{0}, {1, 4}, {7}}});
  for (const Told& rank : told) {
    CHECK(rank.code == static_cast<int>(ExitCode::data));
    CHECK(rank.error.find("data.train: 3 of 10 samples cannot be read") == 0);
  }
  CHECK(told[0].file ==
        "1.png: it is torn (on rank 1)\n4.png: it is torn (on rank 1)\n7.png: it is torn (on rank 2)\n");
}

TEST_CASE("a list that goes on keeps who has found a sample") {
  const test::ScratchDirectory scratch;
  test::QuietLog quiet;
  const std::string text = "4.png: it is torn (on rank 1)\n";
  std::ofstream(scratch / "bad.txt") << text;
  const auto source =
      tolerate_unreadable(std::make_unique<OddSource>(), {.percent = 30, .split = "data.train"});
  UnreadableList list(scratch / "bad.txt", quiet.log, true);
  list.watch(*source, "train");
  Image image;
  source->read(4, image);
  CHECK(list.report());
  CHECK(list.size() == 1);
  source->read(1, image);
  list.report();
  CHECK(read_text(scratch / "bad.txt") == "1.png: it is torn\n" + text);
}

}  // namespace trainer

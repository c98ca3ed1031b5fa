// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <fstream>
#include <random>
#include "tests/catch.h"

#include "core/run/resume.h"
#include "core/storage/checkpoint.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using test::ScratchDirectory;

void write_checkpoint(const fs::path& root, int64_t step) {
  std::mt19937 random(static_cast<uint32_t>(step));
  CheckpointWriter writer(root, step);
  const auto add = [&](const char* name, const std::string& text) {
    writer.add(name, [&](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
  };
  for (const char* name : {kModelFile, kAveragesFile, kOptimizerFile}) {
    std::string noise(3000 + random() % 3000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    add(name, noise);
  }
  RunState state;
  state.loop.step = step;
  state.mathematics = "optimizer:\n  lr: 0.1\n";
  add(kStateFile, to_json(state));
  writer.commit();
}

/// The byte there becomes another one.
void change(const fs::path& path, int64_t at, int by) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ by));
}

}  // namespace

TEST_CASE(
    "each of 1,000 changed bytes of a checkpoint is refused by its file's name, and the one before used") {
  const ScratchDirectory scratch;
  write_checkpoint(scratch.path(), 10);
  write_checkpoint(scratch.path(), 20);
  std::mt19937 random(1);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(scratch / "step-00000020")) files.push_back(entry.path());
  REQUIRE(files.size() == 5);
  for (size_t i = 0; i < 1000; ++i) {
    const fs::path& path = files[i % files.size()];
    const auto at = static_cast<int64_t>(random() % fs::file_size(path));
    const int by = 1 + static_cast<int>(random() % 255);
    change(path, at, by);
    std::string told;
    const auto found = newest_checkpoint(scratch.path(), [&](const std::string& text) { told += text; });
    change(path, at, by);
    INFO(path << " byte " << at << ": " << told);
    REQUIRE(found);
    CHECK(found->state.loop.step == 10);
    CHECK(told.find("skipping checkpoint step-00000020") != std::string::npos);
    CHECK(told.find(path.filename().string()) != std::string::npos);
  }
  CHECK(newest_checkpoint(scratch.path(), [](const std::string& text) { FAIL(text); })->state.loop.step ==
        20);
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/storage/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <random>
#include "tests/catch.h"

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/base/regular_file.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using test::ScratchDirectory;

std::string noise(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

/// In two pieces, since real ones come in many.
void add(CheckpointWriter& writer, const std::string& name, const std::string& text) {
  writer.add(name, [&](const ByteSink& sink) {
    const auto bytes = std::as_bytes(std::span(text));
    sink(bytes.first(bytes.size() / 3));
    sink(bytes.subspan(bytes.size() / 3));
  });
}

fs::path write_checkpoint(const fs::path& root, int64_t step, size_t bytes = 5000) {
  CheckpointWriter writer(root, step);
  add(writer, kModelFile, noise(bytes, static_cast<uint32_t>(step)));
  add(writer, kOptimizerFile, noise(2 * bytes + 1, static_cast<uint32_t>(step) + 1));
  add(writer, kStateFile, "{}\n");
  return writer.commit();
}

std::string problem_of(const fs::path& checkpoint) {
  try {
    verify_checkpoint(checkpoint);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    return error.what();
  }
  return "";
}

void flip_bit(const fs::path& path, int64_t at, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ (1 << bit)));
}

}  // namespace

TEST_CASE("a checkpoint is whole under its name, and read back as it was written") {
  const ScratchDirectory scratch;
  const fs::path root = scratch.path() / "a" / "checkpoints";
  const fs::path path = write_checkpoint(root, 120);
  CHECK(path == root / "step-00000120");
  const Manifest manifest = verify_checkpoint(path);
  CHECK(manifest.step == 120);
  REQUIRE(manifest.files.size() == 3);
  CHECK(manifest.files[1].name == kOptimizerFile);
  CHECK(manifest.bytes() == 5000 + 10001 + 3);
  CHECK(read_text(path / kModelFile) == noise(5000, 120));
  CHECK(list_checkpoints(root) == std::vector{path});
  CHECK(std::distance(fs::directory_iterator(root), {}) == 1);
}

TEST_CASE("checkpoints are listed by their steps, the newest first, and nothing else is") {
  const ScratchDirectory scratch;
  for (int64_t step : {7, 1000, 123456789, 99}) write_checkpoint(scratch.path(), step, 10);
  for (const char* other :
       {"step-1", "step-0000000x", "step-", "step--0000001", "model", ".saving-step-00000003-1-0"})
    fs::create_directory(scratch.path() / other);
  std::vector<int64_t> steps;
  for (const fs::path& path : list_checkpoints(scratch.path())) steps.push_back(checkpoint_step(path));
  CHECK(steps == std::vector<int64_t>{123456789, 1000, 99, 7});
  CHECK(list_checkpoints(scratch.path() / "absent").empty());
}

TEST_CASE("any flipped bit of a checkpoint is found, and the file named") {
  const ScratchDirectory scratch;
  const fs::path path = write_checkpoint(scratch.path(), 3);
  std::mt19937 random(1);
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile, kManifestFile}) {
    const auto bytes = static_cast<int64_t>(fs::file_size(path / name));
    for (int i = 0; i < 100; ++i) {
      const int64_t at = std::uniform_int_distribution<int64_t>(0, bytes - 1)(random);
      const int bit = static_cast<int>(random() % 8);
      flip_bit(path / name, at, bit);
      CHECK_THAT(problem_of(path), ContainsSubstring(name));
      flip_bit(path / name, at, bit);
    }
  }
  CHECK(problem_of(path).empty());
}

TEST_CASE("missing, longer and shorter files are found") {
  const ScratchDirectory scratch;
  const fs::path path = write_checkpoint(scratch.path(), 3);
  fs::resize_file(path / kModelFile, 4999);
  CHECK_THAT(problem_of(path), ContainsSubstring("has 4999 bytes, the manifest expects 5000"));
  fs::resize_file(path / kModelFile, 5001);
  CHECK_THAT(problem_of(path), ContainsSubstring("has 5001 bytes"));
  fs::remove(path / kModelFile);
  CHECK_THAT(problem_of(path), ContainsSubstring("model.safetensors: is missing"));
  fs::create_directory(path / kModelFile);
  CHECK_THAT(problem_of(path), ContainsSubstring("expected a regular file, found a directory"));
  fs::remove(path / kManifestFile);
  CHECK_THAT(problem_of(path), ContainsSubstring("manifest.txt: is missing"));
}

TEST_CASE("a checkpoint of another step's name is refused") {
  const ScratchDirectory scratch;
  const fs::path path = write_checkpoint(scratch.path(), 3);
  fs::rename(path, scratch.path() / "step-00000004");
  CHECK_THAT(problem_of(scratch.path() / "step-00000004"), ContainsSubstring("belongs to step 3"));
}

TEST_CASE("a manifest is read as it is written, and in no other way") {
  const Manifest manifest{.step = 12, .files = {{"a.safetensors", 1, 0xABCu}, {"state.json", 0, 0}}};
  const std::string text = to_text(manifest);
  CHECK(parse_manifest(text, "m") == manifest);
  const auto refused = [](const std::string& changed) {
    try {
      parse_manifest(changed, "m");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'0', ' ', '\n', 'z', '\0', '/'}) {
      std::string changed = text;
      changed[i] = c;
      if (changed != text) CHECK_THAT(refused(changed), ContainsSubstring("m:"));
    }
    CHECK_THAT(refused(text.substr(0, i)), ContainsSubstring("m:"));
  }
  CHECK_THAT(refused(text + "\n"), ContainsSubstring("checksum"));
  const auto with_name = [](const std::string& name) {
    return to_text({.step = 1, .files = {{name, 1, 1}}});
  };
  CHECK_THAT(refused(with_name("../x")), ContainsSubstring("name"));
  CHECK_THAT(refused(with_name(".x")), ContainsSubstring("name"));
  CHECK_THAT(refused(with_name("a b")), ContainsSubstring("name"));
  CHECK_THAT(refused(to_text({.step = 1, .files = {{"a", 1, 1}, {"a", 2, 2}}})), ContainsSubstring("twice"));
}

namespace {

/// Whether a manifest of this text is certainly damaged; else it may be intact.
bool is_damage(const std::string& text, const std::string& told) {
  try {
    parse_manifest(text, "m");
  } catch (const DamageError& error) {
    return true;
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    CHECK_THAT(error.what(), ContainsSubstring(told));
    return false;
  }
  FAIL("the manifest was accepted");
  return false;
}

std::string sealed(const std::string& body) {
  return fmt::format("{}whole {:016x}\n", body, checksum(std::as_bytes(std::span(body))));
}

}  // namespace

TEST_CASE("a newer manifest version is refused, and only an incomplete manifest counts as damaged") {
  const std::string text = to_text({.step = 12, .files = {{"a.safetensors", 1, 0xABCu}}});
  const std::string rest = text.substr(text.find('\n'));
  CHECK_FALSE(is_damage("trainer checkpoint 2\nwhatever\n", "is of version 2, this program reads version 1"));
  CHECK_FALSE(is_damage(sealed("trainer checkpoint 12\nstep 1\n"), "is of version 12"));
  CHECK_FALSE(is_damage(sealed("trainer checkpoint 1\nstep 1\nrank 3\n"), "it is intact"));
  CHECK(is_damage("trainer checkpoint 3" + rest, ""));  // all else is as version 1 has written it
  CHECK(is_damage("trainer checkpoint 1", ""));
  CHECK(is_damage("trainer checkpoint 1\nstep 1\nrank 3\n", ""));
}

TEST_CASE("a checkpoint that cannot be read is not taken for a damaged one") {
  const ScratchDirectory scratch;
  const fs::path path = write_checkpoint(scratch.path(), 3);
  fs::rename(path, scratch / "elsewhere");
  fs::create_symlink(path.filename(), path);  // leads to itself: no file system returns its target
  CHECK_THAT(test::error_text(ExitCode::io, [&] { verify_checkpoint(path); }),
             ContainsSubstring((path / kManifestFile).string()));
  fs::remove(path);
  CHECK_THROWS_AS(verify_checkpoint(path), DamageError);  // it does not exist, for certain
  fs::rename(scratch / "elsewhere", path);
  struct rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const FileDescriptor next = open_file(path, O_RDONLY);
  const struct rlimit none = {.rlim_cur = static_cast<rlim_t>(next.get()), .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::string text;
  try {
    verify_checkpoint(path);
  } catch (const Error& error) {
    text = error.code() == ExitCode::io ? error.what() : "another error";
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_THAT(text, ContainsSubstring("Too many open files"));
  CHECK(verify_checkpoint(path).step == 3);
}

TEST_CASE("a damaged checkpoint gets another name, and is kept under it") {
  const ScratchDirectory scratch;
  CHECK(set_aside(write_checkpoint(scratch.path(), 3)) == scratch / "damaged-step-00000003");
  CHECK(set_aside(write_checkpoint(scratch.path(), 3)) == scratch / "damaged-step-00000003-2");
  CHECK(list_checkpoints(scratch.path()).empty());
  tidy_checkpoints(scratch.path());
  CHECK(scratch.names() == std::set<std::string>{"damaged-step-00000003", "damaged-step-00000003-2"});
  CHECK(verify_checkpoint(scratch / "damaged-step-00000003").step == 3);
}

TEST_CASE("a checkpoint that was to be replaced gets its name back where the new one has not come to it") {
  const ScratchDirectory scratch;
  for (const bool is_replaced : {false, true}) {
    const fs::path path = write_checkpoint(scratch.path(), 3, 100);
    fs::rename(path, scratch / ".replaced-step-00000003-77-0");
    if (is_replaced) write_checkpoint(scratch.path(), 3, 200);
    tidy_checkpoints(scratch.path());
    CHECK(verify_checkpoint(path).files[0].bytes == (is_replaced ? 200 : 100));
    CHECK(scratch.names() == std::set<std::string>{"step-00000003"});
    fs::remove_all(path);
  }
}

TEST_CASE("a save that fails or is given up leaves nothing, and the old checkpoint") {
  const ScratchDirectory scratch;
  const fs::path old = write_checkpoint(scratch.path(), 1);
  {
    CheckpointWriter writer(scratch.path(), 2);
    add(writer, kModelFile, "some");
  }
  CheckpointWriter writer(scratch.path(), 2);
  CHECK_THROWS_WITH(writer.add(kModelFile, [](const ByteSink&) { throw Error(ExitCode::io, "no space"); }),
                    "no space");
  CHECK(list_checkpoints(scratch.path()) == std::vector{old});
  CHECK(problem_of(old).empty());
}

TEST_CASE("a save that makes the checkpoints' folder and is given up leaves no folder") {
  const ScratchDirectory scratch;
  const fs::path root = scratch / "checkpoints";
  {
    CheckpointWriter writer(root, 1);
    CHECK(fs::is_directory(root));
  }
  CHECK_FALSE(fs::exists(root));
  fs::create_directory(root);
  { CheckpointWriter writer(root, 1); }
  CHECK(fs::is_empty(root));
}

TEST_CASE("a file that does not read back as it was written fails the save") {
  const ScratchDirectory scratch;
  const std::string text = noise(600'000, 1);  // several pieces
  for (const size_t at : {size_t{0}, size_t{300'000}, text.size() - 1}) {
    CheckpointWriter writer(scratch.path(), 2);
    const auto produce = [&](const ByteSink& sink) {
      sink(std::as_bytes(std::span(text)));
      for (const auto& entry : fs::recursive_directory_iterator(scratch.path())) {
        if (entry.path().filename() == kModelFile) flip_bit(entry.path(), static_cast<int64_t>(at), 3);
      }
    };
    const std::string problem = test::error_text(ExitCode::data, [&] { writer.add(kModelFile, produce); });
    CHECK_THAT(problem, ContainsSubstring("model.safetensors: is damaged"));
  }
  CHECK(fs::is_empty(scratch.path()));
}

TEST_CASE("what cut saves and removals have left is tidied up, and nothing else") {
  const ScratchDirectory scratch;
  const fs::path old = write_checkpoint(scratch.path(), 1);
  for (const char* name : {".saving-step-00000002-77-0", ".removed-step-00000001-77-0", ".other"}) {
    fs::create_directory(scratch.path() / name);
    std::ofstream(scratch.path() / name / "model.safetensors") << "x";
  }
  tidy_checkpoints(scratch.path());
  CHECK(fs::exists(old));
  CHECK(fs::exists(scratch.path() / ".other"));
  CHECK(std::distance(fs::directory_iterator(scratch.path()), {}) == 2);
}

TEST_CASE("a step that is saved again takes the place of the one that is there") {
  const ScratchDirectory scratch;
  const fs::path path = write_checkpoint(scratch.path(), 5, 100);
  flip_bit(path / kModelFile, 10, 1);
  CHECK(write_checkpoint(scratch.path(), 5, 200) == path);
  CHECK(verify_checkpoint(path).files[0].bytes == 200);
  CHECK(std::distance(fs::directory_iterator(scratch.path()), {}) == 1);
}

TEST_CASE("removing takes a checkpoint away whole") {
  const ScratchDirectory scratch;
  const fs::path first = write_checkpoint(scratch.path(), 1), second = write_checkpoint(scratch.path(), 2);
  remove_checkpoint(first);
  CHECK(list_checkpoints(scratch.path()) == std::vector{second});
  CHECK(std::distance(fs::directory_iterator(scratch.path()), {}) == 1);
}

}  // namespace trainer

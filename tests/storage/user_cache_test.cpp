// SPDX-License-Identifier: Apache-2.0
#include "core/storage/user_cache.h"

#include <sys/stat.h>

#include <thread>
#include <vector>
#include "tests/catch.h"

#include "tests/host/environment.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using test::ScratchDirectory;

fs::path only_file(const fs::path& directory) {
  fs::path found;
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(directory)) found = entry.path(), ++files;
  REQUIRE(files == 1);
  return found;
}

}  // namespace

TEST_CASE("a user's cache gives another process what was put, and nothing else") {
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "not/there/yet";
  UserCache first(directory);
  CHECK(first.find("key") == std::nullopt);
  const std::string text("two\nlines and a \0 in it", 23);
  first.put("key", text);
  UserCache second(directory);
  CHECK(second.find("key") == text);
  CHECK(second.find("other") == std::nullopt);
  second.put("key", "");
  CHECK(first.find("key") == "");
  CHECK(first.find("") == std::nullopt);
}

TEST_CASE("a damaged file of a user's cache, or one of another key, counts as not there") {
  const ScratchDirectory scratch;
  UserCache cache(scratch / "cache");
  cache.put("key", "some text");
  const fs::path file = only_file(scratch / "cache");
  const std::string whole = test::contents(file);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 0x20;
    test::put(file, damaged);
    CHECK(cache.find("key") == std::nullopt);
    test::put(file, whole.substr(0, i));
    CHECK(cache.find("key") == std::nullopt);
  }
  test::put(file, whole + "x");
  CHECK(cache.find("key") == std::nullopt);
  cache.put("other", "another text");
  for (const auto& entry : fs::directory_iterator(scratch / "cache")) {
    if (entry.path() != file) fs::rename(entry.path(), file);
  }
  CHECK(cache.find("key") == std::nullopt);
  cache.put("key", "some text");
  CHECK(cache.find("key") == "some text");
}

TEST_CASE("where a user's cache cannot be written nothing is kept, and nothing fails") {
  const ScratchDirectory scratch;
  test::put(scratch / "file", "no directory");
  UserCache cache(scratch / "file/cache");
  cache.put("key", "text");
  CHECK(cache.find("key") == std::nullopt);
  UserCache occupied(scratch / "occupied");
  occupied.put("key", "text");
  const fs::path place = only_file(scratch / "occupied");
  fs::remove(place);
  fs::create_directories(place / "in the way");
  CHECK(occupied.find("key") == std::nullopt);
  occupied.put("key", "text");
  CHECK(occupied.find("key") == std::nullopt);
  UserCache full("/dev/full/cache");
  full.put("key", "text");
  CHECK(full.find("key") == std::nullopt);
}

TEST_CASE("threads that share a user's cache read whole texts") {
  const ScratchDirectory scratch;
  const std::string texts[] = {std::string(100'000, 'a'), std::string(200'000, 'b')};
  UserCache(scratch / "cache").put("key", texts[0]);
  std::vector<std::jthread> writers;
  for (const std::string& text : texts) {
    writers.emplace_back([&](const std::stop_token& over) {
      UserCache cache(scratch / "cache");
      while (!over.stop_requested()) cache.put("key", text);
    });
  }
  UserCache cache(scratch / "cache");
  for (int i = 0; i < 200; ++i) {
    const auto found = cache.find("key");
    if (found != texts[0] && found != texts[1])
      FAIL_CHECK("read " << (found ? found->size() : 0) << " bytes");
  }
}

TEST_CASE("a user's cache that has grown too large loses its oldest half") {
  const ScratchDirectory scratch;
  for (int i = 0; i < 10; ++i) {
    UserCache cache(scratch / "cache", 100);
    cache.put(std::to_string(i), "text");
    for (const auto& entry : fs::directory_iterator(scratch / "cache"))
      fs::last_write_time(entry.path(), fs::last_write_time(entry.path()) - std::chrono::seconds(1));
  }
  UserCache cache(scratch / "cache", 9);
  cache.put("new", "text");
  for (int i = 0; i < 10; ++i) CHECK(cache.find(std::to_string(i)).has_value() == (i >= 5));
  CHECK(cache.find("new") == "text");
}

TEST_CASE("a user's cache lies where the system says, if that is an absolute path") {
  test::Environment environment;
  environment.set("HOME", "/somebody");
  environment.set("XDG_CACHE_HOME", nullptr);
  CHECK(user_cache_directory() == "/somebody/.cache/trainer");
  environment.set("XDG_CACHE_HOME", "/fast");
  CHECK(user_cache_directory() == "/fast/trainer");
  environment.set("XDG_CACHE_HOME", "relative");
  CHECK(user_cache_directory() == "/somebody/.cache/trainer");
  environment.set("HOME", nullptr);
  CHECK(user_cache_directory() == std::nullopt);
}

TEST_CASE("a user's cache neither reads nor writes through links, nor waits for pipes") {
  const ScratchDirectory scratch;
  const fs::path directory = scratch / "cache";
  UserCache cache(directory);
  cache.put("key", "text");
  const fs::path file = only_file(directory);
  fs::rename(file, scratch / "elsewhere");
  fs::create_symlink(scratch / "elsewhere", file);
  const std::string before = test::contents(scratch / "elsewhere");
  CHECK(cache.find("key") == std::nullopt);
  cache.put("key", "newer");
  CHECK(cache.find("key") == "newer");
  CHECK(test::contents(scratch / "elsewhere") == before);
  fs::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  CHECK(cache.find("key") == std::nullopt);
}

}  // namespace trainer

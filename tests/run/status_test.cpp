// SPDX-License-Identifier: Apache-2.0
#include "core/run/status.h"

#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using test::contents;
using test::put;
using test::ScratchDirectory;
using Ending = RunStatus::State;

TEST_CASE("status: what was written is read back, with who wrote it and when") {
  const ScratchDirectory scratch;
  const auto path = scratch / kStatusFile;
  const int64_t before = std::time(nullptr);
  for (Ending state : {Ending::running, Ending::saved, Ending::failed, Ending::finished}) {
    write_status(
        path,
        {.state = state, .step = 12, .steps = 34, .began_at = 7, .exit_code = 75, .message = "a \"b\"\n"});
    const auto status = read_status(path);
    REQUIRE(status);
    CHECK(status->state == state);
    CHECK(status->step == 12);
    CHECK(status->steps == 34);
    CHECK(status->began_at == 7);
    CHECK(status->exit_code == 75);
    CHECK(status->message == "a \"b\"\n");
    CHECK(status->pid == ::getpid());
    CHECK_FALSE(status->host.empty());
    CHECK(status->updated >= before);
    CHECK(status->updated <= std::time(nullptr));
    CHECK(nlohmann::json::parse(contents(path)).at("status") == to_string(state));
  }
  CHECK(scratch.names() == std::set<std::string>{kStatusFile});
}

TEST_CASE("status: ranks are read back, each with its GPU if it has one") {
  const ScratchDirectory scratch;
  const auto path = scratch / kStatusFile;
  write_status(path, {.ranks = {{.host = "a", .activity = "computing", .step = 3, .bytes = 9, .gpu = 1},
                                {.host = "b", .activity = "saving", .step = 4, .waits = true, .bytes = 8}}});
  const auto status = read_status(path);
  REQUIRE(status);
  REQUIRE(status->ranks.size() == 2);
  CHECK(status->ranks[0].gpu == 1);
  CHECK(status->ranks[0].bytes == 9);
  CHECK(status->ranks[1].gpu == std::nullopt);
  CHECK(status->ranks[1].waits);
}

TEST_CASE("status: a process that has not ended has no exit code and nothing to say") {
  const ScratchDirectory scratch;
  const auto path = scratch / kStatusFile;
  write_status(path, {.step = 1, .steps = 2});
  const auto json = nlohmann::json::parse(contents(path));
  CHECK(json.size() == 6);
  CHECK(read_status(path)->exit_code == std::nullopt);
  CHECK(read_status(path)->began_at == std::nullopt);
  CHECK(read_status(path)->message.empty());
}

TEST_CASE("status: bytes of a message that are no text do not cost the file") {
  const ScratchDirectory scratch;
  const auto path = scratch / kStatusFile;
  write_status(path, {.state = Ending::failed, .message = "cannot read 'a\xff'"});
  REQUIRE(read_status(path));
  CHECK(read_status(path)->message == "cannot read 'a\xef\xbf\xbd'");
}

TEST_CASE("status: another file of that name is none") {
  const ScratchDirectory scratch;
  const auto path = scratch / kStatusFile;
  CHECK_FALSE(read_status(path));
  const std::string good =
      R"({"status":"saved","step":1,"steps":2,"pid":3,"host":"h","updated":4,"exit_code":75})";
  put(path, good);
  REQUIRE(read_status(path));
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"saved", "lost"},
                                                        {"\"saved\"", "1"},
                                                        {"\"step\":1", "\"step\":1.5"},
                                                        {"\"step\":1", "\"step\":9223372036854775808"},
                                                        {"\"steps\":2,", ""},
                                                        {"\"h\"", "null"},
                                                        {"75", "\"75\""},
                                                        {"}", ""}}) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    INFO(bad);
    put(path, bad);
    CHECK_FALSE(read_status(path));
  }
  for (const std::string text : {"", "[]", "null", "{}"}) {
    put(path, text);
    CHECK_FALSE(read_status(path));
  }
}

}  // namespace
}  // namespace trainer

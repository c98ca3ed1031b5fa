// SPDX-License-Identifier: Apache-2.0
#include "core/host/slurm.h"

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include "tests/catch.h"

#include "core/host/child_process.h"
#include "core/host/process.h"
#include "core/host/time_limit.h"
#include "tests/host/environment.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using std::chrono::milliseconds;
using test::Environment;
using test::ScratchDirectory;

/// A job of Slurm with a script as squeue.
struct FakeSlurm {
  explicit FakeSlurm(const std::string& script) {
    namespace fs = std::filesystem;
    test::put(scratch / "squeue", "#!/bin/sh\n" + script);
    fs::permissions(scratch / "squeue", fs::perms::owner_all);
    environment.set("PATH", (scratch.path().string() + ":/usr/bin:/bin").c_str());
    for (const char* name : {"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_END_TIME"})
      environment.set(name, nullptr);
    environment.set("SLURM_JOB_ID", "12");
    log.attach(scratch / "log.txt");
  }
  std::optional<TimeSpan> left(milliseconds patience = milliseconds(5000)) {
    return slurm_time_left(log, patience);
  }
  std::string said() const { return test::contents(scratch / "log.txt"); }

  ScratchDirectory scratch;
  Environment environment;
  Progress screen{{.fd = -1, .terminal = false}};
  Log log{screen};
};

/// Whether this group has a process that is not just waiting to be reaped.
bool has_living(int wanted) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (entry.path().filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    char state = 'Z';
    int parent = 0, group = 0;
    if (fields >> state >> parent >> group && group == wanted && state != 'Z') return true;
  }
  return false;
}

double seconds_of(const std::function<void()>& act) {
  const auto begin = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("times are read as Slurm writes them, and nothing else is taken for one") {
  CHECK(parse_slurm_time("0:00") == TimeSpan{0});
  CHECK(parse_slurm_time("0:59") == TimeSpan{59});
  CHECK(parse_slurm_time("59:58") == TimeSpan{59 * 60 + 58});
  CHECK(parse_slurm_time("1:02:03") == TimeSpan{3723});
  CHECK(parse_slurm_time("23:59:59") == TimeSpan{86399});
  CHECK(parse_slurm_time("1-00:00:00") == TimeSpan{86400});
  CHECK(parse_slurm_time("365-01:02:03") == TimeSpan{365 * 86400 + 3723});
  CHECK(parse_slurm_time("999999999-00:00:00") == TimeSpan{999999999 * int64_t{86400}});
  for (const char* text : {"",
                           "UNLIMITED",
                           "NOT_SET",
                           "INVALID",
                           "N/A",
                           "5",
                           ":",
                           "1:",
                           ":1",
                           "-1:00",
                           "1:-1",
                           "1:+1",
                           "1:02:03:04",
                           "1-",
                           "-",
                           "1-2",
                           "1-02:03",
                           "1-1-02:03:04",
                           "1:00 ",
                           " 1:00",
                           "1:00\n2:00",
                           "1.5:00",
                           "0x1:00",
                           "1000000000:00",
                           "99999999999999999999:00"}) {
    INFO('"' << text << '"');
    CHECK(parse_slurm_time(text) == std::nullopt);
  }
}

TEST_CASE("Slurm is asked for this job, and only within a job") {
  FakeSlurm slurm("echo \"$*\" >>\"${0%/*}/asked\"; echo 1:02:03");
  CHECK(slurm.left() == TimeSpan{3723});
  CHECK_THAT(slurm.said(), ContainsSubstring("Slurm ends job 12 in 1:02:03; the run will be saved before"));
  CHECK(test::contents(slurm.scratch / "asked") == "-h -j 12 -o %L\n");

  slurm.environment.set("SLURM_ARRAY_JOB_ID", "12");
  slurm.environment.set("SLURM_ARRAY_TASK_ID", "3");
  CHECK(slurm.left() == TimeSpan{3723});
  CHECK_THAT(test::contents(slurm.scratch / "asked"), ContainsSubstring("-h -j 12_3 -o %L\n"));

  slurm.environment.set("SLURM_ARRAY_JOB_ID", nullptr);
  slurm.environment.set("SLURM_JOB_ID", nullptr);
  const std::string before = test::contents(slurm.scratch / "asked");
  CHECK(slurm.left() == std::nullopt);
  CHECK(test::contents(slurm.scratch / "asked") == before);
}

TEST_CASE("a job knows that Slurm has started it before") {
  FakeSlurm slurm("echo UNLIMITED");
  CHECK_FALSE(slurm_has_restarted());
  for (const char* count : {"0", "", "x", "1x"}) {
    slurm.environment.set("SLURM_RESTART_COUNT", count);
    CHECK_FALSE(slurm_has_restarted());
  }
  slurm.environment.set("SLURM_RESTART_COUNT", "2");
  CHECK(slurm_has_restarted());
  slurm.environment.set("SLURM_JOB_ID", nullptr);
  CHECK_FALSE(slurm_has_restarted());
}

TEST_CASE("a job without limit has none") {
  const std::string answer = GENERATE("UNLIMITED", "NOT_SET");
  FakeSlurm slurm("echo " + answer);
  CHECK(slurm.left() == std::nullopt);
  CHECK_THAT(slurm.said(),
             ContainsSubstring("Slurm job 12 has no time limit") && !ContainsSubstring("warning"));
}

TEST_CASE("an answer that is none is told") {
  const auto [script, reason] = GENERATE(table<std::string, std::string>({
      {"echo INVALID", "squeue printed \"INVALID\""},
      {"exit 0", "squeue printed \"\""},
      {"echo 1:00; exit 1", "squeue ended with exit code 1"},
      {"kill -9 $$", "squeue was ended by signal 9"},
  }));
  FakeSlurm slurm(script);
  CHECK(slurm.left() == std::nullopt);
  CHECK_THAT(slurm.said(), ContainsSubstring("warning: the remaining time of Slurm job 12 is unknown (" +
                                             reason + "): set run.max_wall_time"));
  slurm.environment.set("SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + 1000).c_str());
  const auto left = slurm.left();
  REQUIRE(left);
  CHECK(left->seconds <= 1000);
  CHECK(left->seconds > 900);
  slurm.environment.set("SLURM_JOB_END_TIME", "soon");
  CHECK(slurm.left() == std::nullopt);
}

TEST_CASE("a missing squeue is told") {
  FakeSlurm slurm("");
  slurm.environment.set("PATH", (slurm.scratch.path() / "nowhere").c_str());
  CHECK(slurm.left() == std::nullopt);
  // The second under an emulator, because its vfork hides from posix_spawn why it failed.
  CHECK_THAT(slurm.said(), ContainsSubstring("(squeue: No such file or directory)") ||
                               ContainsSubstring("(squeue ended with exit code 127)"));
}

TEST_CASE("a squeue that hangs is left, with what it has started") {
  const std::string script = GENERATE("sleep 60", "echo 1:00; exec sleep 60", "sleep 60 & exit 0",
                                      "exec >/dev/null; sleep 60", "while echo 1:00; do :; done");
  FakeSlurm slurm("echo $$ >\"${0%/*}/pid\"; " + script);
  std::optional<TimeSpan> left;
  CHECK(seconds_of([&] { left = slurm.left(milliseconds(700)); }) < 30);
  CHECK(left == std::nullopt);
  CHECK_THAT(slurm.said(), ContainsSubstring("squeue did not end within 0.7 s"));
  const int group = std::stoi(test::contents(slurm.scratch / "pid"));
  for (int i = 0; i < 3000 && has_living(group); ++i) ::usleep(10'000);
  CHECK_FALSE(has_living(group));
}

TEST_CASE("a command's output comes back whole up to 64 KiB, whatever its arguments hold") {
  CHECK(run_command({"printf", "%s|", "a b", "$HOME;*", ""}, milliseconds(5000)).text == "a b|$HOME;*||");
  const CommandOutput much = run_command({"head", "-c", "1000000", "/dev/zero"}, milliseconds(5000));
  CHECK(much.problem.empty());
  CHECK(much.text == std::string(64 * 1024, '\0'));
}

TEST_CASE("a time limit is the recipe's, else Slurm's, else none") {
  FakeSlurm slurm("echo asked >>\"${0%/*}/asked\"; echo 50:00");
  TimeLimit own(TimeSpan{3600}, slurm.log);
  CHECK(own.reason(0).empty());
  CHECK_FALSE(std::filesystem::exists(slurm.scratch / "asked"));
  TimeLimit asked(std::nullopt, slurm.log);
  CHECK(asked.reason(0).empty());
  CHECK(asked.reason(900).empty());
  CHECK(asked.reason(1000) == "the time of the Slurm job is nearly over");
  slurm.environment.set("SLURM_JOB_ID", nullptr);
  TimeLimit none(std::nullopt, slurm.log);
  CHECK(none.reason(1e9).empty());
}

TEST_CASE("a time limit that leaves no time for a step says what it would take") {
  FakeSlurm slurm("exit 1");
  TimeLimit limit(TimeSpan{20}, slurm.log);
  CHECK(limit.reason(6) == "run.max_wall_time of 20s is nearly over");
  // 2 s of each limit are kept, and three saves.
  CHECK_THAT(limit.too_short(6),
             ContainsSubstring("run.max_wall_time of 20s left no time to come further") &&
                 ContainsSubstring("20.0 s are kept for a save") &&
                 ContainsSubstring("set run.max_wall_time (or the job's limit) to at least "));
  CHECK_THAT(limit.was_too_short(),
             ContainsSubstring("if run.max_wall_time of 20s ended it, set run.max_wall_time") &&
                 ContainsSubstring("to at least 40s"));
  CHECK(TimeLimit(std::nullopt, slurm.log).was_too_short().empty());
}

TEST_CASE("a time limit keeps what a checkpoint's bytes may take until a save has been timed") {
  FakeSlurm slurm("exit 1");
  TimeLimit limit(TimeSpan{36000}, slurm.log);
  const auto kept = [&](double save_seconds) {
    limit.reason(save_seconds);
    return limit.too_short(save_seconds);
  };
  CHECK_THAT(kept(0), ContainsSubstring(" 10.0 s are kept"));
  limit.expect_saves_of(5'000'000'000);  // 100 s at 50 MB/s, three times
  CHECK_THAT(kept(0), ContainsSubstring(" 310.0 s are kept"));
  CHECK_THAT(kept(2), ContainsSubstring(" 16.0 s are kept"));
  CHECK_THAT(kept(1000), ContainsSubstring(" 3010.0 s are kept"));
  // A guess alone does not end a run before its first checkpoint.
  limit.expect_saves_of(int64_t{1} << 60);
  CHECK_THAT(kept(0), ContainsSubstring(" 18010.0 s are kept"));
  CHECK(limit.reason(0).empty());
}

TEST_CASE("a first checkpoint comes by a tenth of the time limit") {
  FakeSlurm slurm("echo 10:00:00");
  const double now = steady_seconds();
  for (const std::optional<TimeSpan> wall_time :
       {std::optional(TimeSpan{36000}), std::optional<TimeSpan>()}) {
    const auto first = TimeLimit(wall_time, slurm.log).first_save();
    REQUIRE(first);
    CHECK(*first - now < 3700);
    CHECK(*first - now > 1800);  // the process may be older
  }
  slurm.environment.set("SLURM_JOB_ID", nullptr);
  CHECK_FALSE(TimeLimit(std::nullopt, slurm.log).first_save());
}

TEST_CASE("a time limit keeps room for a step as long as the longest so far") {
  FakeSlurm slurm("echo 0:08");
  TimeLimit limit(std::nullopt, slurm.log);
  ::usleep(1'000'000);  // the time before the first step is none
  CHECK(limit.reason(0).empty());
  ::usleep(3'300'000);
  CHECK_FALSE(
      limit.reason(0).empty());  // little more than half has passed, but the same again would be too much
}

}  // namespace trainer

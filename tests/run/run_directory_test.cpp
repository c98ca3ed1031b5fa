// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "core/config/environment.h"
#include "core/host/process.h"
#include "core/metrics/metrics.h"
#include "tests/host/quiet_log.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::contents;
using test::error_text;
using test::put;
using test::QuietLog;
using test::ScratchDirectory;
using State = RunDirectory::State;

/// Of a run that has stored this text.
RunIdentity identity_with(const std::string& text) {
  RunIdentity identity = *parse_identity(text);
  identity.program_version = "0.1.0";
  return identity;
}

const RunIdentity kIdentity = identity_with("optimizer:\n  name: sgd\n  lr: 0.1\n");
const RunIdentity kOther = identity_with("optimizer:\n  name: sgd\n  lr: 0.2\n");

/// Another process that works in a directory, for this many microseconds (0: until it is killed).
class Holder {
 public:
  explicit Holder(const std::filesystem::path& path, useconds_t time = 0) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    process_ = ::fork();
    if (process_ == 0) {
      const RunDirectory run(path, kIdentity);
      if (::write(ready[1], "1", 1) == 1) time == 0 ? ::pause() : ::usleep(time);
      ::_exit(0);
    }
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() { end(); }

  pid_t process() const { return process_; }
  void end() {
    if (process_ == 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

void begin(const std::filesystem::path& path, const RunIdentity& identity = kIdentity) {
  QuietLog quiet;
  RunDirectory run(path, identity);
  run.begin("recipe: text\n", 0, 0, quiet.log);
}

/// Every file's name and contents.
std::map<std::string, std::string> snapshot(const std::filesystem::path& path) {
  std::map<std::string, std::string> files;
  for (const auto& item : std::filesystem::recursive_directory_iterator(path)) {
    files[item.path().string()] = item.is_regular_file() ? contents(item.path()) : "";
  }
  return files;
}

TEST_CASE("run directory: a new one is made, with its parents, and identified") {
  const ScratchDirectory scratch;
  const auto path = scratch / "runs/deep/one";
  QuietLog quiet;
  RunDirectory run(path, kIdentity);
  CHECK(run.state() == State::fresh);
  CHECK(run.file("metrics.jsonl") == path / "metrics.jsonl");
  run.begin("recipe: text\n", 0, 0, quiet.log);
  CHECK(contents(path / "recipe.yaml") == "recipe: text\n");
  const auto identity = nlohmann::json::parse(contents(path / "identity.json"));
  CHECK(identity["hash"] == text_hash(kIdentity.mathematics));
  CHECK(identity["mathematics"] == kIdentity.mathematics);
  CHECK(identity["program_version"] == "0.1.0");
  quiet.log.info("hello");
  CHECK(contents(path / "log.txt").ends_with("Z hello\n"));
}

TEST_CASE("run directory: an unfinished run starts over, or goes on with the metrics so far") {
  const ScratchDirectory scratch;
  const auto path = scratch / "run";
  begin(path);
  const std::string lines = "{\"step\":1}\n{\"step\":3,\"loss\":null}\n{\"step\":4}\n{\"st";
  put(path / "metrics.jsonl", lines);
  put(path / "log.txt", "earlier\n");
  put(path / "notes.txt", "mine");
  SECTION("without a summary") {}
  SECTION("with a summary that says so") {
    write_summary(path / "summary.json", {{"finished", false}});
  }
  SECTION("with a summary that cannot be read") {
    put(path / "summary.json", "{\"finished\": tr");
  }
  QuietLog quiet;
  RunDirectory run(path, kIdentity);
  CHECK(run.state() == State::unfinished);
  CHECK(contents(path / "metrics.jsonl") == lines);
  run.begin("recipe: newer\n", 4, 4, quiet.log);
  CHECK(contents(path / "metrics.jsonl") == lines.substr(0, lines.size() - 4));
  run.begin("recipe: newer\n", 3, 3, quiet.log);
  CHECK(contents(path / "metrics.jsonl") == "{\"step\":1}\n{\"step\":3,\"loss\":null}\n");
  run.begin("recipe: newer\n", 0, 0, quiet.log);
  CHECK(contents(path / "metrics.jsonl").empty());
  CHECK(contents(path / "recipe.yaml") == "recipe: newer\n");
  CHECK(contents(path / "notes.txt") == "mine");
  CHECK(contents(path / "log.txt").starts_with("earlier\n"));
}

TEST_CASE("run directory: keys that may differ make it the same run, though not a finished one") {
  const ScratchDirectory scratch;
  const RunIdentity there = identity_with("model:\n  a: 1\ntraining:\n  max_duration: 1ep\n");
  const RunIdentity longer = identity_with("model:\n  a: 1\ntraining:\n  max_duration: 2ep\n");
  begin(scratch / "run", there);
  write_summary(scratch / "run" / "summary.json", {{"finished", true}});
  CHECK(RunDirectory(scratch / "run", there, {"training"}).state() == State::finished);
  CHECK(RunDirectory(scratch / "run", longer, {"training.max_duration"}).state() == State::unfinished);
  CHECK(RunDirectory(scratch / "run", longer, {"model", "training"}).state() == State::unfinished);
  for (const std::string key : {"training.max", "model", "train", ""}) {
    const std::string text =
        error_text(ExitCode::recipe, [&] { RunDirectory(scratch / "run", longer, {key}); });
    CHECK(text.find("training.max_duration is 1ep there and 2ep here") != std::string::npos);
    CHECK(text.find("run.allow_changes") != std::string::npos);
  }
}

TEST_CASE("run directory: another value from the environment is refused, and neither value is shown") {
  const ScratchDirectory scratch;
  const auto with_rate = [](const std::string& lr) {
    return identity_with("data:\n  train: env:samples\noptimizer:\n  lr: " + lr + "\n");
  };
  Value value;
  value.kind = Value::Kind::scalar;
  value.text = "0.1234";
  const std::string hash = hidden("lr", value).text;
  value.text = "0.5678";
  const std::string other = hidden("lr", value).text;
  begin(scratch / "run", with_rate(hash));
  CHECK(RunDirectory(scratch / "run", with_rate(hash)).state() == State::unfinished);
  CHECK(RunDirectory(scratch / "run", with_rate("0.1234")).state() == State::unfinished);
  CHECK(RunDirectory(scratch / "run", identity_with("data:\n  train: /elsewhere\noptimizer:\n  lr: 0.1234\n"))
            .state() == State::unfinished);
  for (const std::string& lr : {other, std::string("0.5678")}) {
    const std::string text =
        error_text(ExitCode::recipe, [&] { RunDirectory(scratch / "run", with_rate(lr)); });
    CHECK_THAT(text,
               ContainsSubstring("optimizer.lr, which an environment variable gives, has another value"));
    CHECK_THAT(text, !ContainsSubstring("0.1234") && !ContainsSubstring("0.5678") &&
                         !ContainsSubstring(hash) && !ContainsSubstring(other));
  }
}

TEST_CASE("run directory: a file of it that is a link or a pipe is refused, and what a link names stays") {
  const ScratchDirectory scratch;
  put(scratch / "precious", "mine");
  for (const char* name : {"lock", "identity.json", "log.txt", "metrics.jsonl", "summary.json"}) {
    const auto path = scratch / name;
    begin(path);
    QuietLog quiet;
    const auto refused = [&](const std::string& kind) {
      const std::string text = error_text(ExitCode::data, [&] {
        RunDirectory run(path, kIdentity);
        run.begin("recipe: newer\n", 0, 0, quiet.log);
        const MetricsWriter metrics(run.file("metrics.jsonl"));
      });
      CHECK_THAT(text,
                 ContainsSubstring((path / name).string() + ": expected a regular file, found " + kind));
    };
    std::filesystem::remove(path / name);
    std::filesystem::create_symlink(scratch / "precious", path / name);
    refused("a symbolic link");
    std::filesystem::remove(path / name);
    REQUIRE(::mkfifo((path / name).c_str(), 0600) == 0);
    refused("a pipe");
  }
  CHECK(contents(scratch / "precious") == "mine");
}

TEST_CASE("run directory: a finished run is found and left alone") {
  const ScratchDirectory scratch;
  const auto path = scratch / "run";
  begin(path);
  write_summary(path / "summary.json", {{"finished", true}});
  const auto before = snapshot(path);
  const RunDirectory first(path, kIdentity), second(path, kIdentity);
  CHECK(first.state() == State::finished);
  CHECK(second.state() == State::finished);
  CHECK(snapshot(path) == before);
}

TEST_CASE("run directory: another run's is refused, says why, and stays as it is") {
  const ScratchDirectory scratch;
  const auto path = scratch / "run";
  begin(path);
  SECTION("unfinished") {}
  SECTION("finished") {
    write_summary(path / "summary.json", {{"finished", true}});
  }
  const auto before = snapshot(scratch.path());
  const std::string text = error_text(ExitCode::recipe, [&] { RunDirectory run(path, kOther); });
  CHECK(text ==
        "run directory " + path.string() +
            " contains another run (optimizer.lr is 0.1 there and 0.2 here): choose another run.output_dir "
            "or run.name; to resume it with these changes, list their keys in run.allow_changes");
  CHECK(snapshot(scratch.path()) == before);
}

TEST_CASE("run directory: somebody else's files are refused and stay as they are") {
  const ScratchDirectory scratch;
  const auto path = scratch / "run";
  std::filesystem::create_directory(path);
  std::string expected = "contains files that do not belong to a run";
  SECTION("a file") {
    put(path / "thesis.tex", "years of work");
  }
  SECTION("a hidden file") {
    put(path / ".git", "");
  }
  SECTION("a directory") {
    std::filesystem::create_directory(path / "photos");
  }
  SECTION("files named as ours") {
    put(path / "metrics.jsonl", "{}\n");
  }
  SECTION("an identity that is not ours") {
    put(path / "identity.json", "{\"name\": \"somebody\"}");
    expected = "contains an identity.json that cannot be read";
  }
  SECTION("an identity that is no JSON") {
    put(path / "identity.json", "passport");
    expected = "contains an identity.json that cannot be read";
  }
  SECTION("an identity whose keys are no YAML") {
    put(path / "identity.json", "{\"mathematics\": \"a: [1\"}");
    expected = "contains an identity.json that cannot be read";
  }
  SECTION("a file in the directory's place") {
    std::filesystem::remove(path);
    put(path, "a file");
    expected = "is not a directory";
  }
  const auto before = snapshot(scratch.path());
  const std::string text = error_text(ExitCode::recipe, [&] { RunDirectory run(path, kIdentity); });
  CHECK(text.find(expected) != std::string::npos);
  CHECK(text.find("choose another run.output_dir or run.name") != std::string::npos);
  CHECK(snapshot(scratch.path()) == before);
}

TEST_CASE("run directory: an empty one is used, also after a start that went no further") {
  const ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / "run");
  { CHECK(RunDirectory(scratch / "run", kOther).state() == State::fresh); }
  put(scratch / "run/.identity.json.tmp-12-0", "{");
  CHECK(RunDirectory(scratch / "run", kIdentity).state() == State::fresh);
}

TEST_CASE("run directory: one that cannot be made is an I/O error") {
  const ScratchDirectory scratch;
  put(scratch / "file", "");
  const std::string text =
      error_text(ExitCode::io, [&] { RunDirectory run(scratch / "file/run", kIdentity); });
  CHECK(text == (scratch / "file").string() + ": mkdir: Not a directory");
}

TEST_CASE("run directory: metrics that are missing are told where a run goes on") {
  const ScratchDirectory scratch;
  const auto path = scratch / "run";
  begin(path);
  const auto logged_at = [&](int64_t step) {
    std::filesystem::remove(path / "log.txt");
    QuietLog quiet;
    RunDirectory run(path, kIdentity);
    run.begin("recipe: text\n", step, step, quiet.log);
    return contents(path / "log.txt");
  };
  CHECK(logged_at(0).empty());
  CHECK(logged_at(7).ends_with(
      " warning: " + (path / "metrics.jsonl").string() +
      " is missing: the metrics up to step 7 are lost, those that follow are written\n"));
  put(path / "metrics.jsonl", "{\"step\":1}\n");
  CHECK(logged_at(7).empty());
}

TEST_CASE("run directory: one that is moved is noticed, and nothing takes its place") {
  const ScratchDirectory scratch;
  const auto path = scratch / "run";
  RunDirectory run(path, kIdentity);
  run.require_in_place();
  std::filesystem::rename(path, scratch / "moved");
  QuietLog quiet;
  error_text(ExitCode::io, [&] { run.begin("recipe: text\n", 0, 0, quiet.log); });
  CHECK(scratch.names() == std::set<std::string>{"moved"});
  CHECK(error_text(ExitCode::io, [&] { run.require_in_place(); }) ==
        "run directory " + path.string() +
            " was moved, removed or unmounted while the run worked in it: nothing more was saved; put it "
            "back and "
            "start the same command again");
  std::filesystem::rename(scratch / "moved", path);
  run.require_in_place();
}

TEST_CASE("run directory: only one process works in it") {
  const ScratchDirectory scratch;
  const auto path = scratch / "run";
  Holder holder(path);
  const std::string text = error_text(ExitCode::io, [&] { RunDirectory run(path, kIdentity); });
  CHECK(text == "run directory " + path.string() + " is in use by process " +
                    std::to_string(holder.process()) + " on " + host_name());
  holder.end();
  CHECK(RunDirectory(path, kIdentity).state() == State::fresh);
  // A shorter process number overwrites a longer one completely.
  put(path / "lock", "123456789012\n");
  const RunDirectory run(path, kIdentity);
  const std::string held = contents(path / "lock");
  const std::string own = std::to_string(::getpid()) + " on " + host_name() + "\n";
  CHECK(held.starts_with(own + "start "));
  CHECK(held.size() == own.size() + 6 + 32 + 1);
  error_text(ExitCode::io, [&] { RunDirectory second(path, kIdentity); });
}

TEST_CASE("run directory: another process that has taken it is noticed, and named") {
  const ScratchDirectory scratch;
  const auto path = scratch / "run", lock = path / "lock";
  QuietLog quiet;
  const std::string other = "77 on elsewhere\nstart 0\n";
  const auto taken = [&](const std::string& by, const auto& take) {
    std::filesystem::remove(lock);
    RunDirectory run(path, kIdentity);
    run.require_held();
    take();
    const std::string now = std::filesystem::exists(lock) ? contents(lock) : "";
    const std::string text = error_text(ExitCode::io, [&] { run.require_held(); });
    CHECK_THAT(text, Catch::Matchers::ContainsSubstring(by));
    CHECK(error_text(ExitCode::io, [&] { run.require_in_place(); }) == text);
    CHECK(error_text(ExitCode::io, [&] { run.begin("recipe: text\n", 0, 0, quiet.log); }) == text);
    CHECK(scratch.names() == std::set<std::string>{"run"});
    CHECK((std::filesystem::exists(lock) ? contents(lock) : "") == now);
  };
  taken("lock was removed while the run worked there", [&] { std::filesystem::remove(lock); });
  taken("was taken over by process 77 on elsewhere", [&] { put(lock, other); });  // not reached by locks
  taken("was taken over by process 77 on elsewhere", [&] {
    std::filesystem::remove(lock);
    put(lock, other);
  });
  taken("was taken over by process " + std::to_string(::getpid()), [&] {
    const std::string same = contents(lock);
    put(path / "copy", same);
    std::filesystem::rename(path / "copy", lock);
  });
  taken("was taken over by another process", [&] { put(lock, ""); });
  std::filesystem::remove(lock);
  // If the file cannot be read now, nothing is known: the run continues, but renames nothing.
  const RunDirectory run(path, kIdentity);
  std::filesystem::rename(lock, path / "aside");
  std::filesystem::create_symlink("lock", lock);
  run.require_in_place();
  CHECK_THROWS_AS(run.require_held(), Error);
  std::filesystem::rename(path / "aside", lock);
  run.require_held();
}

TEST_CASE("run directory: whoever is patient waits until the other has left") {
  const ScratchDirectory scratch;
  const auto path = scratch / "run";
  const Holder holder(path, 800'000);
  QuietLog quiet;
  await_free(path, std::chrono::milliseconds(50), quiet.log);
  error_text(ExitCode::io, [&] { RunDirectory run(path, kIdentity); });
  await_free(path, std::chrono::minutes(1), quiet.log);
  CHECK(RunDirectory(path, kIdentity).state() == State::fresh);
  await_free(scratch / "none", std::chrono::minutes(1), quiet.log);
}

TEST_CASE("run directory: the lock does not pass to programs that are started") {
  const ScratchDirectory scratch;
  const RunDirectory run(scratch / "run", kIdentity);
  for (const auto& link : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(link, error) != scratch / "run/lock") continue;
    const int fd = std::stoi(link.path().filename().string());
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    return;
  }
  FAIL("the lock is not open");
}

TEST_CASE("identity: the hash is 64-bit FNV-1a") {
  CHECK(text_hash("") == "cbf29ce484222325");
  CHECK(text_hash("a") == "af63dc4c8601ec8c");
  CHECK(text_hash("foobar") == "85944171f73967e8");
}

TEST_CASE("identity: differences are named by their path") {
  const std::string before =
      "model:\n  layers:\n    - flatten\n    - linear:\n        units: 10\n    - relu\n  name: \"a: b\"\n"
      "loss: {name: mse}\nold: 1\n";
  const std::string after =
      "model:\n  layers:\n    - flatten\n    - linear:\n        units: 20\n    - gelu\n  name: \"a: c\"\n"
      "loss: {name: mae}\nnew: 2\n";
  std::vector<std::string> found;
  for (const Difference& d : differences(identity_with(before), identity_with(after)))
    found.push_back(d.path + "=" + d.before + ">" + d.after);
  CHECK(found == std::vector<std::string>{"loss.name=mse>mae", "model.layers[1].linear.units=10>20",
                                          "model.layers[2]=relu>gelu", "model.name=\"a: b\">\"a: c\"",
                                          "old=1>", "new=>2"});
  CHECK(differences(identity_with(before), identity_with(before)).empty());
  // The items of a list may be in the column of its key.
  const auto flush = differences(identity_with("a:\n- x: 1\n  y: 2\n- x: 3\nb: 4\n"),
                                 identity_with("a:\n- x: 1\n  y: 2\n- x: 5\nb: 6"));
  REQUIRE(flush.size() == 2);
  CHECK(flush[0].path == "a[1].x");
  CHECK(flush[1].path == "b");
}

TEST_CASE("run directory: of many differing keys three are named") {
  const ScratchDirectory scratch;
  begin(scratch / "run", identity_with("a: 1\nb: 1\nc: 1\nd: 1\ne: 1\n"));
  const std::string text = error_text(ExitCode::recipe, [&] {
    RunDirectory run(scratch / "run", identity_with("a: 2\nb: 2\nc: 2\nd: 2\n"));
  });
  CHECK(text.find(
            "(a is 1 there and 2 here, b is 1 there and 2 here, c is 1 there and 2 here, 2 more in d, e)") !=
        std::string::npos);
}

TEST_CASE("names: keys in braces are replaced, what is unknown is reported") {
  const std::map<std::string, std::string> values = {{"run.name", "mlp"}, {"hash", "0123abcd"}};
  const auto lookup = [&](const std::string& key) -> std::optional<std::string> {
    const auto found = values.find(key);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
  const auto expand = [&](const std::string& pattern, std::vector<std::string>& problems) {
    Diagnostics diagnostics;
    std::string text =
        expand_name(pattern, lookup, {{"r.yaml", 3, 5}, "run.output_dir"}, diagnostics, {"run.name", "hash"});
    problems = diagnostics.problems();
    return text;
  };
  std::vector<std::string> problems;
  CHECK(expand("runs/{run.name}-{hash}", problems) == "runs/mlp-0123abcd");
  CHECK(expand("{hash}{hash}/x}", problems) == "0123abcd0123abcd/x}");
  CHECK(expand("plain", problems) == "plain");
  CHECK(expand("", problems).empty());
  CHECK(problems.empty());
  expand("runs/{run.nme}-{wholly_other_thing}", problems);
  CHECK(problems ==
        std::vector<std::string>{
            "r.yaml:3:5: error: run.output_dir: {run.nme} is not a key of this recipe, did you "
            "mean {run.name}?",
            "r.yaml:3:5: error: run.output_dir: {wholly_other_thing} is not a key of this recipe"});
  expand("runs/{hash", problems);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0] == "r.yaml:3:5: error: run.output_dir: \"runs/{hash\" opens a brace that is not closed");
}

}  // namespace
}  // namespace trainer

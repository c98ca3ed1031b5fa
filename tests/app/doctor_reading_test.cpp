// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "tests/app/command.h"
#include "tests/app/images.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

nlohmann::json reading_of(const Workspace& workspace, const std::string& path) {
  const Outcome outcome = run_trainer({"doctor", "--json", "--read", path}, workspace.path());
  INFO(outcome.errors);
  CHECK(outcome.code == 0);
  return nlohmann::json::parse(outcome.output).at("reading");
}

/// The section that doctor prints about a path.
std::string text_of(const Workspace& workspace, const std::string& path) {
  const Outcome outcome = run_trainer({"doctor", "--read", path}, workspace.path());
  CHECK(outcome.code == 0);
  const size_t begin = outcome.output.find("\nreading " + path + "\n");
  REQUIRE(begin != std::string::npos);
  return outcome.output.substr(begin, outcome.output.find("\nfindings\n") - begin);
}

}  // namespace

TEST_CASE("doctor --read measures how fast files are read and images decoded") {
  const Workspace workspace;
  fill_with_images(workspace, "images/train", 3);
  workspace.write("images/labels.csv", std::string(100'000, 'x'));
  workspace.write("images/.hidden", "x");
  fs::create_directory_symlink(workspace.path() / "images", workspace.path() / "images/itself");
  const auto reading = reading_of(workspace, "images");
  CHECK(reading["files"] == 7);
  CHECK(reading["bytes"].get<int64_t>() > 100'000);
  CHECK(reading["bytes_per_second"].get<double>() > 0);
  CHECK(reading["seconds"].get<double>() > 0);
  CHECK(reading["image_files"] == 6);
  CHECK(reading["images_decoded"].get<int64_t>() > 6);
  CHECK(reading["images_per_second_of_a_core"].get<double>() > 0);
  CHECK(reading["unreadable"] == 0);
  CHECK(reading["first_unreadable"] == "");

  const std::string text = text_of(workspace, "images");
  CHECK_THAT(text, ContainsSubstring(" of 7 files in ") && ContainsSubstring("may have cached them"));
  CHECK_THAT(text, ContainsSubstring("one core reads and decodes ") && !ContainsSubstring("not readable"));
}

TEST_CASE("doctor --read names what cannot be read, and goes on") {
  const Workspace workspace;
  workspace.write("images/broken.png", "no image");
  workspace.write("images/good.png", image(true));
  fs::create_symlink("nowhere", workspace.path() / "images/absent.png");
  REQUIRE(run_shell("mkfifo images/pipe", workspace.path()).code == 0);
  const auto reading = reading_of(workspace, "images");
  CHECK(reading["files"] == 2);
  CHECK(reading["unreadable"] == 3);
  CHECK(reading["first_unreadable"] == "images/absent.png: open: No such file or directory");
  CHECK(reading["images_decoded"].get<int64_t>() > 0);
  CHECK_THAT(text_of(workspace, "images/pipe"),
             ContainsSubstring("none was read") && ContainsSubstring("images/pipe: is not a regular file\n"));
  CHECK_THAT(
      text_of(workspace, "images/broken.png"),
      ContainsSubstring("none could be decoded") && ContainsSubstring("images/broken.png: neither JPEG"));
}

TEST_CASE("doctor --read says what a folder lacks, and ends with 74 for a path that does not exist") {
  const Workspace workspace;
  fs::create_directory(workspace.path() / "empty");
  CHECK_THAT(text_of(workspace, "empty"), ContainsSubstring("none, there is nothing to read"));
  const auto empty = reading_of(workspace, "empty");
  CHECK(empty["files"] == 0);
  CHECK(empty["bytes_per_second"].is_null());
  workspace.write("text/a.txt", "words");
  CHECK_THAT(text_of(workspace, "text"),
             ContainsSubstring("images           none, by the names of the files"));
  CHECK(reading_of(workspace, "text/a.txt")["images_per_second_of_a_core"].is_null());
  workspace.write("nothing/a.txt", "");
  CHECK_THAT(text_of(workspace, "nothing"), ContainsSubstring("1, all empty"));

  const Outcome absent = run_trainer({"doctor", "--read", "nowhere"}, workspace.path());
  CHECK(absent.code == 74);
  CHECK(absent.output.empty());
  CHECK(absent.errors == "trainer: error: nowhere: open: No such file or directory\n");
  CHECK(run_trainer({"doctor", "--read", "text", "--device-json", "x"}, workspace.path()).code == 64);
  CHECK_FALSE(
      nlohmann::json::parse(run_trainer({"doctor", "--json"}, workspace.path()).output).contains("reading"));
}

}  // namespace trainer

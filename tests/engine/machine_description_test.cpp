// SPDX-License-Identifier: Apache-2.0
#include "core/engine/machine_description.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/error.h"
#include "core/engine/slowest_rank.h"
#include "core/engine/transfer_time.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

constexpr const char* kMachine = R"({"name": "two nodes", "device": "cpu", "devicesPerNode": 4,
  "withinNode": {"bytesPerSecond": 1e9, "latencySeconds": 1e-3},
  "amongNodes": {"bytesPerSecond": 5e8, "latencySeconds": 1e-2},
  "linkShare": 1,
  "sources": {"withinNode.bytesPerSecond": "test", "withinNode.latencySeconds": "test",
              "amongNodes.bytesPerSecond": "test", "amongNodes.latencySeconds": "test", "linkShare": "test"}})";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kMachine;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string problem_of(const std::string& text) {
  try {
    read_machine_description(text, "m.json");
  } catch (const Error& problem) {
    CHECK(problem.code() == ExitCode::recipe);
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every shipped machine can be read, and names the origin of its rates") {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(TRAINER_SOURCE_DIR) / "configs/machines")) {
    std::ifstream file(entry.path());
    const MachineDescription machine =
        read_machine_description({std::istreambuf_iterator<char>(file), {}}, entry.path().string());
    INFO(entry.path());
    CHECK(machine.devices_of_node >= 4);
    REQUIRE(machine.among);
    CHECK(machine.within.bytes > machine.among->bytes / static_cast<double>(machine.devices_of_node));
    CHECK(machine.link_share == kLinkShare);
    ++count;
  }
  CHECK(count >= 8);
}

TEST_CASE("a machine's file is refused with the key that is missing, wrong, unknown or without a source") {
  CHECK(problem_of(kMachine).empty());
  CHECK_THAT(problem_of("[]"), ContainsSubstring("m.json: not a machine"));
  CHECK_THAT(problem_of("{"), ContainsSubstring("m.json: not a machine"));
  CHECK_THAT(problem_of(changed("\"device\": \"cpu\", ", "")),
             ContainsSubstring("m.json: device: expected a text, got nothing"));
  CHECK_THAT(problem_of(changed("\"bytesPerSecond\": 1e9, ", "")),
             ContainsSubstring("m.json: withinNode.bytesPerSecond: expected a number"));
  CHECK_THAT(problem_of(changed("5e8", "-5")),
             ContainsSubstring("m.json: amongNodes.bytesPerSecond: expected"));
  CHECK_THAT(problem_of(changed("5e8", "\"fast\"")), ContainsSubstring("got \"fast\""));
  CHECK_THAT(problem_of(changed("\"withinNode.latencySeconds\": \"test\",", "")),
             ContainsSubstring("m.json: withinNode.latencySeconds: it has no source"));
  CHECK_THAT(
      problem_of(changed("\"withinNode.latencySeconds\": \"test\"", "\"withinNode.latencySeconds\": \"\"")),
      ContainsSubstring("it has no source"));
  CHECK_THAT(problem_of(changed("\"devicesPerNode\": 4", "\"devicesPerNode\": 1.5")),
             ContainsSubstring("m.json: devicesPerNode: expected a whole number"));
  CHECK_THAT(problem_of(changed("\"linkShare\": 1,", "\"linkshare\": 1,")),
             ContainsSubstring("m.json: linkshare: unknown key"));
  CHECK_THAT(problem_of(changed("\"linkShare\": 1,", "\"sumsInNetwork\": 1,")),
             ContainsSubstring("sumsInNetwork: expected true or false"));
}

TEST_CASE("a transfer takes its ring's time within a node, and a ring's or tree's among nodes") {
  MachineDescription machine = read_machine_description(kMachine, "m.json");
  const double bytes = 1e8;
  // Four ranks of a node: each sends three quarters twice, in six steps.
  CHECK(transfer_seconds(machine, Transfer::sum, {.ranks = 4, .stride = 1}, bytes) ==
        Approx(2 * 0.75 * 0.1 + 6 * 1e-3));
  CHECK(transfer_seconds(machine, Transfer::gather, {.ranks = 4, .stride = 1}, bytes) ==
        Approx(0.75 * 0.1 + 3 * 1e-3));
  CHECK(transfer_seconds(machine, Transfer::broadcast, {.ranks = 4, .stride = 1}, bytes) ==
        Approx(0.1 + 2 * 1e-3));
  // Two nodes: 0.2 s of the network for the ring's two halves, which is more than what happens within.
  CHECK(transfer_seconds(machine, Transfer::sum, {.ranks = 8, .stride = 1}, bytes) ==
        Approx(0.2 + 6 * 1e-3 + 2 * 1e-2));
  // One rank on each of two nodes, and three such groups beside it on the same network card.
  CHECK(transfer_seconds(machine, Transfer::sum, {.ranks = 2, .stride = 4}, bytes) ==
        Approx(4 * 0.2 + 2 * 1e-2));
  // Among 64 nodes a tree needs 12 steps where a ring needs 126.
  CHECK(transfer_seconds(machine, Transfer::sum, {.ranks = 256, .stride = 1}, 1e6) ==
        Approx(2 * 2e-3 + 6 * 1e-3 + 12 * 1e-2));
  machine.sums_in_network = true;
  CHECK(transfer_seconds(machine, Transfer::sum, {.ranks = 256, .stride = 1}, 1e8) ==
        Approx(0.2 + 6 * 1e-3 + 2 * 1e-2));
  // The next stage: on this node, or on another whose card all four ranks use.
  CHECK(transfer_seconds(machine, Transfer::message, {.ranks = 4, .stride = 1}, bytes) == Approx(0.1 + 1e-3));
  CHECK(transfer_seconds(machine, Transfer::message, {.ranks = 4, .stride = 4}, bytes) == Approx(0.8 + 1e-2));
  CHECK(transfer_seconds(machine, Transfer::sum, {.ranks = 1, .stride = 1}, bytes) == 0);
  CHECK(processor_seconds(machine, Transfer::sum, {.ranks = 4, .stride = 1}, bytes) == 0);
  machine.processor_bytes = 1e8;
  CHECK(processor_seconds(machine, Transfer::sum, {.ranks = 4, .stride = 1}, bytes) == Approx(1.5));
  machine.link_share = 0.5;
  CHECK(transfer_seconds(machine, Transfer::gather, {.ranks = 4, .stride = 1}, bytes) ==
        Approx(2 * 0.75 * 0.1 + 3 * 1e-3));
}

TEST_CASE("the slowest of several ranks") {
  // Harter, "Expected values of normal order statistics", 1961.
  CHECK(expected_largest_normal(1) == Approx(0).margin(1e-6));
  CHECK(expected_largest_normal(2) == Approx(0.56419).epsilon(1e-4));
  CHECK(expected_largest_normal(8) == Approx(1.42360).epsilon(1e-4));
  CHECK(expected_largest_normal(100) == Approx(2.50759).epsilon(1e-4));
  const std::vector<double> dice{6, 1, 5, 2, 4, 3};
  CHECK(expected_largest(dice, 1) == Approx(3.5));
  CHECK(expected_largest(dice, 2) == Approx(161.0 / 36));
  CHECK(expected_largest(dice, 1000) == Approx(6));
}

}  // namespace trainer

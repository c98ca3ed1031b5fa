// SPDX-License-Identifier: Apache-2.0
#include "core/train/replicas.h"

#include <functional>
#include <thread>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/step/stages.h"
#include "cpu/backend.h"
#include "tests/reference/networks.h"
#include "tests/reference/thread_group.h"

namespace trainer {
namespace {

/// The error of each rank, whose weights were equal until `change` was applied to those of rank 1. So many
/// ranks share a copy.
std::vector<std::string> told(size_t count, const std::function<void(Executable&)>& change,
                              int64_t shards = 1) {
  Program program = forward_program(network_from("{input: [1, 8, 8], layers: [{conv2d: {out_channels: "
                                                 "5, kernel_size: 3}}, {batch_norm: {name: norm}}, "
                                                 "flatten, {linear: {out_features: 10, name: head}}]}"),
                                    4);
  if (shards > 1) {
    run_passes(program,
               {shard_parameters({.replicas = static_cast<int64_t>(count) / shards, .shards = shards}),
                overlap_collectives(int64_t{1} << 20)});
  }
  test::ThreadGroup table(count);
  std::vector<std::string> texts(count);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      test::ThreadProcessGroup own(table, rank);
      own.arrange({.replicas = static_cast<int64_t>(count) / shards, .shards = shards});
      const Backend backend = make_cpu_backend(1, nullptr, false, &own);
      Executable executable(make_plan(program, *backend.planner, own.rank()), *backend.device, false);
      initialize(executable, 1);
      if (rank == 1) change(executable);
      try {
        require_equal_replicas(executable, own, 9);
      } catch (const Error& problem) {
        texts[rank] = problem.code() == ExitCode::internal ? problem.what() : "another code";
      }
    });
  }
  for (std::thread& each : threads) each.join();
  return texts;
}

/// Flips the lowest bit of a tensor's last number.
std::function<void(Executable&)> flip(const std::string& name) {
  return [name](Executable& executable) {
    const TensorId id = executable.tensor(name);
    REQUIRE(id != kNone);
    const Placement& place = executable.plan().placements[static_cast<size_t>(id)];
    auto* bytes = static_cast<std::byte*>(executable.address(id));
    bytes[place.bytes - 4] ^= std::byte{1};
  };
}

}  // namespace

TEST_CASE("equal replicas pass") {
  for (const std::string& text : told(3, [](Executable&) {})) CHECK(text.empty());
}

TEST_CASE("a flipped bit is found on every rank, with the rank and the tensor") {
  const std::string name = GENERATE("head.bias", "norm.running_var");
  INFO(name);
  for (const std::string& text : told(3, flip(name))) {
    CHECK_THAT(text,
               Catch::Matchers::StartsWith("after step 9 the ranks' weights are not the same: rank 1 on ") &&
                   Catch::Matchers::ContainsSubstring(" has other bits in " + name + ";") &&
                   !Catch::Matchers::ContainsSubstring("rank 0"));
  }
}

TEST_CASE("ranks that hold the same part are compared with each other") {
  for (const std::string& text : told(
           6, [](Executable&) {}, 2))
    CHECK(text.empty());
  for (const std::string& text : told(6, flip("head.weight"), 2))
    CHECK_THAT(text, Catch::Matchers::ContainsSubstring(": rank 1 on ") &&
                         Catch::Matchers::ContainsSubstring(" has other bits in head.weight;"));
}

TEST_CASE("two ranks that differ are both named") {
  for (const std::string& text : told(2, flip("head.bias")))
    CHECK_THAT(text, Catch::Matchers::ContainsSubstring("rank 0 on ") &&
                         Catch::Matchers::ContainsSubstring("and rank 1 on ") &&
                         Catch::Matchers::ContainsSubstring("have other bits"));
}

}  // namespace trainer

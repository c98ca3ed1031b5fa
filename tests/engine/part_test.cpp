// SPDX-License-Identifier: Apache-2.0
#include "core/graph/part.h"

#include <vector>

#include "tests/catch.h"

namespace trainer {
namespace {

/// Every element of the whole is in exactly one part, at one place; parts have equal shapes.
void check_partition(const Part& part) {
  std::vector<int> found(static_cast<size_t>(numel(part.whole)), 0);
  for (int64_t index = 0; index < part.count(); ++index) {
    std::vector<bool> taken(static_cast<size_t>(numel(part.shape())), false);
    for (const ElementRun& run : part.runs(index)) {
      for (int64_t i = 0; i < run.count; ++i) {
        ++found.at(static_cast<size_t>(run.in_whole + i));
        CHECK_FALSE(taken.at(static_cast<size_t>(run.in_part + i)));
        taken[static_cast<size_t>(run.in_part + i)] = true;
      }
    }
  }
  CHECK((found == std::vector<int>(found.size(), 1)));
}

}  // namespace

TEST_CASE("parts hold every element once, whatever the sections and shards") {
  const Mesh mesh{.replicas = 2, .shards = GENERATE(1, 3), .tensor = GENERATE(2, 4)};
  const bool is_sharded = GENERATE(false, true);
  check_partition(
      {.whole = {16, 5}, .mesh = mesh, .sections = Sections{0, {8, 4, 4}}, .is_sharded = is_sharded});
  check_partition(
      {.whole = {3, 24}, .mesh = mesh, .sections = Sections{1, {16, 8}}, .is_sharded = is_sharded});
  check_partition({.whole = {7, 3}, .mesh = mesh, .sections = Sections{0, {7}}, .is_sharded = is_sharded});
  check_partition({.whole = {2, 8, 3}, .mesh = mesh, .sections = Sections{1, {8}}, .is_sharded = is_sharded});
  check_partition({.whole = {3}, .mesh = mesh, .sections = Sections{0, {3}}, .is_sharded = is_sharded});
  check_partition({.whole = {5, 7}, .mesh = mesh, .is_sharded = is_sharded});
}

TEST_CASE("a rank of a mesh has the part of its coordinates, and the first such rank holds it for files") {
  const Mesh mesh{.replicas = 2, .shards = 3, .tensor = 2};
  const Part both{.whole = {8, 3}, .mesh = mesh, .sections = Sections{0, {8}}, .is_sharded = true};
  const Part rows{.whole = {8, 3}, .mesh = mesh, .sections = Sections{0, {8}}};
  const Part shards{.whole = {8, 3}, .mesh = mesh, .is_sharded = true};
  CHECK(both.count() == 6);
  CHECK(rows.count() == 2);
  CHECK(shards.count() == 3);
  for (const Part& part : {both, rows, shards}) {
    for (int64_t index = 0; index < part.count(); ++index) CHECK(part.index(part.holder(index)) == index);
  }
  CHECK(both.index(11) == 5);  // the last of the second copy
  CHECK(shards.index(11) == 2);
  CHECK(rows.index(11) == 1);
}

TEST_CASE("packed queries, keys and values are cut by sections") {
  const Part packed{.whole = {8}, .mesh = {.tensor = 2}, .sections = Sections{0, {4, 2, 2}}};
  CHECK((packed.runs(1) == std::vector<ElementRun>{{0, 2, 2}, {2, 5, 1}, {3, 7, 1}}));
}

TEST_CASE("coordinates of a mesh name each rank once") {
  const Mesh mesh{.replicas = 2, .shards = 3, .tensor = 4};
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    CHECK(((mesh.coordinate(Axis::replicas, rank) * 3 + mesh.coordinate(Axis::shards, rank)) * 4 +
           mesh.coordinate(Axis::tensor, rank)) == rank);
    for (const Axis axis : kAxes) {
      for (int64_t position = 0; position < mesh.size(axis); ++position) {
        const int64_t peer = mesh.peer(axis, rank, position);
        CHECK(mesh.coordinate(axis, peer) == position);
        for (const Axis other : {Axis::data, Axis::tensor}) {
          if (axis != other && (axis == Axis::tensor || other == Axis::tensor))
            CHECK(mesh.coordinate(other, peer) == mesh.coordinate(other, rank));
        }
      }
    }
  }
}

}  // namespace trainer

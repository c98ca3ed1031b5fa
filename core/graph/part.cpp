// SPDX-License-Identifier: Apache-2.0
#include "core/graph/part.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace trainer {
namespace {

/// Elements of one rank's shard. Vectors of it, in two bytes each too, stay aligned in the whole.
int64_t shard_elements(int64_t whole, int64_t ranks) {
  constexpr int64_t kMultiple = 16;
  const int64_t least = (whole + ranks - 1) / ranks;
  return (least + kMultiple - 1) / kMultiple * kMultiple;
}

int64_t part_of(int64_t length, int64_t ranks) {
  return (length + ranks - 1) / ranks;
}

/// The product of these dimensions.
int64_t product(const Shape& shape, size_t begin, size_t end) {
  return std::accumulate(shape.begin() + static_cast<ptrdiff_t>(begin),
                         shape.begin() + static_cast<ptrdiff_t>(end), int64_t{1}, std::multiplies<>());
}

/// Appends a run, or lengthens the last one.
void put(std::vector<ElementRun>& runs, const ElementRun& run) {
  if (run.count <= 0) return;
  if (!runs.empty() && runs.back().in_part + runs.back().count == run.in_part &&
      runs.back().in_whole + runs.back().count == run.in_whole) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

/// Of rank `rank` of those along Axis::tensor.
std::vector<ElementRun> runs_of_sections(const Shape& whole, const Sections& cut, int64_t ranks,
                                         int64_t rank) {
  const int64_t inner = product(whole, cut.dimension + 1, whole.size());
  const int64_t outer = product(whole, 0, cut.dimension);
  const int64_t length = whole[cut.dimension], own = cut.part(ranks);
  std::vector<ElementRun> runs;
  for (int64_t o = 0; o < outer; ++o) {
    int64_t in_part = o * own, in_whole = o * length;
    for (const int64_t section : cut.lengths) {
      const int64_t part = part_of(section, ranks), first = std::min(section, part * rank);
      put(runs, {.in_part = in_part * inner,
                 .in_whole = (in_whole + first) * inner,
                 .count = std::min(part, section - first) * inner});
      in_part += part;
      in_whole += section;
    }
  }
  return runs;
}

}  // namespace

int64_t Sections::part(int64_t ranks) const {
  int64_t sum = 0;
  for (const int64_t length : lengths) sum += part_of(length, ranks);
  return sum;
}

int64_t Part::count() const {
  return (sections ? mesh.tensor : 1) * (is_sharded ? mesh.shards : 1);
}

int64_t Part::index(int64_t rank) const {
  const int64_t along_tensor = sections ? mesh.coordinate(Axis::tensor, rank) : 0;
  const int64_t shard = is_sharded ? mesh.coordinate(Axis::shards, rank) : 0;
  return shard * (sections ? mesh.tensor : 1) + along_tensor;
}

int64_t Part::holder(int64_t index) const {
  return sections ? index / mesh.tensor * mesh.tensor + index % mesh.tensor : index * mesh.tensor;
}

Shape Part::shape_of_shards() const {
  Shape shape = whole;
  if (sections) shape[sections->dimension] = sections->part(mesh.tensor);
  return shape;
}

Shape Part::shape() const {
  return is_sharded ? Shape{shard_elements(numel(shape_of_shards()), mesh.shards)} : shape_of_shards();
}

std::vector<ElementRun> Part::runs(int64_t index) const {
  const int64_t tensor = sections ? mesh.tensor : 1;
  std::vector<ElementRun> all = sections ? runs_of_sections(whole, *sections, tensor, index % tensor)
                                         : std::vector<ElementRun>{{0, 0, numel(whole)}};
  if (!is_sharded) return all;
  const int64_t length = numel(shape()), begin = index / tensor * length, end = begin + length;
  std::vector<ElementRun> own;
  for (const ElementRun& run : all) {
    const int64_t from = std::max(begin, run.in_part), to = std::min(end, run.in_part + run.count);
    put(own, {.in_part = from - begin, .in_whole = run.in_whole + from - run.in_part, .count = to - from});
  }
  return own;
}

}  // namespace trainer

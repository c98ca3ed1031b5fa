// SPDX-License-Identifier: Apache-2.0
#include "core/engine/layout.h"

#include <algorithm>
#include "tests/catch.h"

#include "core/graph/ops/conv2d.h"
#include "core/graph/ops/linear.h"
#include "core/graph/ops/reshape.h"
#include "cpu/backend.h"
#include "tests/reference/session.h"

using namespace trainer;

namespace {

/// Weights that a convolution (or a linear layer after one) keeps in its own layout, and copies of them,
/// both ways, that the backend reorders.
struct Weights {
  Shape conv, linear;
};

Program program_with(const Weights& shapes) {
  Program program;
  for (const char* name : {"use", "put"}) {
    program.entries.emplace_back(name);
  }
  Builder use(program, program.entries[0]);
  Builder put(program, program.entries[1]);
  const int64_t side = 6;
  const TensorId x = program.input("x", {{2, shapes.conv[1], side, side}, DType::f32});
  auto parameter = [&](const std::string& name, const Shape& shape) {
    const TensorId id = program.persistent(name, {shape, DType::f32}, Role::parameter, {});
    put.assign(id, program.input("new " + name, {shape, DType::f32}));
    return id;
  };
  const TensorId w = parameter("conv", shapes.conv), v = parameter("linear", shapes.linear);
  const Conv2dGeometry geometry{.kernel = {shapes.conv[2], shapes.conv[3]},
                                .padding = {shapes.conv[2] / 2, shapes.conv[3] / 2}};
  const TensorId y = use.emit<Conv2d>({x, w, kNone}, geometry);
  const TensorId features = use.emit<Reshape>({y}, Shape{2, shapes.linear[1]});
  use.emit<Linear>({features, v, kNone});
  program.entries[0].outputs = {{"conv", w}, {"linear", v}};
  return program;
}

std::vector<float> numbered(int64_t count, float first) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return values;
}

bool equal(const std::vector<double>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, float y) { return x == y; });
}

/// Stored elements that are not zero: padding must be zero, so their number is the tensor's.
int64_t stored_non_zero(const Executable& executable, TensorId id) {
  const auto index = static_cast<size_t>(id);
  const int64_t stored = stored_elements(executable.plan().placements[index].layout,
                                         executable.plan().tensors[index].spec.shape);
  const auto* data = static_cast<const float*>(executable.address(id));
  return std::count_if(data, data + stored, [](float value) { return value != 0; });
}

}  // namespace

TEST_CASE("places of a blocked layout are where oneDNN puts the elements") {
  const auto cpu = make_cpu_backend(2);
  int blocked = 0, padded = 0;
  for (const Weights& shapes : {Weights{{32, 16, 3, 3}, {10, 32 * 36}}, Weights{{17, 3, 3, 3}, {13, 17 * 36}},
                                Weights{{33, 31, 1, 1}, {48, 33 * 36}}, Weights{{64, 1, 5, 5}, {17, 64 * 36}},
                                Weights{{5, 34, 3, 1}, {1, 5 * 36}}}) {
    Session session(program_with(shapes), cpu);
    for (const std::string name : {"conv", "linear"}) {
      const TensorId id = session.id(name);
      const auto index = static_cast<size_t>(id);
      const int64_t count = numel(session.executable().plan().tensors[index].spec.shape);
      const Layout& layout = session.executable().plan().placements[index].layout;
      INFO(name << " " << to_string(layout));
      blocked += !layout.row_major();
      padded += layout.has_padding();

      const std::vector<float> written = numbered(count, 1);
      session.set(name, written);
      CHECK((session.executable().read(id) == written));
      CHECK(stored_non_zero(session.executable(), id) == count);
      session.run("use");  // the output is row-major: reordered by oneDNN
      CHECK(equal(session.output("use", name), written));

      const std::vector<float> other = numbered(count, 1000000);
      session.set("new " + name, other);
    }
    session.run("put");  // the state is blocked: reordered by oneDNN
    for (const std::string name : {"conv", "linear"}) {
      const int64_t count =
          numel(session.executable().plan().tensors[static_cast<size_t>(session.id(name))].spec.shape);
      CHECK(equal(session.persistent(name), numbered(count, 1000000)));
      CHECK(stored_non_zero(session.executable(), session.id(name)) == count);
    }
  }
  CHECK(blocked >= 3);
  CHECK(padded >= 1);
}

TEST_CASE("a blocked layout by hand") {
  // (3, 2) with the first dimension in blocks of two: Ab2a
  const Layout layout{
      .dims = {3, 2}, .padded = {4, 2}, .strides = {4, 2}, .block_sizes = {2}, .block_dims = {0}};
  CHECK(to_string(layout) == "Ab2a");
  CHECK(layout.has_padding());
  CHECK(stored_elements(layout, {3, 2}) == 8);
  std::vector<int64_t> places;
  for_each_place(layout, {3, 2}, [&](int64_t place) { places.push_back(place); });
  CHECK(places == std::vector<int64_t>{0, 2, 1, 3, 4, 6});
  CHECK(to_string(Layout{}) == "row-major");
  CHECK(stored_elements(Layout{}, {3, 2}) == 6);
}

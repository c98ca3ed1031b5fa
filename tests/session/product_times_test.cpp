// SPDX-License-Identifier: Apache-2.0
#include "core/session/product_times.h"

#include "tests/catch.h"

#include "core/graph/ops/linear.h"
#include "core/passes/pass.h"
#include "cpu/backend.h"
#include "tests/passes/draft.h"

namespace trainer {
namespace {

/// Products `a` and `c` of one input, and `b` of the result of `a`.
Draft three_products() {
  Draft draft;
  draft.program.entries[0].name = entry_name::kPredict;
  const auto linear = [&](TensorId x, const char* name) {
    return draft.build.emit<Linear>({x, draft.parameter(name, {3, 3})});
  };
  const TensorId x = draft.input("x", {2, 3});
  const TensorId a = linear(x, "a");
  draft.output("b", linear(a, "b"));
  draft.output("c", linear(x, "c"));
  return draft;
}

std::set<std::string> slower(const TimesOfProducts& times) {
  std::set<std::string> names;
  for (const auto& [name, seconds] : slower_products(three_products().program, times)) names.insert(name);
  return names;
}

constexpr ProductTimes kFollowing{.f32 = 9, .int8 = 5, .conversion = 5};

}  // namespace

TEST_CASE("products in 8 bits share the conversion of their input, and need none of another's bytes") {
  const ProductTimes a{.f32 = 10, .int8 = 6, .conversion = 6};
  CHECK(slower({{"a", a}, {"b", kFollowing}, {"c", {.f32 = 10, .int8 = 6, .conversion = 6}}}).empty());
  // `c` leaves. Then `a` pays for the conversion alone and leaves, and so does `b`, which read its bytes.
  CHECK(slower({{"a", a}, {"b", kFollowing}, {"c", {.f32 = 10, .int8 = 8, .conversion = 6}}}) ==
        std::set<std::string>{"a", "b", "c"});
  CHECK(slower({{"a", {.f32 = 12.5, .int8 = 6, .conversion = 6}},
                {"b", kFollowing},
                {"c", {.f32 = 10, .int8 = 8, .conversion = 6}}}) == std::set<std::string>{"c"});
}

TEST_CASE("products are timed in both types, with the conversion of their input") {
  const Backend cpu = make_cpu_backend(1);
  Int8Network network;
  for (const char* name : {"a", "c"}) network.inputs[name] = {.low = -1, .high = 1};
  int between = 0;
  const TimesOfProducts times = time_products(three_products().program, network, cpu, [&] { ++between; });
  CHECK(between == 2);
  REQUIRE(times.size() == 2);
  for (const auto& [name, seconds] : times) {
    INFO(name);
    for (const double each : {seconds.f32, seconds.int8, seconds.conversion}) {
      CHECK(each > 0);
      CHECK(each < 1);
    }
  }
}

}  // namespace trainer

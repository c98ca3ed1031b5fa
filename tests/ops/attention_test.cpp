// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include "tests/catch.h"

#include "core/graph/ops/linear.h"
#include "core/step/stages.h"
#include "cpu/backend.h"
#include "tests/ops/attention.h"
#include "tests/ops/harness.h"
#include "tests/reference/backend.h"
#include "tests/reference/session.h"

using namespace trainer;
using Catch::Matchers::ContainsSubstring;

namespace {

void check_attention(const AttentionCase& c, int seeds = 1) {
  check_program(
      to_string(c), [&](Sketch& sketch) { draft_attention(sketch, c); }, seeds);
}

/// On the CPU and in bf16 only, if finite differences would take long.
void check_large_attention(const AttentionCase& c) {
  INFO(to_string(c));
  const Draft draft = [&](Sketch& sketch) { draft_attention(sketch, c); };
  check_cpu(draft, 1);
  check_bf16(draft, 1);
}

/// y and the logarithms of sums of one attention, from given values.
std::map<std::string, std::vector<double>> attended(const Backend& backend, const AttentionCase& c,
                                                    const std::map<std::string, std::vector<float>>& values) {
  Sketch sketch(1);
  const std::vector<TensorId> made = emit_attention(sketch, c);
  sketch.output("y", made[0]);
  sketch.output("log_sum", made[1]);
  Session session(sketch.program, backend);
  for (const auto& [name, given] : values) sketch.values[name] = given;
  session.set(sketch.values);
  session.run(entry_name::kTrainStep);
  return {{"y", session.output(entry_name::kTrainStep, "y")},
          {"log_sum", session.output(entry_name::kTrainStep, "log_sum")}};
}

std::string refusal(const AttentionSettings& settings, std::vector<Shape> shapes) {
  shapes.resize(attention_input::kInputCount);
  std::vector<TensorSpec> inputs;
  for (size_t i = 0; i < shapes.size(); ++i)
    inputs.push_back({shapes[i], i < attention_input::kFirstPosition ? DType::f32 : DType::i32});
  try {
    Attention(settings).infer(inputs);
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "fine";
}

}  // namespace

TEST_CASE("attention has the right values and gradients at all lengths") {
  check_attention({.samples = 2, .heads = 3, .size = 5, .constant = true}, 2);
  check_attention({.heads = 2, .kv_heads = 1, .size = 33, .causal = true, .constant = true});
  for (const int64_t length : {2, 31, 33}) {
    for (const bool causal : {false, true}) {
      check_attention({.samples = 2, .queries = length, .heads = 3, .size = 5, .causal = causal}, 2);
      check_attention({.queries = length, .heads = 2, .size = 33, .causal = causal, .packed = true});
      check_attention({.samples = 3, .queries = length, .heads = 1, .size = 1, .causal = causal});
    }
  }
}

TEST_CASE("query heads share the heads of keys and values") {
  for (const bool packed : {false, true}) {
    for (const int64_t kv_heads : {1, 2, 3}) {
      check_attention({.samples = 2,
                       .queries = 9,
                       .heads = 6,
                       .kv_heads = kv_heads,
                       .size = 7,
                       .causal = true,
                       .packed = packed});
      check_large_attention(
          {.samples = 2, .queries = 65, .heads = 6, .kv_heads = kv_heads, .size = 16, .packed = packed});
    }
  }
}

TEST_CASE("a window limits how far back a query sees") {
  check_attention({.queries = 33, .heads = 2, .size = 4, .causal = true, .window = 1, .constant = true});
  for (const int64_t window : {2, 5, 16, 17, 30, 33, 100}) {
    check_attention({.queries = 33, .heads = 2, .size = 4, .causal = true, .window = window});
    check_large_attention({.samples = 2,
                           .queries = 300,
                           .heads = 2,
                           .kv_heads = 1,
                           .size = 8,
                           .causal = true,
                           .window = window,
                           .packed = true});
  }
}

TEST_CASE("queries from a position on see all keys before") {
  for (const int64_t first : {0, 1, 4, 12}) {
    for (const bool causal : {false, true}) {
      for (const int64_t window : {0, 3}) {
        if (window > 0 && !causal) continue;
        check_attention({.samples = 2,
                         .queries = 5,
                         .keys = 17,
                         .heads = 4,
                         .kv_heads = 2,
                         .size = 3,
                         .causal = causal,
                         .window = window,
                         .first = first});
      }
    }
  }
  check_large_attention(
      {.queries = 1, .keys = 1000, .heads = 6, .kv_heads = 2, .size = 64, .causal = true, .first = 999});
  check_large_attention({.queries = 1, .keys = 400, .heads = 3, .size = 40, .causal = true, .first = 200});
  check_large_attention({.queries = 130, .keys = 400, .heads = 2, .size = 24, .causal = true, .first = 200});
}

TEST_CASE("queries see no other document") {
  for (const bool causal : {false, true}) {
    for (const int64_t window : {0, 4}) {
      if (window > 0 && !causal) continue;
      check_attention({.samples = 3,
                       .queries = 31,
                       .heads = 2,
                       .size = 4,
                       .causal = causal,
                       .window = window,
                       .packed = true,
                       .documents = true});
      check_large_attention({.samples = 2,
                             .queries = 300,
                             .heads = 2,
                             .size = 16,
                             .causal = causal,
                             .window = window,
                             .documents = true});
    }
  }
}

TEST_CASE("dropout draws for each probability, again for the gradient") {
  for (const bool packed : {false, true}) {
    for (const int64_t length : {2, 6, 33}) {
      check_attention({.samples = 2,
                       .queries = length,
                       .heads = 4,
                       .kv_heads = 2,
                       .size = 5,
                       .causal = true,
                       .packed = packed,
                       .dropout = 0.3});
    }
    check_large_attention({.samples = 2,
                           .queries = 197,
                           .heads = 2,
                           .size = 16,
                           .causal = false,
                           .packed = packed,
                           .documents = true,
                           .dropout = 0.2});
  }
}

TEST_CASE("long sequences, wide heads and a scale of one's own") {
  check_large_attention({.queries = 700, .heads = 2, .size = 64, .causal = true, .packed = true});
  check_large_attention({.queries = 513, .heads = 1, .size = 130});
  check_large_attention(
      {.samples = 3, .queries = 129, .heads = 1, .size = 31, .causal = true, .scale = 0.01});
  check_attention({.queries = 8, .heads = 2, .size = 4, .scale = 0.9});
}

TEST_CASE("attention to equal keys is the mean of the values, and the logarithm is that of their number") {
  const AttentionCase c{.queries = 40, .heads = 1, .size = 2, .causal = true};
  std::vector<float> v(80);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 2 == 0 ? i / 2 : 1);
  const std::map<std::string, std::vector<float>> values = {
      {"q", std::vector<float>(80, 3.0f)}, {"k", std::vector<float>(80, -0.5f)}, {"v", v}};
  const auto cpu = make_cpu_backend(2);
  const auto found = attended(cpu, c, values);
  for (size_t t = 0; t < 40; ++t) {
    CHECK(found.at("y")[2 * t] == Approx(static_cast<double>(t) / 2).margin(1e-5));
    CHECK(found.at("y")[2 * t + 1] == Approx(1));
    CHECK(found.at("log_sum")[t] == Approx(std::log(t + 1.0) - 3 / std::sqrt(2.0)));
  }
}

TEST_CASE("scores of any size leave finite numbers, and a query without keys gets zeros") {
  const Backend reference = make_reference_backend();
  const auto cpu = make_cpu_backend(2);
  const AttentionCase c{.queries = 50, .heads = 1, .size = 1, .causal = true, .documents = true, .scale = 1};
  std::map<std::string, std::vector<float>> values;
  for (const char* name : {"q", "k", "v", "start"}) values[name].resize(50);
  for (size_t t = 0; t < 50; ++t) {
    values["q"][t] = t % 3 == 0 ? 1e4f : -30.0f;
    values["k"][t] = std::ldexp(t % 2 == 0 ? 1.0f : -1.0f, static_cast<int>(t % 20) - 5);
    values["v"][t] = static_cast<float>(t);
    values["start"][t] = t == 20 || t == 49 ? static_cast<float>(t + 1) : 0.0f;
  }
  const auto expected = attended(reference, c, values), found = attended(cpu, c, values);
  for (size_t t = 0; t < 50; ++t) {
    INFO("query " << t);
    CHECK(found.at("y")[t] == Approx(expected.at("y")[t]).epsilon(1e-5));
    if (t == 20 || t == 49) {
      CHECK(found.at("y")[t] == 0);
      CHECK(found.at("log_sum")[t] == -std::numeric_limits<double>::infinity());
    } else {
      CHECK(found.at("log_sum")[t] == Approx(expected.at("log_sum")[t]).epsilon(1e-6));
    }
  }
}

TEST_CASE("attention has the same bits whichever thread does what") {
  const AttentionCase c{.samples = 3, .queries = 150, .heads = 4, .kv_heads = 2, .size = 16, .causal = true};
  std::vector<std::map<std::string, std::vector<double>>> runs;
  for (const int threads : {1, 2, 3}) {
    const auto cpu = make_cpu_backend(threads);
    for (int i = 0; i < 3; ++i) runs.push_back(attended(cpu, c, {}));
  }
  for (const auto& run : runs) CHECK(run == runs[0]);
}

TEST_CASE("attention refuses shapes that do not fit") {
  const AttentionSettings settings{.heads = 4, .kv_heads = 2};
  CHECK(refusal(settings, {{2, 5, 8}, {2, 5, 4}, {2, 5, 4}}) == "fine");
  CHECK(refusal(settings, {{2, 5, 16}}) == "fine");
  CHECK(refusal({.heads = 4, .kv_heads = 3}, {{2, 5, 8}}) ==
        "heads must be a multiple of kv_heads, got 4 and 3");
  CHECK(refusal(settings, {{2, 5, 10}, {2, 5, 4}, {2, 5, 4}}) ==
        "the query has 10 features, which 4 heads do not divide");
  CHECK(refusal(settings, {{2, 5, 8}, {2, 5, 5}, {2, 5, 5}}) ==
        "the key has 5 features, which 2 heads do not divide");
  CHECK(refusal(settings, {{2, 5, 12}}) ==
        "the packed input has 12 features, which 4 heads of queries and twice 2 of keys and values do not "
        "divide; put `linear: 24` before it for queries, keys and values of these features");
  CHECK(refusal(settings, {{2, 5, 8}, {2, 5, 4}}) ==
        "takes queries, keys and values packed in one input, or all three apart");
  CHECK(refusal(settings, {{2, 5, 8}, {2, 5, 4}, {2, 6, 4}}) ==
        "key and value must have one shape, got 2x5x4 and 2x6x4");
  CHECK(refusal(settings, {{2, 5, 8}, {3, 5, 4}, {3, 5, 4}}) ==
        "queries of 2 samples met keys of 3, shapes 2x5x8 and 3x5x4");
  CHECK(refusal(settings, {{2, 5, 8}, {2, 5, 6}, {2, 5, 6}}) ==
        "a query head of 2 features met a key head of 3: 8 features in 4 heads and 6 in 2");
  CHECK(refusal(settings, {{2, 5, 8}, {2, 7, 4}, {2, 7, 4}}) == "needs as many keys as queries, got 7 and 5");
  CHECK(refusal(settings, {{2, 5, 8}, {2, 7, 4}, {2, 7, 4}, {1}}) == "fine");
  CHECK(refusal(settings, {{2, 5, 8}, {2, 4, 4}, {2, 4, 4}, {1}}) ==
        "5 queries from a position on need a key and value for each");
  CHECK(refusal(settings, {{2, 5, 8}, {2, 5, 4}, {2, 5, 4}, {}, {2, 4}}) ==
        "needs the document's start for each of 5 queries of 2 samples");
  CHECK(refusal(settings, {{2, 5}}) ==
        "expected the packed input as a sequence (N, T, features), got shape 2x5");
  CHECK(refusal({.heads = 2, .kv_heads = 2, .window = 3}, {{2, 5, 12}}) ==
        "a window is for causal attention only");
  CHECK_THAT(refusal({.heads = 4, .kv_heads = 2, .dropout = DropoutSettings{}}, {{2, 5, 16}}),
             ContainsSubstring("dropout needs one index per sample"));
}

TEST_CASE("attention counts the pairs that see each other") {
  auto flops = [](const AttentionSettings& settings, int64_t queries, int64_t keys) {
    std::vector<TensorSpec> inputs(attention_input::kInputCount);
    inputs[0].shape = {3, queries, 10};
    inputs[1].shape = inputs[2].shape = {3, keys, 10};
    return Attention(settings).flops(inputs, {});
  };
  auto counted = [](const AttentionSettings& settings, int64_t queries, int64_t keys) {
    double pairs = 0;
    for (int64_t t = 0; t < queries; ++t) {
      const auto seen = settings.keys_of(keys - queries + t, keys, 0);
      pairs += static_cast<double>(seen.end - seen.first);
    }
    return 4 * 10 * 3 * pairs;
  };
  for (const bool causal : {false, true}) {
    for (const int64_t window : {0, 1, 4, 9, 30}) {
      if (window > 0 && !causal) continue;
      const AttentionSettings settings{.heads = 2, .kv_heads = 2, .causal = causal, .window = window};
      for (const auto& [queries, keys] : {std::pair{1, 1}, {9, 9}, {1, 20}, {7, 20}})
        CHECK(flops(settings, queries, keys) == counted(settings, queries, keys));
    }
  }
}

TEST_CASE("an unwanted gradient is not computed, and the text tells the rule") {
  Sketch sketch(1);
  Builder& build = sketch.build();
  const TensorId x = sketch.input("x", {2, 9, 8}), w = sketch.parameter("w", {8, 8});
  const TensorId q = build.emit<Linear>({x, w, kNone});
  std::vector<TensorId> inputs{q, x, x};
  inputs.resize(attention_input::kInputCount, kNone);
  const TensorId y =
      build.emit<Attention>(inputs, AttentionSettings{.heads = 2, .kv_heads = 2, .causal = true});
  sketch.loss(y);
  run_passes(sketch.program, {autodiff()});
  sketch.output("dw", sketch.program.entries[0].gradients[0].gradient);
  run_passes(sketch.program, {dead_code()});
  const std::string text = to_text(sketch.program);
  CHECK_THAT(text, ContainsSubstring("{heads=2 causal}"));
  INFO(text);
  const Node* backward = nullptr;
  for (const Node& node : sketch.program.entries[0].nodes)
    if (node.op->name() == "attention_backward") backward = &node;
  REQUIRE(backward != nullptr);
  CHECK(backward->outputs[0] != kNone);
  CHECK(backward->outputs[1] == kNone);
  CHECK(backward->outputs[2] == kNone);
}

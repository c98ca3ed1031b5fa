// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>
#include "tests/catch.h"

#include "core/graph/ops/cross_entropy.h"
#include "core/graph/ops/cross_entropy_sums.h"
#include "tests/cuda/cases.h"
#include "tests/reference/session.h"

namespace trainer {
namespace {

constexpr const char* kEntry = "train_step";
constexpr int64_t kKeptRows = 4;
constexpr float kWeights[kKeptRows] = {1, 0, 2, 0.5f};
constexpr int32_t kLabels[kKeptRows] = {0, 2, 1, 2};
/// A softmax that no logits have: the gradient must follow from it.
constexpr float kLargest = 1, kSum = 8;

/// The loss of logits (N, C) with the softmax that it keeps, and the gradient that follows from a given one.
Program program_of(int64_t classes, bool sums) {
  Program program;
  program.entries.emplace_back(kEntry);
  Builder build(program, program.entries[0]);
  const TensorId logits = program.input("logits", {{kKeptRows, classes}, DType::f32}),
                 labels = program.input("labels", {{kKeptRows}, DType::i32}),
                 weights = program.input("weights", {{kKeptRows}, DType::f32}),
                 one = program.input("one", {{1}, DType::f32}),
                 given = program.input("given", {{kKeptRows, 2}, DType::f32});
  auto& outputs = program.entries[0].outputs;
  if (sums) {
    const auto y = build.emit_all(std::make_shared<CrossEntropySums>(CrossEntropySettings{}),
                                  {logits, labels, weights, kNone});
    outputs = {{"loss", y[CrossEntropySums::kLoss]},
               {"softmax", y[CrossEntropySums::kSoftmax]},
               {"gradient", build.emit<CrossEntropySumsBackward>({one, logits, labels, weights, kNone, given},
                                                                 CrossEntropySettings{})}};
  } else {
    const auto y = build.emit_all(std::make_shared<CrossEntropy>(0.0), {logits, labels, weights});
    outputs = {{"loss", y[CrossEntropy::kLoss]},
               {"softmax", y[CrossEntropy::kSoftmax]},
               {"gradient",
                build.emit<CrossEntropyBackward>({one, logits, labels, weights, kNone, kNone, given}, 0.0)}};
  }
  return program;
}

void check_rows(const Backend& backend, int64_t classes, bool sums) {
  CAPTURE(classes, sums);
  Session session(program_of(classes, sums), backend);
  std::vector<float> logits, given;
  for (int64_t i = 0; i < kKeptRows * classes; ++i) logits.push_back(static_cast<float>(i * 7 % 11) / 2 - 2);
  for (int64_t row = 0; row < kKeptRows; ++row) given.insert(given.end(), {kLargest, kSum});
  session.set({{"logits", logits},
               {"labels", {std::begin(kLabels), std::end(kLabels)}},
               {"weights", {std::begin(kWeights), std::end(kWeights)}},
               {"one", {1}},
               {"given", given}});
  session.run(kEntry);
  const std::vector<double> softmax = session.output(kEntry, "softmax"),
                            gradient = session.output(kEntry, "gradient");
  for (int64_t row = 0; row < kKeptRows; ++row) {
    const auto first = static_cast<size_t>(row * classes), width = static_cast<size_t>(classes);
    const double largest = *std::max_element(&logits[first], &logits[first] + width);
    double sum = 0, distance = 0;
    for (size_t c = 0; c < width; ++c) {
      sum += std::exp(logits[first + c] - largest);
      const double p = std::exp(double{logits[first + c]} - kLargest) / kSum,
                   target = c == static_cast<size_t>(kLabels[row]) ? 1 : 0;
      distance = std::max(distance, std::abs(gradient[first + c] - kWeights[row] * (p - target)));
    }
    CHECK(softmax[static_cast<size_t>(2 * row)] == largest);
    CHECK(std::abs(softmax[static_cast<size_t>(2 * row + 1)] - sum) <= 1e-6 * sum);
    CHECK(distance < 1e-6);
  }
}

}  // namespace

void check_kept_softmax(const Backend& backend) {
  for (const int64_t classes : {int64_t{3}, int64_t{37}, int64_t{1031}}) {
    for (const bool sums : {false, true}) check_rows(backend, classes, sums);
  }
}

}  // namespace trainer

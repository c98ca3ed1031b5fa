// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/windows.h"

#include <algorithm>
#include <set>
#include "tests/catch.h"

#include "core/data/batch_maker.h"
#include "core/data/section.h"
#include "core/graph/names.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

/// A text of bytes 0, 1, 2, …, so that a token is its place.
TokenStream places(const TemporaryFolder& folder, int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i));
  write_file(folder.path("text"), bytes);
  return TokenStream({open_text_piece(folder.path("text"))});
}

BatchInputs inputs(int64_t length) {
  return {{.name = input_name::kTokens, .dtype = DType::i32, .row = {length}},
          {.name = input_name::kLabels, .dtype = DType::i32, .row = {length}},
          {.name = input_name::kWeights, .dtype = DType::f32, .row = {}}};
}

/// Where the windows of a number of batches begin; each must be consecutive, its labels one further.
template <class Batches>
std::vector<int32_t> begins(const DataSource& source, const Batches& batches, int64_t rows, int64_t count) {
  const int64_t length = source.sample_shape()[0];
  const DataSection section;
  const TrainingBatches* training = nullptr;
  if constexpr (std::is_same_v<Batches, TrainingBatches>) training = &batches;
  const RowRequest request{.section = section,
                           .split = Split::train,
                           .network_shape = {length},
                           .inputs = inputs(length),
                           .training = training};
  const BatchMaker maker(source.rows(request), request.inputs, batches);
  std::vector<std::byte> memory(static_cast<size_t>(batch_bytes(request.inputs, rows)) + 64);
  Batch batch(memory.data(), request.inputs, rows);
  const auto own = maker.reader().make_memory();
  std::vector<int32_t> found;
  for (int64_t number = 0; number < count; ++number) {
    maker.make(number, batch, *own, std::atomic<bool>{false});
    for (int64_t row = 0; row < batch.real; ++row) {
      const int32_t* tokens = batch.row<int32_t>(0, row);
      const int32_t* labels = batch.row<int32_t>(1, row);
      found.push_back(tokens[0]);
      for (int64_t t = 0; t < length; ++t) {
        CHECK(tokens[t] == tokens[0] + t);
        CHECK(labels[t] == tokens[t] + 1);
      }
    }
  }
  return found;
}

TEST_CASE("evaluation reads windows one after the other, and what does not fill one is left out") {
  const TemporaryFolder folder;
  for (const int64_t tokens : {6, 10, 11, 15, 16, 200}) {
    const WindowRequest request{.begin = 0, .end = tokens, .length = 5, .vocabulary = 256};
    const auto source = token_windows(places(folder, tokens), request);
    REQUIRE(source->size() == (tokens - 1) / 5);
    CHECK(source->sample_shape() == Shape{5});
    std::vector<int32_t> expected;
    for (int64_t i = 0; i < source->size(); ++i) expected.push_back(static_cast<int32_t>(i * 5));
    CHECK(begins(*source, EvaluationBatches{.samples = source->size(), .batch = 2}, 2,
                 (source->size() + 1) / 2) == expected);
  }
}

TEST_CASE("each epoch of training has its own border, and windows that do not overlap") {
  const TemporaryFolder folder;
  for (const int64_t tokens : {6, 7, 11, 12, 100, 103}) {
    const WindowRequest request{
        .begin = 0, .end = tokens, .length = 5, .vocabulary = 256, .shifts = true, .seed = 3};
    const auto source = token_windows(places(folder, tokens), request);
    const int64_t size = source->size();
    REQUIRE(size == std::max<int64_t>(1, (tokens - 5) / 5));
    const TrainingBatches batches{.seed = 3, .order = TrainingOrder(size, 1, true), .micro_batch = 1};
    constexpr int64_t kEpochs = 40;
    const std::vector<int32_t> all = begins(*source, batches, 1, size * kEpochs);
    std::set<int32_t> shifts;
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const std::set<int32_t> epoch_begins(all.begin() + epoch * size, all.begin() + (epoch + 1) * size);
      REQUIRE(static_cast<int64_t>(epoch_begins.size()) == size);
      const int32_t shift = *epoch_begins.begin();
      CHECK(*epoch_begins.rbegin() == shift + (size - 1) * 5);
      CHECK(shift + size * 5 + 1 <= tokens);
      shifts.insert(shift);
    }
    const int64_t possible = std::min<int64_t>(5, tokens - size * 5);
    CHECK(static_cast<int64_t>(shifts.size()) == possible);
    // Evaluation of the same windows begins at the first token.
    CHECK(begins(*source, EvaluationBatches{.samples = 1, .batch = 1}, 1, 1) == std::vector<int32_t>{0});
  }
}

TEST_CASE("a document begins behind the token that ends the one before, or with the window") {
  const TemporaryFolder folder;
  write_file(folder.path("text"), std::string("ab.cd..e.fgh", 12));
  const WindowRequest request{.begin = 0, .end = 12, .length = 5, .vocabulary = 256, .end_of_text = '.'};
  const auto source = token_windows(TokenStream({open_text_piece(folder.path("text"))}), request);
  BatchInputs wanted = inputs(5);
  wanted.push_back({.name = input_name::kDocumentStart, .dtype = DType::i32, .row = {5}});
  const DataSection section;
  const RowRequest rows{.section = section, .split = Split::val, .network_shape = {5}, .inputs = wanted};
  const BatchMaker maker(source->rows(rows), wanted, EvaluationBatches{.samples = 2, .batch = 3});
  std::vector<std::byte> memory(static_cast<size_t>(batch_bytes(wanted, 3)) + 64);
  Batch batch(memory.data(), wanted, 3);
  maker.make(0, batch, *maker.reader().make_memory(), std::atomic<bool>{false});
  const int32_t* starts = batch.find<int32_t>(input_name::kDocumentStart);
  // "ab.cd", "..e.f", and a row that holds no sample
  CHECK(std::vector<int32_t>(starts, starts + 15) ==
        std::vector<int32_t>{0, 0, 0, 3, 3, 0, 1, 2, 2, 4, 0, 0, 0, 0, 0});
}

TEST_CASE("windows of a part stay in it, and too few tokens for one are refused") {
  const TemporaryFolder folder;
  const auto source =
      token_windows(places(folder, 60), {.begin = 40, .end = 60, .length = 7, .vocabulary = 256});
  CHECK(begins(*source, EvaluationBatches{.samples = source->size(), .batch = 1}, 1, 2) ==
        std::vector<int32_t>{40, 47});
  CHECK(data_error([&] {
          token_windows(places(folder, 60), {.begin = 53, .end = 60, .length = 7, .vocabulary = 256});
        }) ==
        folder.path("text") + ": expected at least 8 tokens, model.input and the one after it, found 7");
}

}  // namespace
}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/synthetic.h"

#include <algorithm>
#include <map>
#include "tests/catch.h"

#include "core/data/batch_maker.h"
#include "core/data/formats.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

constexpr int64_t kLength = 40;

/// The tokens of a split's windows and the one after each, one window after the other.
std::vector<int32_t> made_up(Split split, uint64_t seed, int64_t vocabulary) {
  const DataSection section =
      read_section("{format: synthetic, synthetic: {train_samples: 50, val_samples: 50}}");
  SourceRequest request{.split = split, .network_shape = {kLength}, .network_classes = vocabulary};
  request.seed = seed;
  request.network_kind = InputKind::tokens;
  const auto source = open_source(section, request);
  CHECK(peek_source(section, request)->size == source->size());
  CHECK(peek_source(section, request)->label_bytes == 50 * kLength);
  const BatchInputs inputs = {{.name = input_name::kTokens, .dtype = DType::i32, .row = {kLength}},
                              {.name = input_name::kLabels, .dtype = DType::i32, .row = {kLength}}};
  const auto reader =
      source->rows({.section = section, .split = split, .network_shape = {kLength}, .inputs = inputs});
  std::vector<std::byte> memory(static_cast<size_t>(batch_bytes(inputs, 1)) + 64);
  Batch batch(memory.data(), inputs, 1);
  const auto own = reader->make_memory();
  std::vector<int32_t> all;
  for (int64_t sample = 0; sample < source->size(); ++sample) {
    reader->read({.sample = sample}, batch, 0, *own);
    const int32_t* tokens = batch.row<int32_t>(0, 0);
    const int32_t* labels = batch.row<int32_t>(1, 0);
    CHECK(std::equal(tokens + 1, tokens + kLength, labels));
    all.insert(all.end(), tokens, tokens + kLength);
    all.push_back(labels[kLength - 1]);
  }
  return all;
}

}  // namespace

TEST_CASE("made-up text: the seed's follower comes behind three tokens of four, within the vocabulary") {
  for (const int64_t vocabulary : {2, 7, 64, 50257}) {
    INFO(vocabulary);
    const std::vector<int32_t> tokens = made_up(Split::train, 1, vocabulary);
    CHECK(std::ranges::min(tokens) >= 0);
    CHECK(std::ranges::max(tokens) < std::min<int64_t>(vocabulary, 64));
    CHECK(tokens == made_up(Split::train, 1, vocabulary));
    CHECK(tokens != made_up(Split::val, 1, vocabulary));
    CHECK(tokens != made_up(Split::train, 2, vocabulary));
    std::map<int32_t, std::map<int32_t, int>> followers;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) ++followers[tokens[i]][tokens[i + 1]];
    double likeliest = 0;
    for (const auto& [token, counts] : followers)
      likeliest += std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; })->second;
    const double share = likeliest / static_cast<double>(tokens.size() - 1);
    CHECK(share > 0.7);
    CHECK(share < 0.95);
  }
}

}  // namespace trainer

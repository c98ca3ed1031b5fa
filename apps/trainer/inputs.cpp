// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/inputs.h"

#include "core/data/formats.h"
#include "core/text/tokenizer.h"

namespace trainer {

namespace fs = std::filesystem;

std::vector<fs::path> input_files(const Recipe& recipe) {
  std::vector<fs::path> inputs;
  for (const std::string& file : recipe.files()) inputs.emplace_back(file);
  for (const std::string& file : sample_files(recipe.data)) inputs.emplace_back(file);
  if (recipe.data.tokens.tokenizer) {
    for (const std::string& file : tokenizer_files(recipe.data.tokens.tokenizer->resolved))
      inputs.emplace_back(file);
  }
  return inputs;
}

std::vector<fs::path> input_files(const Recipe& recipe, const DataSource& source, const std::string& output) {
  std::vector<fs::path> inputs = input_files(recipe);
  // There may be millions of samples: only those of the output's name are worth a look.
  std::error_code error;
  const fs::path there = fs::canonical(output, error);
  for (int64_t i = 0; !error && i < source.size(); ++i) {
    if (fs::path sample = source.sample_file(i); sample.filename() == there.filename())
      inputs.push_back(std::move(sample));
  }
  return inputs;
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/text/tokenizer.h"

namespace trainer {
namespace {

std::vector<std::unique_ptr<Tokenizer>> open_all() {
  std::vector<std::unique_ptr<Tokenizer>> all;
  for (const char* name : {"llama3.json", "qwen2.json", "gpt2", "sp_bpe.model", "sp_plain.model"})
    all.push_back(open_tokenizer(std::string(TRAINER_SOURCE_DIR "/tests/fixtures/tokenizers/") + name));
  return all;
}

/// Byte-level tokens are the text's own bytes if nothing changes it first.
void check_text(const Tokenizer& tokenizer, const std::string& text, bool keeps_bytes) {
  std::vector<int32_t> tokens;
  const int64_t malformed = tokenizer.make_encoder()->append(text, tokens);
  for (const int32_t token : tokens) {
    if (token < 0 || token >= tokenizer.vocabulary()) std::abort();
  }
  const std::string again = tokenizer.decode(tokens);
  if (keeps_bytes && malformed == 0 && again != text) std::abort();
}

}  // namespace
}  // namespace trainer

/// A text for each of the tokenizers that the tests have.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizers = trainer::open_all();
  const std::string text(reinterpret_cast<const char*>(data), size);
  // llama3's and qwen2's files have a token that takes the blanks around it.
  for (size_t i = 0; i < tokenizers.size(); ++i) trainer::check_text(*tokenizers[i], text, i == 2);
  return 0;
}

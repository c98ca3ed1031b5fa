// SPDX-License-Identifier: Apache-2.0
// Encodes texts with a tokenizer, for scripts/compare_tokenizers.py. Standard input holds texts, each after
// its number of bytes (u32); for each, standard output gets the number of its tokens and the tokens (i32),
// then the number of bytes that they decode to and these bytes.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "core/text/tokenizer.h"

namespace {

template <class T>
void put(const T* items, size_t count) {
  std::fwrite(items, sizeof(T), count, stdout);
}

void put_size(size_t size) {
  const auto number = static_cast<uint32_t>(size);
  put(&number, 1);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 64;
  try {
    const auto tokenizer = trainer::open_tokenizer(arguments[1]);
    const auto encoder = tokenizer->make_encoder();
    std::vector<int32_t> tokens;
    uint32_t size = 0;
    while (std::fread(&size, sizeof(size), 1, stdin) == 1) {
      std::string text(size, '\0');
      if (std::fread(text.data(), 1, size, stdin) != size) return 65;
      tokens.clear();
      encoder->append(text, tokens);
      put_size(tokens.size());
      put(tokens.data(), tokens.size());
      const std::string decoded = tokenizer->decode(tokens);
      put_size(decoded.size());
      put(decoded.data(), decoded.size());
    }
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 70;
  }
  return 0;
}

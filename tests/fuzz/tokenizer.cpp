// SPDX-License-Identifier: Apache-2.0
#include "core/text/tokenizer.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>

#include "core/base/error.h"
#include "tests/fuzz/files.h"

namespace trainer {
namespace {

/// Anything but a refusal (exit 65, 78) ends the process.
void open_or_refuse(const std::string& path, const std::function<void(const Tokenizer&)>& use) {
  try {
    use(*open_tokenizer(path));
  } catch (const Error& error) {
    if (error.code() != ExitCode::data && error.code() != ExitCode::recipe) std::abort();
  }
}

/// Tokens of a text are below the vocabulary, and become a text again.
void try_tokenizer(const std::string& path, const std::string& text) {
  open_or_refuse(path, [&](const Tokenizer& tokenizer) {
    const std::vector<int32_t> tokens = tokenizer.encode(text);
    for (const int32_t token : tokens) {
      if (token < 0 || token >= tokenizer.vocabulary()) std::abort();
    }
    tokenizer.decode(tokens);
  });
}

}  // namespace
}  // namespace trainer

/// Up to the first line that is just "=", a file; after it a text. The first byte says which file: '{' a
/// tokenizer.json, 'v' a vocab.json of one line with merges.txt after it, else a SentencePiece model.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size), border = "\n=\n";
  const size_t end = all.find(border);
  const std::string file = all.substr(0, end),
                    text = end == std::string::npos ? "ab c\xff" : all.substr(end + 3);
  const auto put = [](const char* name, const std::string& contents) {
    return trainer::put_file(name, {reinterpret_cast<const uint8_t*>(contents.data()), contents.size()});
  };
  if (file.starts_with('v')) {
    const size_t line = std::min(file.find('\n'), file.size());
    put("merges.txt", file.substr(line));
    trainer::try_tokenizer(put("vocab.json", file.substr(1, line - 1)), text);
  } else {
    trainer::try_tokenizer(put(file.starts_with('{') ? "tokenizer.json" : "m.model", file), text);
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "core/base/json.h"

namespace trainer {

/// A folder that is removed again, and files in it.
class TokenizerFolder {
 public:
  TokenizerFolder();
  ~TokenizerFolder();
  std::string path(const std::string& name = "") const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path folder_;
};

/// Below tests/fixtures/tokenizers, as scripts/compare_tokenizers.py wrote them.
std::string tokenizer_fixture(const std::string& name);

std::string contents(const std::string& path);

/// A tokenizer.json with a token for each byte and these, which are merges of two tokens each: "ab", "abab".
Json small_tokenizer();

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/data/tokens/stream.h"
#include "core/text/tokenizer.h"

namespace trainer {

/// Text files as tokens.
struct TokenizedText {
  TokenStream stream;
  int64_t bytes = 0;                 ///< of the files
  int64_t malformed = 0;             ///< parts that were not UTF-8, and were read as U+FFFD
  std::string first_malformed = {};  ///< the file that the first of these is in
};

/// Tokenizes files, several at a time if there are `threads`. The result is in memory or, if a folder is
/// given, in unnamed files there: 2 bytes a token if the vocabulary allows it, else 4. The token
/// `end_of_text`, if any, separates files. Bytes are not copied from their files. Throws Error: exit 78 if a
/// file is missing, 65 if it is empty, 74 if the folder has no room.
TokenizedText tokenize_files(const Tokenizer& tokenizer, const std::vector<std::string>& paths,
                             std::optional<int32_t> end_of_text, const std::string& folder = "",
                             int64_t threads = 1);

/// A recipe's tokenizers and tokenized files, each made once: planning and training open the same samples.
/// For one thread.
class Texts {
 public:
  /// Of a path, or of "bytes". Throws Error as open_tokenizer does.
  const Tokenizer& tokenizer(const std::string& path);
  const TokenizedText& tokenize(const std::string& tokenizer_path, const std::vector<std::string>& paths,
                                std::optional<int32_t> end_of_text, int64_t threads = 1);
  /// Tokens go to files in this folder from now on; see tokenize_files.
  void keep_in(std::string folder) { folder_ = std::move(folder); }

 private:
  std::string folder_;
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers_;
  std::map<std::vector<std::string>, TokenizedText> texts_;
};

/// The value of data.tokenizer for bytes without a tokenizer file.
constexpr const char* kBytesTokenizer = "bytes";

}  // namespace trainer

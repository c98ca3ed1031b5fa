// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/formats.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/base/units.h"
#include "core/data/file_pattern.h"
#include "core/data/tokens/synthetic.h"
#include "core/data/tokens/texts.h"
#include "core/data/tokens/windows.h"

namespace trainer {
namespace {

/// The tokenizer of the section's texts, if known.
std::optional<std::string> tokenizer_path(const DataSection& section) {
  if (section.tokens.tokenizer) return section.tokens.tokenizer->resolved;
  const DataFormat& format = section.chosen_format();
  if (format.is_text() || format.gives(InputKind::text)) return kBytesTokenizer;
  return std::nullopt;
}

const TokenizedText& tokenized(const DataSection& section, const std::vector<std::string>& paths,
                               int64_t threads = 1) {
  return section.tokens.texts->tokenize(tokenizer_path(section).value(), paths, end_of_text_of(section),
                                        threads);
}

WindowRequest windows_of(const TokenStream& stream, const DataSection& section,
                         const SourceRequest& request) {
  const auto [begin, end] = part_of(stream, section, request.split);
  WindowRequest windows{.begin = begin,
                        .end = end,
                        .length = request.network_shape[0],
                        .vocabulary = request.network_classes,
                        .shifts = request.split == Split::train,
                        .seed = request.seed};
  if (section.tokens.mask_documents) windows.end_of_text = end_of_text_of(section);
  if (windows.end_of_text && *windows.end_of_text >= request.network_classes) {
    throw Error(ExitCode::recipe,
                fmt::format("data.end_of_text: expected a token below {}, the network's outputs, got {}: no "
                            "document would ever end",
                            request.network_classes, *windows.end_of_text));
  }
  if (const Tokenizer* tokenizer = tokenizer_of(section); tokenizer != nullptr && tokenizer->checksum() != 0)
    windows.tokenizer = fmt::format("{:016x}", tokenizer->checksum());
  return windows;
}

/// A summary of tokenization, if files were tokenized.
void describe(const DataSection& section, const std::vector<std::string>& paths, const TokenStream& stream,
              SourceInfo& info) {
  if (!section.chosen_format().is_text() || tokenizer_path(section) == kBytesTokenizer) return;
  const TokenizedText& text = tokenized(section, paths);
  const std::string files = paths.size() == 1 ? paths[0] : fmt::format("{} files", paths.size());
  const Tokenizer& tokenizer = *tokenizer_of(section);
  info.summary = fmt::format("{}: {} became {} tokens in {} ({}, {} tokens: {})", files,
                             human_bytes(text.bytes), stream.size(), human_bytes(stream.resident_bytes()),
                             *tokenizer_path(section), tokenizer.vocabulary(), tokenizer.name());
  if (text.malformed > 0) {
    info.warning = fmt::format("{}: {} places are not UTF-8 and were read as U+FFFD{}", files, text.malformed,
                               paths.size() == 1 ? "" : "; the first is in " + text.first_malformed);
  }
}

/// Files of tokens, or of text to tokenize.
class TokenFormat : public DataFormat {
 public:
  virtual TokenStream stream(const DataSection& section, const std::vector<std::string>& paths,
                             int64_t threads) const = 0;

  std::vector<InputKind> kinds() const final { return {InputKind::tokens}; }
  std::vector<std::string> files(const std::string& path, Split) const final {
    return files_of_pattern(path);
  }
  std::vector<std::string> missing(const std::string& path, Split) const final {
    return missing_of_pattern(path);
  }
  std::unique_ptr<DataSource> open(const DataSection& section, const SourceRequest& request) const final {
    TokenStream all = stream(section, files_of_pattern(section.path(request.split)), request.threads);
    const WindowRequest windows = windows_of(all, section, request);
    return token_windows(std::move(all), windows);
  }
  SourceInfo peek(const DataSection& section, const SourceRequest& request) const final;
};

SourceInfo TokenFormat::peek(const DataSection& section, const SourceRequest& request) const {
  const std::vector<std::string> paths = files_of_pattern(section.path(request.split));
  const TokenStream all = stream(section, paths, request.threads);
  const WindowRequest windows = windows_of(all, section, request);
  SourceInfo info{.size = window_count(all, windows),
                  .shape = request.network_shape,
                  .classes = std::nullopt,
                  .resident_bytes = all.resident_bytes(),
                  .is_shared = section.val_fraction > 0};
  const Tokenizer* tokenizer = tokenizer_of(section);
  if (section.tokens.tokenizer) info.least_classes = tokenizer->vocabulary();
  if (tokenizer != nullptr && request.counts_bytes) info.label_bytes = label_bytes(all, windows, *tokenizer);
  const bool is_described = request.split == Split::val && section.val_fraction > 0;  // of training's files
  if (!is_described) describe(section, paths, all, info);
  return info;
}

class TokenShardsFormat final : public TokenFormat {
 public:
  void declare(Fields& fields) override {
    fields
        .add("token_type", &token_type_,
             "integer type of the token ids in shards (format tokens); shards of llm.c state it in their "
             "header")
        .one_of({"uint16", "uint32"});
  }
  TokenStream stream(const DataSection&, const std::vector<std::string>& paths,
                     int64_t /*threads*/) const override {
    return open_token_shards(paths, token_type_ == "uint32" ? 4 : 2);
  }

 private:
  std::string token_type_ = "uint16";
};

class TextFormat final : public TokenFormat {
 public:
  bool is_text() const override { return true; }
  TokenStream stream(const DataSection& section, const std::vector<std::string>& paths,
                     int64_t threads) const override {
    return tokenized(section, paths, threads).stream;
  }
};

}  // namespace

Registered<DataFormat> token_shards_format() {
  return {"tokens",
          "shards of tokens; in their path * matches any text, ? one character, {000..127} each of these "
          "numbers, and "
          "**/ any folders",
          [] { return std::make_unique<TokenShardsFormat>(); }};
}

Registered<DataFormat> text_format() {
  return {"text", "text files, named as shards are", [] { return std::make_unique<TextFormat>(); }};
}

const Tokenizer* tokenizer_of(const DataSection& section) {
  const std::optional<std::string> path = tokenizer_path(section);
  return path ? &section.tokens.texts->tokenizer(*path) : nullptr;
}

bool knows_bytes(const DataSection& section) {
  return !section.chosen_format().reads_files() || tokenizer_path(section).has_value();
}

std::optional<int32_t> end_of_text_of(const DataSection& section) {
  if (section.tokens.end_of_text) return static_cast<int32_t>(*section.tokens.end_of_text);
  const Tokenizer* tokenizer = tokenizer_of(section);
  return tokenizer == nullptr ? std::nullopt : tokenizer->end_of_text();
}

std::pair<int64_t, int64_t> part_of(const TokenStream& stream, const DataSection& section, Split split) {
  const auto held_out =
      static_cast<int64_t>(std::llround(section.val_fraction * static_cast<double>(stream.size())));
  const int64_t border = stream.size() - held_out;
  if (split == Split::train) return {0, border};
  return {held_out == 0 ? 0 : border, stream.size()};
}

SplitTokens open_tokens(const DataSection& section, Split split, int64_t threads) {
  const auto* format = dynamic_cast<const TokenFormat*>(&section.chosen_format());
  if (format == nullptr)
    throw Error(ExitCode::recipe,
                "data.format: the text of " + section.format +
                    " is made up, and there are no files to read; write data.format=tokens or text, and name "
                    "files in data.train");
  const std::vector<std::string> paths = files_of_pattern(section.path(split));
  TokenStream stream = format->stream(section, paths, threads);
  const auto [begin, end] = part_of(stream, section, split);
  SourceInfo info;
  describe(section, paths, stream, info);
  return {.stream = std::move(stream),
          .begin = begin,
          .end = end,
          .tokenizer = tokenizer_of(section),
          .warning = info.warning};
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/formats.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/base/units.h"
#include "core/data/tokens/synthetic.h"
#include "core/data/tokens/texts.h"
#include "core/data/tokens/windows.h"

namespace trainer {
namespace {

/// The tokenizer that the section names, or of a text the one that it need not name.
std::string tokenizer_path(const DataSection& section) {
  return section.tokenizer ? section.tokenizer->resolved : kBytesTokenizer;
}

bool knows_tokenizer(const DataSection& section) {
  return section.tokenizer || section.format == kTextFormat;
}

TokenStream stream_of(const DataSection& section, const std::vector<std::string>& paths) {
  if (section.format != kTextFormat) return open_token_shards(paths, section.token_type == "uint32" ? 4 : 2);
  return section.texts->tokenize(tokenizer_path(section), paths, end_of_text_of(section)).stream;
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
  if (section.mask_documents) windows.end_of_text = end_of_text_of(section);
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

/// What tokenizing has come to, where files were tokenized.
void describe(const DataSection& section, const std::vector<std::string>& paths, const TokenStream& stream,
              SourceInfo& info) {
  if (section.format != kTextFormat || tokenizer_path(section) == kBytesTokenizer) return;
  const TokenizedText& text =
      section.texts->tokenize(tokenizer_path(section), paths, end_of_text_of(section));
  const std::string files = paths.size() == 1 ? paths[0] : fmt::format("{} files", paths.size());
  const Tokenizer& tokenizer = *tokenizer_of(section);
  info.summary = fmt::format("{}: {} became {} tokens in {} ({}, {} tokens: {})", files,
                             human_bytes(text.bytes), stream.size(), human_bytes(stream.resident_bytes()),
                             tokenizer_path(section), tokenizer.vocabulary(), tokenizer.name());
  if (text.malformed > 0) {
    info.warning = fmt::format("{}: {} places are not UTF-8 and were read as U+FFFD{}", files, text.malformed,
                               paths.size() == 1 ? "" : "; the first is in " + text.first_malformed);
  }
}

std::vector<std::string> missing_tokens(const std::string& pattern, Split) {
  return files_of_pattern(pattern).empty() ? std::vector{pattern} : std::vector<std::string>{};
}

SourceInfo info_of(const DataSection& section, const SourceRequest& request) {
  const std::vector<std::string> paths = files_of_pattern(section.path(request.split));
  const TokenStream stream = stream_of(section, paths);
  const WindowRequest windows = windows_of(stream, section, request);
  SourceInfo info{.size = window_count(stream, windows),
                  .shape = request.network_shape,
                  .classes = std::nullopt,
                  .resident_bytes = stream.resident_bytes(),
                  .is_shared = section.val_fraction > 0};
  const Tokenizer* tokenizer = tokenizer_of(section);
  if (section.tokenizer) info.least_classes = tokenizer->vocabulary();
  if (tokenizer != nullptr && request.counts_bytes)
    info.label_bytes = label_bytes(stream, windows, *tokenizer);
  const bool is_described = request.split == Split::val && section.val_fraction > 0;  // of training's files
  if (!is_described) describe(section, paths, stream, info);
  return info;
}

/// The tokenizer can be read, and knows the token that ends a text.
void check_tokenizer(const DataSection& section, const OriginOf& origin_of, Diagnostics& diagnostics) {
  const Tokenizer* tokenizer = nullptr;
  try {
    tokenizer = tokenizer_of(section);
  } catch (const Error& problem) {
    if (problem.code() != ExitCode::recipe) throw;
    return diagnostics.error(origin_of("data.tokenizer"), problem.what());
  }
  if (tokenizer != nullptr && section.end_of_text && *section.end_of_text >= tokenizer->vocabulary()) {
    diagnostics.error(origin_of("data.end_of_text"),
                      fmt::format("must be below the tokenizer's {} tokens, got {}", tokenizer->vocabulary(),
                                  *section.end_of_text));
  }
  if (section.mask_documents && !end_of_text_of(section)) {
    diagnostics.error(origin_of("data.mask_documents"),
                      tokenizer == nullptr ? "needs the token that ends a document: name it in "
                                             "data.end_of_text, or its tokenizer in data.tokenizer"
                                           : fmt::format("needs the token that ends a document, and "
                                                         "the tokenizer ({}) has none: name one in "
                                                         "data.end_of_text",
                                                         tokenizer->name()));
  }
}

SourceFormat row_of(std::string name) {
  return {.name = std::move(name),
          .kind = InputKind::tokens,
          .counts_bytes = knows_tokenizer,
          .open =
              [](const DataSection& section, const SourceRequest& request, const ErrorBudget*) {
                TokenStream stream = stream_of(section, files_of_pattern(section.path(request.split)));
                const WindowRequest windows = windows_of(stream, section, request);
                return token_windows(std::move(stream), windows);
              },
          .peek = [](const DataSection& section, const SourceRequest& request) -> std::optional<SourceInfo> {
            if (!missing_tokens(section.path(request.split), request.split).empty()) return std::nullopt;
            return info_of(section, request);
          },
          .missing = missing_tokens,
          .files = [](const std::string& path, Split) { return files_of_pattern(path); },
          .check =
              [](const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
                 Diagnostics& diagnostics) {
                check_windows(section, network_shape, origin_of, diagnostics);
                check_tokenizer(section, origin_of, diagnostics);
              }};
}

}  // namespace

void check_windows(const DataSection& section, const Shape& network_shape, const OriginOf& origin_of,
                   Diagnostics& diagnostics) {
  if (network_shape.size() != 1) {
    diagnostics.error(
        origin_of("model.input"),
        fmt::format("expected [tokens], the length of the windows of data.format {}, got {} numbers",
                    section.format, network_shape.size()));
  }
  const auto refuse = [&](bool given, const char* key, const char* what) {
    if (given) diagnostics.error(origin_of(key), fmt::format("{}; remove it", what));
  };
  refuse(!section.augment.empty(), "data.augment", "transforms images, and the samples are tokens");
  refuse(!section.eval_transform.empty(), "data.eval_transform",
         "transforms images, and the samples are tokens");
  refuse(section.mix.any(), "data.mix", "mixes images, and the samples are tokens");
  refuse(section.cache == "device", "data.cache", "keeps images in GPU memory, and the samples are tokens");
}

const Tokenizer* tokenizer_of(const DataSection& section) {
  return knows_tokenizer(section) ? &section.texts->tokenizer(tokenizer_path(section)) : nullptr;
}

std::optional<int32_t> end_of_text_of(const DataSection& section) {
  if (section.end_of_text) return static_cast<int32_t>(*section.end_of_text);
  const Tokenizer* tokenizer = tokenizer_of(section);
  return tokenizer == nullptr ? std::nullopt : tokenizer->end_of_text();
}

std::vector<SourceFormat> token_formats() {
  return {row_of("tokens"), row_of(kTextFormat), synthetic_tokens_format()};
}

std::pair<int64_t, int64_t> part_of(const TokenStream& stream, const DataSection& section, Split split) {
  const auto held_out =
      static_cast<int64_t>(std::llround(section.val_fraction * static_cast<double>(stream.size())));
  const int64_t border = stream.size() - held_out;
  if (split == Split::train) return {0, border};
  return {held_out == 0 ? 0 : border, stream.size()};
}

SplitTokens open_tokens(const DataSection& section, Split split) {
  if (!source_format(section).reads_files)
    throw Error(ExitCode::recipe,
                "data.format: the text of " + section.format +
                    " is made up, and there are no files to read; write data.format=tokens or text, and name "
                    "files in data.train");
  const std::vector<std::string> paths = files_of_pattern(section.path(split));
  TokenStream stream = stream_of(section, paths);
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

// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/formats.h"

#include <fmt/core.h>

#include <cmath>
#include <functional>
#include <utility>

#include "core/data/tokens/windows.h"

namespace trainer {
namespace {

using OpenStream = std::function<TokenStream(const DataSection&, const std::vector<std::string>& paths)>;

/// The part of the stream that a split has: with a fraction, validation has its last tokens.
WindowRequest windows_of(const TokenStream& stream, const DataSection& section,
                         const SourceRequest& request) {
  const auto held_out =
      static_cast<int64_t>(std::llround(section.val_fraction * static_cast<double>(stream.size())));
  const bool trains = request.split == Split::train;
  const int64_t border = stream.size() - held_out;
  return {.begin = trains || held_out == 0 ? 0 : border,
          .end = trains ? border : stream.size(),
          .length = request.network_shape[0],
          .vocabulary = request.network_classes,
          .shifts = trains,
          .seed = request.seed};
}

std::vector<std::string> missing_tokens(const std::string& pattern, Split) {
  return files_of_pattern(pattern).empty() ? std::vector{pattern} : std::vector<std::string>{};
}

/// Windows of tokens have no transforms, are not mixed, and no device keeps them.
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

SourceFormat row_of(std::string name, const OpenStream& open) {
  const auto stream_of = [open](const DataSection& section, const SourceRequest& request) {
    return open(section, files_of_pattern(section.path(request.split)));
  };
  return {.name = std::move(name),
          .kind = InputKind::tokens,
          .open =
              [stream_of](const DataSection& section, const SourceRequest& request, const ErrorBudget*) {
                TokenStream stream = stream_of(section, request);
                const WindowRequest windows = windows_of(stream, section, request);
                return token_windows(std::move(stream), windows);
              },
          .peek = [stream_of](const DataSection& section,
                              const SourceRequest& request) -> std::optional<SourceInfo> {
            if (!missing_tokens(section.path(request.split), request.split).empty()) return std::nullopt;
            const TokenStream stream = stream_of(section, request);
            return SourceInfo{.size = window_count(stream, windows_of(stream, section, request)),
                              .shape = request.network_shape,
                              .classes = std::nullopt,
                              .resident_bytes = stream.resident_bytes()};
          },
          .missing = missing_tokens,
          .files = [](const std::string& path, Split) { return files_of_pattern(path); },
          .check = check_windows};
}

}  // namespace

std::vector<SourceFormat> token_formats() {
  return {row_of("tokens",
                 [](const DataSection& section, const std::vector<std::string>& paths) {
                   return open_token_shards(paths, section.token_type == "uint32" ? 4 : 2);
                 }),
          row_of("text", [](const DataSection&, const std::vector<std::string>& paths) {
            return open_text_bytes(paths);
          })};
}

}  // namespace trainer

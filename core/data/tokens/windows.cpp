// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokens/windows.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/rng.h"
#include "core/graph/names.h"

namespace trainer {
namespace {

/// A window's tokens and the next one.
struct WindowMemory final : RowMemory {
  std::vector<int32_t> tokens;
};

class WindowRows final : public RowReader {
 public:
  WindowRows(WindowReader read, int64_t length, std::optional<int32_t> end_of_text, const BatchInputs& inputs)
      : read_(std::move(read)),
        length_(length),
        end_of_text_(end_of_text),
        tokens_(find_input(inputs, input_name::kTokens)),
        labels_(find_input(inputs, input_name::kLabels)),
        document_start_(find_input(inputs, input_name::kDocumentStart)) {}

  std::unique_ptr<RowMemory> make_memory() const override {
    auto memory = std::make_unique<WindowMemory>();
    memory->tokens.resize(static_cast<size_t>(length_ + 1));
    return memory;
  }

  void read(const RowPlace& place, const Batch& batch, int64_t row, RowMemory& memory) const override {
    std::vector<int32_t>& window = static_cast<WindowMemory&>(memory).tokens;
    read_(place, window);
    if (tokens_) std::copy(window.begin(), window.end() - 1, batch.row<int32_t>(*tokens_, row));
    if (labels_) std::copy(window.begin() + 1, window.end(), batch.row<int32_t>(*labels_, row));
    if (document_start_) put_starts(window, batch.row<int32_t>(*document_start_, row));
  }

 private:
  /// The token that ends a document belongs to it.
  void put_starts(const std::vector<int32_t>& window, int32_t* starts) const {
    int32_t start = 0;
    for (int32_t t = 0; t < length_; ++t) {
      starts[t] = start;
      if (window[static_cast<size_t>(t)] == end_of_text_) start = t + 1;
    }
  }

  WindowReader read_;
  int64_t length_;
  std::optional<int32_t> end_of_text_;
  std::optional<size_t> tokens_, labels_, document_start_;
};

class TokenWindows final : public DataSource {
 public:
  TokenWindows(TokenStream stream, const WindowRequest& windows)
      : stream_(std::move(stream)), windows_(windows), size_(window_count(stream_, windows)) {}

  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return {windows_.length}; }
  int64_t classes() const override { return windows_.vocabulary; }
  int64_t resident_bytes() const override { return stream_.resident_bytes(); }
  /// Each window is checked when it is read: reading the whole stream may take minutes.
  void check_labels(const AllowedLabels&) const override {}
  Fingerprint fingerprint() const override {
    Fingerprint all = stream_.fingerprint();
    if (!windows_.tokenizer.empty()) all[fingerprint_name::kTokenizer] = windows_.tokenizer;
    return all;
  }

  std::unique_ptr<RowReader> rows(const RowRequest& request) const override {
    const bool shifts = windows_.shifts && request.training != nullptr;
    const int64_t free = windows_.end - windows_.begin - 1 - size_ * windows_.length;
    const int64_t most_shift = shifts ? std::min(free, windows_.length - 1) : 0;
    const auto read = [this, most_shift](const RowPlace& place, std::span<int32_t> window) {
      const int64_t begin = windows_.begin + shift(place.epoch, most_shift) + place.sample * windows_.length;
      stream_.read(begin, windows_.vocabulary, window);
    };
    return window_rows(read, windows_.length, windows_.end_of_text, request.inputs);
  }

 private:
  int64_t shift(int64_t epoch, int64_t most) const {
    if (most == 0) return 0;
    return RandomStream(random_key(windows_.seed, "window shift"), static_cast<uint32_t>(epoch))
        .next_below(most + 1);
  }

  TokenStream stream_;
  WindowRequest windows_;
  int64_t size_;
};

}  // namespace

std::unique_ptr<RowReader> window_rows(WindowReader read, int64_t length, std::optional<int32_t> end_of_text,
                                       const BatchInputs& inputs) {
  return std::make_unique<WindowRows>(std::move(read), length, end_of_text, inputs);
}

int64_t window_count(const TokenStream& stream, const WindowRequest& request) {
  const int64_t tokens = request.end - request.begin, count = (tokens - 1) / request.length;
  if (count < 1) {
    throw Error(ExitCode::data,
                fmt::format("{}: expected at least {} tokens, model.input and the one after it, found {}",
                            stream.path(), request.length + 1, tokens));
  }
  // Any shift below a window's length leaves the same number of windows, so that epochs are equally long.
  return request.shifts ? std::max<int64_t>(1, (tokens - request.length) / request.length) : count;
}

int64_t label_bytes(const TokenStream& stream, const WindowRequest& request, const Tokenizer& tokenizer) {
  constexpr int64_t kAtOnce = int64_t{1} << 20;
  const int64_t begin = request.begin + 1, end = begin + window_count(stream, request) * request.length;
  int64_t bytes = 0;
  std::vector<int32_t> tokens;
  for (int64_t at = begin; at < end; at += kAtOnce) {
    tokens.resize(static_cast<size_t>(std::min(kAtOnce, end - at)));
    stream.read(at, tokenizer.vocabulary(), tokens);
    bytes += static_cast<int64_t>(tokenizer.decode(tokens).size());
  }
  return bytes;
}

std::unique_ptr<DataSource> token_windows(TokenStream stream, const WindowRequest& request) {
  return std::make_unique<TokenWindows>(std::move(stream), request);
}

}  // namespace trainer

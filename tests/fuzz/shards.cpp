// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/data/tokens/shards.h"
#include "core/data/tokens/stream.h"
#include "tests/fuzz/files.h"

namespace trainer {
namespace {

/// Reads all tokens, below a bound and below any; tokens that are read are written unchanged.
void read_shards(const std::vector<std::string>& paths, int64_t width) {
  try {
    const TokenStream stream = open_token_shards(paths, width);
    std::vector<int32_t> tokens(static_cast<size_t>(stream.size())), again(tokens.size());
    stream.fingerprint();
    stream.read(0, int64_t{1} << 31, tokens);
    if (std::ranges::any_of(tokens, [](int32_t token) { return token < 0; })) std::abort();
    std::vector<uint8_t> written;
    write_shard(stream, 0, stream.size(), int64_t{1} << 31, [&](std::span<const std::byte> piece) {
      const auto* begin = reinterpret_cast<const uint8_t*>(piece.data());
      written.insert(written.end(), begin, begin + piece.size());
    });
    open_token_shards({put_file("again.bin", written)}, 2).read(0, int64_t{1} << 31, again);
    if (again != tokens) std::abort();
    stream.read(0, 1000, tokens);
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
}

}  // namespace
}  // namespace trainer

/// The bytes as a shard of either width, and twice in a row.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = trainer::put_file("shard.bin", {data, size});
  trainer::read_shards({path}, 2);
  trainer::read_shards({path, path}, 4);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/shard_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/byte_stream.h"
#include "core/data/images/decode.h"
#include "core/data/in_parallel.h"
#include "core/storage/user_cache.h"

namespace trainer {
namespace {

constexpr std::string_view kIndexFormat = "trainer shards 1";

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::optional<UserCache> open_cache() {
  const auto directory = user_cache_directory();
  return directory ? std::optional<UserCache>(*directory) : std::nullopt;
}

}  // namespace

ShardSet::ShardSet(std::shared_ptr<const ShardLayout> layout, const std::vector<std::string>& paths,
                   int64_t threads)
    : layout_(std::move(layout)) {
  for (const std::string& path : paths) {
    auto file = std::make_unique<MappedFile>(path);
    const bool is_packed = layout_->unpacks() && is_gzip(file->bytes());
    shards_.push_back({.path = path, .file = std::move(file), .is_packed = is_packed});
  }
  std::optional<UserCache> cache = open_cache();
  const std::string key = cache_key();
  const std::optional<std::string> known = cache ? cache->find(key) : std::nullopt;
  if (!known || !take_index(*known)) {
    make_index(threads);
    if (cache) cache->put(key, index_text());
  }
  for (const ShardSample& sample : samples_) highest_label_ = std::max(highest_label_, sample.label);
}

/// Names are absolute: the same words may name other files from another folder.
std::string ShardSet::cache_key() const {
  std::string key = fmt::format("{}\n{}\n", kIndexFormat, layout_->settings());
  for (const Shard& shard : shards_) {
    const FileStamp stamp = shard.file->stamp();
    std::error_code ignored;
    const std::string path = std::filesystem::absolute(shard.path, ignored).string();
    key += fmt::format("{}\n{} {}\n", path, stamp.bytes, stamp.modified);
  }
  return key;
}

std::string ShardSet::index_text() const {
  std::string text(sizeof unpacked_bytes_ + samples_.size() * sizeof(ShardSample), '\0');
  std::memcpy(text.data(), &unpacked_bytes_, sizeof unpacked_bytes_);
  std::memcpy(text.data() + sizeof unpacked_bytes_, samples_.data(), samples_.size() * sizeof(ShardSample));
  return text;
}

/// Returns false if the text is none of these files'.
bool ShardSet::take_index(const std::string& text) {
  if (text.size() <= sizeof unpacked_bytes_) return false;
  const size_t bytes = text.size() - sizeof unpacked_bytes_;
  if (bytes % sizeof(ShardSample) != 0) return false;
  std::vector<ShardSample> samples(bytes / sizeof(ShardSample));
  std::memcpy(samples.data(), text.data() + sizeof unpacked_bytes_, bytes);
  if (std::ranges::any_of(samples, [&](const ShardSample& one) { return one.shard >= shards_.size(); }))
    return false;
  std::memcpy(&unpacked_bytes_, text.data(), sizeof unpacked_bytes_);
  samples_ = std::move(samples);
  return true;
}

void ShardSet::make_index(int64_t threads) {
  std::vector<std::vector<ShardSample>> found(shards_.size());
  in_parallel(shards_.size(), threads, [&](size_t i) {
    Shard& shard = shards_[i];
    shard.unpack();
    std::exception_ptr problem;
    try {
      found[i] = layout_->find_samples({shard.path, shard.bytes()});
    } catch (const Error&) {
      problem = std::current_exception();
    }
    shard.file->require_unchanged();  // otherwise lost pages have been read as zeros
    if (problem) std::rethrow_exception(problem);
  });
  size_t count = 0;
  for (const auto& of_shard : found) count += of_shard.size();
  samples_.reserve(count);
  for (size_t i = 0; i < found.size(); ++i) {
    for (size_t number = 0; number < found[i].size(); ++number) {
      ShardSample& sample = found[i][number];
      sample.shard = static_cast<uint32_t>(i), sample.number = static_cast<uint32_t>(number);
      samples_.push_back(sample);
    }
    found[i] = {};
    unpacked_bytes_ += shards_[i].unpacked_bytes;
  }
  if (samples_.empty())
    throw Error(ExitCode::data,
                fmt::format("{}: expected samples, found none", one_line(shards_.front().path)));
}

int64_t ShardSet::resident_bytes() const {
  return static_cast<int64_t>(samples_.capacity() * sizeof(ShardSample)) + unpacked_bytes_;
}

void ShardSet::unpack() {
  for (Shard& shard : shards_) shard.unpack();
}

std::span<const std::byte> ShardSet::Shard::bytes() const {
  if (is_packed) return {unpacked.get(), static_cast<size_t>(unpacked_bytes)};
  return file->bytes();
}

void ShardSet::Shard::unpack() {
  if (!is_packed || unpacked != nullptr) return;
  const auto stream = open_byte_stream(path);
  int64_t room = std::max<int64_t>(4 * file->stamp().bytes, 4096), used = 0;
  // A large block is moved by the system's page table, not copied.
  const auto resize = [&](int64_t bytes) {
    auto* moved = static_cast<std::byte*>(std::realloc(unpacked.get(), static_cast<size_t>(bytes)));
    if (moved == nullptr) throw std::bad_alloc();
    static_cast<void>(unpacked.release());
    unpacked.reset(moved);
    room = bytes;
  };
  resize(room);
  for (int64_t got = 1; got > 0; used += got) {
    if (used == room) resize(2 * room);
    got = stream->read(unpacked.get() + used, room - used);
  }
  resize(std::max<int64_t>(used, 1));
  unpacked_bytes = used;
}

void ShardSet::expect(int64_t first, int64_t count) const {
  const auto all = std::span(samples_).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    int64_t last = 0;
    for (end = begin; end < all.size() && all[end].shard == all[begin].shard; ++end)
      last = all[end].offset + all[end].bytes;
    const Shard& shard = shards_[all[begin].shard];
    if (!shard.is_packed) shard.file->expect(all[begin].start, last - all[begin].start);
  }
}

ShardBytes ShardSet::shard(const ShardSample& sample) const {
  const Shard& shard = shards_[sample.shard];
  return {shard.path, shard.bytes()};
}

/// Its place comes from the index, which may be one of other contents if somebody turned back a file's time.
std::span<const std::byte> ShardSet::image(const ShardSample& sample) const {
  const ShardBytes from = shard(sample);
  const auto all = static_cast<int64_t>(from.bytes.size());
  const bool is_within = sample.start >= 0 && sample.start <= sample.offset && sample.offset <= all &&
                         int64_t{sample.bytes} <= all - sample.offset;
  if (!is_within) throw DecodeError("the shard has changed and kept its size and time");
  return layout_->image_of(from, sample);
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/data/images/shard.h"
#include "core/data/mapped_file.h"

namespace trainer {

/// The files of a set of samples, mapped, and the index of their samples. The index is made by one pass over
/// the files, several at a time if there are `threads`, and kept in the user's cache under the files' names,
/// sizes and times. A cache that is missing or cannot be written costs only this pass.
class ShardSet {
 public:
  /// Throws Error: exit 65 with file and place if a shard is damaged, or if there are no samples.
  ShardSet(std::shared_ptr<const ShardLayout> layout, const std::vector<std::string>& paths, int64_t threads);

  int64_t size() const { return static_cast<int64_t>(samples_.size()); }
  const ShardSample& sample(int64_t index) const { return samples_[static_cast<size_t>(index)]; }
  const std::vector<ShardSample>& samples() const { return samples_; }
  int32_t highest_label() const { return highest_label_; }
  const ShardLayout& layout() const { return *layout_; }

  /// Of the index, and of compressed shards once they are unpacked.
  int64_t resident_bytes() const;
  /// Unpacks compressed shards, unless that is done. Not for several threads at once.
  void unpack();

  /// Of unpacked shards.
  ShardBytes shard(const ShardSample& sample) const;
  /// The sample's image file. Throws DecodeError if it is damaged.
  std::span<const std::byte> image(const ShardSample& sample) const;
  /// Lets the system read the samples from `first` on ahead of time.
  void expect(int64_t first, int64_t count) const;
  /// To call after its bytes were read: throws Error (exit 65) if the shard has changed.
  void require_unchanged(const ShardSample& sample) const { shards_[sample.shard].file->require_unchanged(); }
  std::string name_of(const ShardSample& sample) const { return layout_->name_of(shard(sample), sample); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Shard {
    std::string path;
    std::unique_ptr<MappedFile> file;
    bool is_packed = false;
    std::unique_ptr<std::byte, Free> unpacked = nullptr;
    int64_t unpacked_bytes = 0;

    std::span<const std::byte> bytes() const;
    void unpack();
  };

  std::string cache_key() const;
  bool take_index(const std::string& text);
  std::string index_text() const;
  void make_index(int64_t threads);

  std::shared_ptr<const ShardLayout> layout_;
  std::vector<Shard> shards_;
  std::vector<ShardSample> samples_;
  int64_t unpacked_bytes_ = 0;  // of all compressed shards
  int32_t highest_label_ = kNoShardLabel;
};

}  // namespace trainer

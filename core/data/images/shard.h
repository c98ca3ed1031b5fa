// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainer {

/// The label of a sample that has none.
constexpr int32_t kNoShardLabel = -1;

/// A sample in one of the files of a set, a shard.
struct ShardSample {
  int64_t start = 0;   ///< offset in the unpacked shard of all that belongs to the sample
  int64_t offset = 0;  ///< of its image file
  uint32_t bytes = 0;  ///< of its image file
  int32_t label = kNoShardLabel;
  uint32_t shard = 0;   ///< number of its shard in the set
  uint32_t number = 0;  ///< in its shard
};
static_assert(sizeof(ShardSample) == 32, "an index is kept in memory and in a file");

/// The bytes of a shard, unpacked.
struct ShardBytes {
  const std::string& path;
  std::span<const std::byte> bytes;

  std::span<const std::byte> part(int64_t offset, int64_t size) const {
    return bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
  }
};

/// Properties of a whole set that its first shard may state.
struct ShardFacts {
  std::vector<std::string> class_names;  ///< of all classes, or none
  std::vector<std::string> transforms;   ///< that the images have had; see text_of
};

/// How files of one format hold samples. May be called from several threads at once.
class ShardLayout {
 public:
  virtual ~ShardLayout() = default;
  /// All settings that an index depends on, beside the files.
  virtual std::string settings() const = 0;
  /// Whether a compressed shard is unpacked into memory.
  virtual bool unpacks() const { return false; }
  /// The samples of a shard, in their order; `shard` and `number` are the caller's. Throws Error (exit 65)
  /// with file and place.
  virtual std::vector<ShardSample> find_samples(const ShardBytes& shard) const = 0;
  /// The bytes of the sample's image file. Throws DecodeError if a checksum says that they are damaged.
  virtual std::span<const std::byte> image_of(const ShardBytes& shard, const ShardSample& sample) const = 0;
  virtual ShardFacts facts_of(const std::string& /*path*/) const { return {}; }
  /// For messages: the shard's path, and the sample's place in it.
  virtual std::string name_of(const ShardBytes& shard, const ShardSample& sample) const = 0;
  /// The place of a label in a sample, for messages: "a member .cls".
  virtual std::string label_place() const = 0;
};

}  // namespace trainer

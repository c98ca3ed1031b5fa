// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/data/format.h"
#include "core/data/images/shard_set.h"
#include "core/data/images/source.h"

namespace trainer {

/// The samples of a set of shards. Their images are decoded from the files' mappings. Reading one from a
/// shard that has changed since the index was made throws Error (exit 65). `class_names` are those of all
/// classes, or none.
std::unique_ptr<ImageSource> open_shards(std::shared_ptr<const ShardSet> set, int64_t max_pixels,
                                         std::vector<std::string> class_names = {});

/// A format of files that each hold many encoded images, named by a pattern. A set is opened once: planning
/// and training, and both parts of data.val_fraction, share it. For one thread.
class ShardFormat : public DataFormat {
 public:
  std::vector<InputKind> kinds() const final { return {InputKind::pixels}; }
  std::optional<Shape> shape() const final;
  std::vector<std::string> files(const std::string& path, Split split) const final;
  std::vector<std::string> missing(const std::string& path, Split split) const final;
  std::unique_ptr<DataSource> open(const DataSection& section, const SourceRequest& request) const final;
  SourceInfo peek(const DataSection& section, const SourceRequest& request) const final;
  std::vector<std::string> class_names(const std::string& path) const final;

 protected:
  /// `ending` is that of the files, for messages.
  explicit ShardFormat(std::string ending) : ending_(std::move(ending)) {}
  /// By the format's keys.
  virtual std::shared_ptr<const ShardLayout> layout() const = 0;

 private:
  std::shared_ptr<ShardSet> set_of(const DataSection& section, const SourceRequest& request) const;
  ShardFacts facts_of(const std::string& path) const;

  std::string ending_;
  mutable std::map<std::vector<std::string>, std::shared_ptr<ShardSet>> sets_;  // by the names of their files
};

}  // namespace trainer

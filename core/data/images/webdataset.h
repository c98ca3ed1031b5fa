// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/data/images/shard.h"

namespace trainer {

/// A file's name as a sample's key and the rest, as the Python package webdataset divides it: at the first
/// dot after the folders. Both are empty for a file of no sample.
struct ShardKey {
  std::string key, ending;
};
ShardKey shard_key_of(const std::string& name);

/// Tar archives with adjacent members of the same key as a sample: an image, known by its ending, and a
/// label, in `.cls` as digits or in `.json` as the number of its member `json_label`. Other members are
/// passed over.
std::shared_ptr<const ShardLayout> webdataset_layout(const std::string& json_label);

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/data/images/shard_format.h"
#include "tests/data/samples.h"
#include "tests/host/environment.h"

namespace trainer {

/// A user's cache in a folder of its own, in place of the user's.
class PrivateCache {
 public:
  PrivateCache() { environment_.set("XDG_CACHE_HOME", folder_.path("").c_str()); }
  /// Of the indexes in it.
  std::vector<std::string> files() const;

 private:
  TemporaryFolder folder_;
  test::Environment environment_;
};

/// A set of these files; unpacked, as for training.
std::shared_ptr<ShardSet> open_set(const std::shared_ptr<const ShardLayout>& layout,
                                   const std::vector<std::string>& paths);

/// A record as TensorFlow writes it, with its checksums.
std::string tf_record(const std::string& data);

/// A message tf.train.Example with an image and, unless it is below zero, a label.
std::string tf_example(const std::string& image, int64_t label);

}  // namespace trainer

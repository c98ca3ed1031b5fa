// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/data/images/shard.h"

namespace trainer {

/// The features of messages tf.train.Example that are read, and the number of the first class.
struct TfRecordKeys {
  std::string image = "image/encoded", label = "image/class/label";
  int64_t first_label = 0;
};

/// Files of TensorFlow's records, plain or as one gzip stream: each an Example with the bytes of an image
/// file and a label. The checksum of a record's length is checked when samples are found, that of its data
/// whenever the sample is read.
std::shared_ptr<const ShardLayout> tfrecord_layout(const TfRecordKeys& keys);

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/data/images/shard.h"
#include "core/data/images/source.h"

namespace trainer {

/// Writes the samples [begin, end) of a source as a tar file: members `000000007.cls` with the label and
/// `000000007.jpg` with the image, or the ending of another kind, under the sample's number. Image files are
/// copied unchanged, those that cannot be read as empty files. A first member `__trainer__`, which the Python
/// package passes over, has the facts. Threads read ahead. The source must be of encoded images with a label
/// each.
void write_webdataset(const ImageSource& source, int64_t begin, int64_t end, const ShardFacts& facts,
                      int64_t threads, const std::function<void(std::span<const std::byte>)>& sink);

/// The facts at the head of an archive; none if it was made by others.
ShardFacts webdataset_facts(const std::string& path);

}  // namespace trainer

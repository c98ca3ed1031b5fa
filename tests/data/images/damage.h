// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "core/data/images/record_layout.h"
#include "core/data/images/source.h"

namespace trainer {

/// All samples of a source as the bytes of a record file.
std::string packed(const ImageSource& source);

/// Reads every sample; those that are unreadable by themselves are skipped.
void read_all(const ImageSource& source);

/// A record file with another tail and corrected checksums.
std::string with_sealed_tail(std::string bytes, const std::function<void(RecordTail&)>& change);

/// The file with some bytes changed, cut out, doubled or left off its end, by a seed.
std::string mutated(const std::string& bytes, uint64_t seed);

}  // namespace trainer

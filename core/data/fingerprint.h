// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

namespace trainer {

/// Properties that distinguish sets of samples, by name: their number, and checksums of known properties of
/// all and of the bytes of a few. Paths and times of the files do not count.
using Fingerprint = std::map<std::string, std::string>;

// Its properties. A format gives those it has.
namespace fingerprint_name {
constexpr const char* kSamples = "samples";      ///< the number
constexpr const char* kTokens = "tokens";        ///< the number
constexpr const char* kTokenizer = "tokenizer";  ///< a checksum of its files
constexpr const char* kClasses = "classes";      ///< the names
constexpr const char* kLabels = "labels";        ///< of all samples
constexpr const char* kGroups = "groups";        ///< of all samples, which data.split_by keeps together
constexpr const char* kWeights = "weights";      ///< of all samples, by which training draws them
constexpr const char* kExcluded = "excluded";    ///< the numbers of those that data.exclude leaves out
constexpr const char* kNames = "names";          ///< of the samples' files, below the folder of all
constexpr const char* kContents = "contents";    ///< bytes of a few samples, spread over all
}  // namespace fingerprint_name

/// "480 samples there and 400 here", or "other file names and other contents"; nothing if all properties
/// that both have are the same.
std::optional<std::string> fingerprint_difference(const Fingerprint& there, const Fingerprint& here);

}  // namespace trainer

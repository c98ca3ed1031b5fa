// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/data/images/source.h"

namespace trainer {

inline const Shape kCifarShape = {3, 32, 32};

/// Number of classes of the set.
enum class Cifar { ten = 10, hundred = 100 };

/// The binary version of CIFAR-10 or CIFAR-100 (its fine labels). `path` is the unpacked directory, from
/// which the split's files are taken, or files separated by commas. A bad file throws Error (exit 65) with
/// file and offset.
std::unique_ptr<ImageSource> open_cifar(Cifar set, const std::string& path, Split split);

/// Looks at the files' sizes only.
SourceInfo peek_cifar(Cifar set, const std::string& path, Split split);

/// Those of the split's files that do not exist.
std::vector<std::string> missing_cifar(Cifar set, const std::string& path, Split split);

}  // namespace trainer

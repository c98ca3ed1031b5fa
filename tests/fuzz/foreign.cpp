// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/foreign.h"

#include <cstdlib>
#include <span>

#include "core/base/error.h"

namespace trainer {

void copy_or_refuse(const std::function<std::unique_ptr<ForeignWeights>()>& open) {
  try {
    const std::unique_ptr<ForeignWeights> weights = open();
    for (size_t i = 0; i < weights->tensors().size(); ++i) {
      int64_t bytes = 0;
      weights->copy(i, [&](std::span<const std::byte> piece) { bytes += std::ssize(piece); });
      if (bytes != weights->tensors()[i].end) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "cuda/compiled_for.h"

#include <charconv>

namespace trainer::cuda {

bool runs_on(std::string_view architectures, int capability) {
  while (!architectures.empty()) {
    const std::string_view one = architectures.substr(0, architectures.find(','));
    architectures.remove_prefix(one.size() == architectures.size() ? one.size() : one.size() + 1);
    int number = 0;
    std::from_chars(one.data(), one.data() + one.size(), number);
    const bool is_real = one.ends_with("-real");
    if (capability >= number && (!is_real || capability / 10 == number / 10)) return true;
  }
  return false;
}

}  // namespace trainer::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trainer {

#ifdef TRAINER_SANITIZED
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// The size of a sweep. Sanitizers check code paths, not numbers: under them `few` is enough. A release takes
/// `all`.
template <class T>
constexpr T few_or_all(T few, T all) {
  return kIsSanitized ? few : all;
}

}  // namespace trainer

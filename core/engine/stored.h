// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/dtype.h"

namespace trainer {

/// How elements are stored: as their type or, if a floating type takes eight bytes, as double.
struct StoredType {
  DType dtype = DType::f32;
  int64_t bytes = 4;  ///< of one element
};

// The only conversions between the host's numbers and stored elements. T is float, double, int32_t or
// uint8_t.

/// Whether numbers of T are stored as they are.
template <class T>
bool is_stored_as_is(StoredType type);

/// Floating types round to nearest, whole numbers towards zero.
template <class T>
std::vector<std::byte> to_stored(std::span<const T> numbers, StoredType type);

/// double is exact, float rounds only double. Throws std::logic_error if T cannot hold every number of
/// the type: int32_t cannot hold f32, nor float i32.
template <class T>
std::vector<T> from_stored(std::span<const std::byte> stored, StoredType type);

/// One stored element. i32 and all floating types are exact.
double stored_number(const std::byte* from, StoredType type);

}  // namespace trainer

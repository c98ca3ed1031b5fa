// SPDX-License-Identifier: Apache-2.0
#include "core/engine/stored.h"

#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "core/base/bfloat16.h"
#include "core/base/float16.h"

namespace trainer {
namespace {

/// Calls visit(Element{}) with the type of stored elements.
template <class Visit>
void with_element(StoredType type, const Visit& visit) {
  if (is_floating(type.dtype) && type.bytes == sizeof(double)) return visit(double{});
  if (type.bytes != bytes_per_element(type.dtype)) throw std::logic_error("elements of unknown size");
  switch (type.dtype) {
    case DType::f32:
      return visit(float{});
    case DType::f16:
      return visit(Float16{});
    case DType::bf16:
      return visit(BFloat16{});
    case DType::i32:
      return visit(int32_t{});
    case DType::u8:
      return visit(uint8_t{});
    case DType::i8:
      return visit(int8_t{});
  }
}

template <class Element>
constexpr bool kIsLow = std::is_same_v<Element, Float16> || std::is_same_v<Element, BFloat16>;

/// Low types are rounded from, and widened to, float.
template <class Element, class T>
Element narrow(T number) {
  if constexpr (kIsLow<Element>) {
    return Element(static_cast<float>(number));
  } else {
    return static_cast<Element>(number);
  }
}
template <class T, class Element>
T widen(Element element) {
  if constexpr (kIsLow<Element>) {
    return static_cast<T>(static_cast<float>(element));
  } else {
    return static_cast<T>(element);
  }
}

template <class T, class Element>
constexpr bool holds() {
  if constexpr (std::is_integral_v<T>) {
    return std::is_integral_v<Element> && sizeof(Element) <= sizeof(T);
  } else {
    return !std::is_integral_v<Element> ||
           std::numeric_limits<Element>::digits <= std::numeric_limits<T>::digits;
  }
}

}  // namespace

template <class T>
bool is_stored_as_is(StoredType type) {
  bool is_same = false;
  with_element(type, [&]<class Element>(Element) { is_same = std::is_same_v<Element, T>; });
  return is_same;
}

template <class T>
std::vector<std::byte> to_stored(std::span<const T> numbers, StoredType type) {
  std::vector<std::byte> stored(numbers.size() * static_cast<size_t>(type.bytes));
  with_element(type, [&]<class Element>(Element) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto element = narrow<Element>(numbers[i]);
      std::memcpy(stored.data() + i * sizeof element, &element, sizeof element);
    }
  });
  return stored;
}

template <class T>
std::vector<T> from_stored(std::span<const std::byte> stored, StoredType type) {
  std::vector<T> numbers(stored.size() / static_cast<size_t>(type.bytes));
  with_element(type, [&]<class Element>(Element element) {
    if (!holds<T, Element>()) throw std::logic_error("stored numbers would be rounded");
    for (size_t i = 0; i < numbers.size(); ++i) {
      std::memcpy(&element, stored.data() + i * sizeof element, sizeof element);
      numbers[i] = widen<T>(element);
    }
  });
  return numbers;
}

double stored_number(const std::byte* from, StoredType type) {
  double number = 0;
  with_element(type, [&]<class Element>(Element element) {
    std::memcpy(&element, from, sizeof element);
    number = widen<double>(element);
  });
  return number;
}

template bool is_stored_as_is<float>(StoredType);
template bool is_stored_as_is<double>(StoredType);
template bool is_stored_as_is<int32_t>(StoredType);
template bool is_stored_as_is<uint8_t>(StoredType);
template std::vector<std::byte> to_stored(std::span<const float>, StoredType);
template std::vector<std::byte> to_stored(std::span<const double>, StoredType);
template std::vector<std::byte> to_stored(std::span<const int32_t>, StoredType);
template std::vector<std::byte> to_stored(std::span<const uint8_t>, StoredType);
template std::vector<float> from_stored(std::span<const std::byte>, StoredType);
template std::vector<double> from_stored(std::span<const std::byte>, StoredType);
template std::vector<int32_t> from_stored(std::span<const std::byte>, StoredType);
template std::vector<uint8_t> from_stored(std::span<const std::byte>, StoredType);

}  // namespace trainer

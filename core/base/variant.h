// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

namespace trainer {

/// A std::variant for alternatives that allocate when copied. GCC 12's copy constructor crashes without
/// memory if no alternative can leave the variant valueless, as with texts and vectors: it destroys the value
/// that it failed to make. Its assignment makes the value first.
template <class... Types>
class Variant : public std::variant<Types...> {
 public:
  using Base = std::variant<Types...>;
  using Base::Base;
  using Base::operator=;

  Variant() = default;
  Variant(const Variant& other) : Base() { Base::operator=(other); }
  Variant(Variant&&) noexcept = default;
  Variant& operator=(const Variant&) = default;
  Variant& operator=(Variant&&) noexcept = default;
  ~Variant() = default;
};

}  // namespace trainer

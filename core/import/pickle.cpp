// SPDX-License-Identifier: Apache-2.0
#include "core/import/pickle.h"

#include <fmt/core.h>

#include <stdexcept>

#include "core/base/error.h"
#include "core/import/unpickler.h"

namespace trainer {

PickleValue Pickle::read() {
  return Unpickler(*this).read();
}

std::string_view Pickle::bytes_of(const PickleValue& value) const {
  if (value.kind != PickleValue::Kind::text && value.kind != PickleValue::Kind::large)
    throw std::logic_error("a value of a pickle without bytes");
  return std::string_view(bytes_).substr(static_cast<size_t>(value.number), static_cast<size_t>(value.size));
}

const std::vector<PickleValue>& Pickle::items_of(const PickleValue& value) const {
  if (value.kind < PickleValue::Kind::tuple || value.kind == PickleValue::Kind::name)
    throw std::logic_error("a value of a pickle without items");
  return containers_.at(static_cast<size_t>(value.number));
}

void Pickle::fail(int64_t position, const std::string& text) const {
  throw Error(ExitCode::data, fmt::format("{}: byte {}: {}", place_, position, text));
}

const char* kind_name(PickleValue::Kind kind) {
  switch (kind) {
    case PickleValue::Kind::none:
      return "None";
    case PickleValue::Kind::boolean:
      return "a truth value";
    case PickleValue::Kind::integer:
    case PickleValue::Kind::large:
    case PickleValue::Kind::real:
      return "a number";
    case PickleValue::Kind::text:
      return "a text";
    case PickleValue::Kind::tuple:
      return "a tuple";
    case PickleValue::Kind::list:
      return "a list";
    case PickleValue::Kind::map:
      return "a map";
    case PickleValue::Kind::name:
      return "a name";
    case PickleValue::Kind::call:
      return "an object";
    case PickleValue::Kind::reference:
      return "a storage";
  }
  throw std::logic_error("a kind without a name");
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer {

/// A value of a pickle. Its bytes and items are in the Pickle that it was read from.
struct PickleValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    large,
    tuple,
    list,
    map,
    name,
    call,
    reference
  };
  Kind kind = Kind::none;
  /// boolean, integer: the value. text, large (an integer beyond 64 bits): its first byte. name: its place in
  /// torch_names(). tuple, list, map, call, reference: the place of its items.
  int64_t number = 0;
  int64_t size = 0;  ///< text, large: bytes
};

/// Reads what Python's pickle module writes (the documentation of `pickletools` lists the opcodes). Only
/// the opcodes and names that torch.save uses are known. Nothing is executed: a call is a value with the
/// name of its function and its arguments. Memory is proportional to the bytes that are read.
class Pickle {
 public:
  static constexpr size_t kMostBytes = size_t{64} << 20;
  static constexpr size_t kMostContainers = size_t{1} << 22;

  /// `place` names the bytes in messages.
  Pickle(std::string bytes, std::string place) : bytes_(std::move(bytes)), place_(std::move(place)) {}

  /// The next pickle in the bytes. Throws Error (exit 65) with place, position and finding.
  PickleValue read();
  /// The first byte after the pickles that were read.
  size_t position() const { return position_; }

  std::string_view bytes_of(const PickleValue& value) const;
  /// Of a map: key, value, key, value. Of a call: function, arguments, position of the opcode. Of a
  /// reference to an object outside of the pickle: its identity, position of the opcode.
  const std::vector<PickleValue>& items_of(const PickleValue& value) const;
  /// All references, in the order of their opcodes.
  const std::vector<PickleValue>& references() const { return references_; }
  [[noreturn]] void fail(int64_t position, const std::string& text) const;

 private:
  friend class Unpickler;

  std::string bytes_, place_;
  size_t position_ = 0;
  std::vector<std::vector<PickleValue>> containers_;
  std::vector<PickleValue> references_;
};

/// "a text", "a list".
const char* kind_name(PickleValue::Kind kind);

}  // namespace trainer

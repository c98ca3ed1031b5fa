// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/import/pickle.h"
#include "core/import/pickle_opcodes.h"

namespace trainer {

/// The stack and the memo of one pickle while it is read.
class Unpickler {
 public:
  explicit Unpickler(Pickle& pickle) : pickle_(pickle) {}
  PickleValue read();

 private:
  using Values = std::vector<PickleValue>;

  // Each returns whether the opcode is one of its group.
  bool run_scalar(PickleOpcode code);
  bool run_text(PickleOpcode code);
  bool run_stack(PickleOpcode code);
  bool run_memo(PickleOpcode code);
  bool run_container(PickleOpcode code);
  bool run_fill(PickleOpcode code);
  bool run_name(PickleOpcode code);

  /// The next bytes of the pickle, as an unsigned little-endian number.
  uint64_t take_number(size_t bytes);
  std::string_view take(uint64_t bytes);
  std::string_view take_line();
  /// A number of two's complement with any number of bytes.
  void push_long(uint64_t bytes);
  void push_bytes(uint64_t bytes);

  void push(const PickleValue& value) { stack_.push_back(value); }
  PickleValue pop();
  PickleValue& top();
  /// The values after the last mark, which are removed with it.
  Values pop_to_mark();
  PickleValue contain(PickleValue::Kind kind, Values items);
  void remember(uint64_t place);
  void recall(uint64_t place);
  void push_name(const std::string& name);
  void call();
  /// The items of a list or map, to be added to.
  Values& open(PickleValue& value, PickleValue::Kind kind);
  PickleValue ordered_map(const PickleValue& arguments);
  [[noreturn]] void fail(const std::string& text) const;
  /// Where torch.save cannot have written these bytes.
  [[noreturn]] void fail_damaged(const std::string& text) const;

  Pickle& pickle_;
  size_t opcode_at_ = 0;
  Values stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue> memo_;
};

}  // namespace trainer

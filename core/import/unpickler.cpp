// SPDX-License-Identifier: Apache-2.0
#include "core/import/unpickler.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/import/remedies.h"
#include "core/import/torch_names.h"

namespace trainer {
namespace {

using Kind = PickleValue::Kind;

}  // namespace

void Unpickler::fail(const std::string& text) const {
  pickle_.fail(static_cast<int64_t>(opcode_at_), text);
}

void Unpickler::fail_damaged(const std::string& text) const {
  fail(text + "; " + kCopyAgain);
}

uint64_t Unpickler::take_number(size_t bytes) {
  uint64_t number = 0;
  const std::string_view taken = take(bytes);
  for (size_t i = 0; i < bytes; ++i) number |= uint64_t{static_cast<uint8_t>(taken[i])} << (8 * i);
  return number;
}

std::string_view Unpickler::take(uint64_t bytes) {
  const std::string_view left = std::string_view(pickle_.bytes_).substr(pickle_.position_);
  if (bytes > left.size()) {
    fail(fmt::format("expected {} bytes, found the end after {}: the file is cut short or damaged; {}", bytes,
                     left.size(), kCopyAgain));
  }
  pickle_.position_ += bytes;
  return left.substr(0, bytes);
}

std::string_view Unpickler::take_line() {
  const std::string_view left = std::string_view(pickle_.bytes_).substr(pickle_.position_);
  const size_t end = left.find('\n');
  if (end == std::string_view::npos) fail("expected a name, found the end; " + std::string(kCopyAgain));
  pickle_.position_ += end + 1;
  return left.substr(0, end);
}

void Unpickler::push_long(uint64_t bytes) {
  const size_t begin = pickle_.position_;
  const std::string_view digits = take(bytes);
  if (bytes > sizeof(uint64_t)) {
    push({Kind::large, static_cast<int64_t>(begin), static_cast<int64_t>(bytes)});
    return;
  }
  const bool is_negative = !digits.empty() && static_cast<int8_t>(digits.back()) < 0;
  uint64_t number = is_negative ? ~uint64_t{0} : 0;
  for (size_t i = bytes; i > 0; --i) number = number << 8 | static_cast<uint8_t>(digits[i - 1]);
  push({Kind::integer, static_cast<int64_t>(number)});
}

void Unpickler::push_bytes(uint64_t bytes) {
  const size_t begin = pickle_.position_;
  take(bytes);
  push({Kind::text, static_cast<int64_t>(begin), static_cast<int64_t>(bytes)});
}

PickleValue Unpickler::pop() {
  const PickleValue value = top();
  stack_.pop_back();
  return value;
}

PickleValue& Unpickler::top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
    fail_damaged("expected a value before the opcode, found none");
  return stack_.back();
}

Unpickler::Values Unpickler::pop_to_mark() {
  if (marks_.empty()) fail_damaged("expected a mark before the opcode, found none");
  const auto begin = stack_.begin() + static_cast<int64_t>(marks_.back());
  Values values(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return values;
}

PickleValue Unpickler::contain(Kind kind, Values items) {
  if (pickle_.containers_.size() >= Pickle::kMostContainers)
    fail(
        fmt::format("found more than {} lists, maps and objects. {}", Pickle::kMostContainers, kSaveWeights));
  pickle_.containers_.push_back(std::move(items));
  return {kind, static_cast<int64_t>(pickle_.containers_.size()) - 1};
}

void Unpickler::remember(uint64_t place) {
  memo_[place] = top();
}

void Unpickler::recall(uint64_t place) {
  const auto found = memo_.find(place);
  if (found == memo_.end()) fail(fmt::format("found no value {} in the memo; {}", place, kCopyAgain));
  push(found->second);
}

void Unpickler::push_name(const std::string& name) {
  const auto names = torch_names();
  const auto found = std::ranges::find(names, name, &TorchName::name);
  if (found == names.end()) fail(refusal_of(name));
  push({Kind::name, found - names.begin()});
}

void Unpickler::call() {
  const PickleValue arguments = pop(), function = pop();
  if (function.kind != Kind::name || arguments.kind != Kind::tuple)
    fail(fmt::format("found a call of {}, expected one of a known name. {}", kind_name(function.kind),
                     kSaveWeights));
  if (torch_names()[static_cast<size_t>(function.number)].role == TorchName::Role::ordered_dict) {
    push(ordered_map(arguments));
  } else {
    push(contain(Kind::call, {function, arguments, {Kind::integer, static_cast<int64_t>(opcode_at_)}}));
  }
}

Unpickler::Values& Unpickler::open(PickleValue& value, Kind kind) {
  if (value.kind != kind)
    fail_damaged(fmt::format("expected {}, found {}", kind_name(kind), kind_name(value.kind)));
  return pickle_.containers_[static_cast<size_t>(value.number)];
}

/// Python 2 wrote the pairs as arguments; Python 3 adds them afterwards.
PickleValue Unpickler::ordered_map(const PickleValue& arguments) {
  const Values given = pickle_.items_of(arguments);
  if (given.empty()) return contain(Kind::map, {});
  if (given.size() != 1 || given[0].kind != Kind::list)
    fail_damaged("expected one list of pairs for an OrderedDict");
  Values items;
  for (const PickleValue& pair : pickle_.items_of(given[0])) {
    const bool is_pair =
        (pair.kind == Kind::list || pair.kind == Kind::tuple) && pickle_.items_of(pair).size() == 2;
    if (!is_pair) fail_damaged("expected one list of pairs for an OrderedDict");
    for (const PickleValue& item : pickle_.items_of(pair)) items.push_back(item);
  }
  pickle_.containers_[static_cast<size_t>(given[0].number)].clear();  // so that no list is copied twice
  return contain(Kind::map, std::move(items));
}

}  // namespace trainer

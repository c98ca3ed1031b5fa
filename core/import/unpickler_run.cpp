// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <utility>

#include "core/import/remedies.h"
#include "core/import/unpickler.h"

namespace trainer {
namespace {

using enum PickleOpcode;
using Kind = PickleValue::Kind;

constexpr uint64_t kNewestProtocol = 5;

}  // namespace

PickleValue Unpickler::read() {
  while (true) {
    opcode_at_ = pickle_.position_;
    const auto code = static_cast<PickleOpcode>(take_number(1));
    if (code == kStop) break;
    if (!run_scalar(code) && !run_text(code) && !run_stack(code) && !run_memo(code) && !run_container(code) &&
        !run_fill(code) && !run_name(code)) {
      fail(fmt::format("unsupported pickle opcode {:#04x}, which torch.save does not write. {}",
                       static_cast<int>(code), kSaveWeights));
    }
  }
  const PickleValue result = pop();
  if (!stack_.empty()) fail_damaged("expected one value at the end of the pickle, found several");
  return result;
}

bool Unpickler::run_scalar(PickleOpcode code) {
  switch (code) {
    case kNone:
      push({});
      return true;
    case kNewTrue:
    case kNewFalse:
      push({Kind::boolean, code == kNewTrue});
      return true;
    case kBinInt:
      push({Kind::integer, static_cast<int32_t>(take_number(4))});
      return true;
    case kBinInt1:
      push({Kind::integer, static_cast<int64_t>(take_number(1))});
      return true;
    case kBinInt2:
      push({Kind::integer, static_cast<int64_t>(take_number(2))});
      return true;
    case kLong1:
      push_long(take_number(1));
      return true;
    case kLong4:
      push_long(take_number(4));
      return true;
    case kBinFloat:
      take(8);
      push({Kind::real});
      return true;
    default:
      return false;
  }
}

bool Unpickler::run_text(PickleOpcode code) {
  switch (code) {
    case kShortBinUnicode:
    case kShortBinString:
    case kShortBinBytes:
      push_bytes(take_number(1));
      return true;
    case kBinUnicode:
    case kBinString:
    case kBinBytes:
      push_bytes(take_number(4));
      return true;
    case kBinUnicode8:
    case kBinBytes8:
      push_bytes(take_number(8));
      return true;
    default:
      return false;
  }
}

bool Unpickler::run_stack(PickleOpcode code) {
  switch (code) {
    case kMark:
      marks_.push_back(stack_.size());
      return true;
    case kPop:
      pop();
      return true;
    case kPopMark:
      pop_to_mark();
      return true;
    case kDup:
      push(PickleValue(top()));
      return true;
    case kProto:
      if (take_number(1) > kNewestProtocol)
        fail(
            fmt::format("found a newer protocol, expected at most {}. Save it with torch.save's own protocol",
                        kNewestProtocol));
      return true;
    case kFrame:
      take_number(8);  // the length of the frame, for buffered readers
      return true;
    default:
      return false;
  }
}

bool Unpickler::run_memo(PickleOpcode code) {
  switch (code) {
    case kBinPut:
      remember(take_number(1));
      return true;
    case kLongBinPut:
      remember(take_number(4));
      return true;
    case kMemoize:
      remember(memo_.size());
      return true;
    case kBinGet:
      recall(take_number(1));
      return true;
    case kLongBinGet:
      recall(take_number(4));
      return true;
    default:
      return false;
  }
}

bool Unpickler::run_container(PickleOpcode code) {
  const auto tuple_of = [&](size_t count) {
    Values items(count);
    for (size_t i = count; i > 0; --i) items[i - 1] = pop();
    push(contain(Kind::tuple, std::move(items)));
    return true;
  };
  switch (code) {
    case kEmptyTuple:
      return tuple_of(0);
    case kTuple1:
      return tuple_of(1);
    case kTuple2:
      return tuple_of(2);
    case kTuple3:
      return tuple_of(3);
    case kTuple:
      push(contain(Kind::tuple, pop_to_mark()));
      return true;
    case kEmptyList:
    case kEmptySet:
      push(contain(Kind::list, {}));
      return true;
    case kEmptyDict:
      push(contain(Kind::map, {}));
      return true;
    default:
      return false;
  }
}

bool Unpickler::run_fill(PickleOpcode code) {
  switch (code) {
    case kAppend: {
      const PickleValue item = pop();
      open(top(), Kind::list).push_back(item);
      return true;
    }
    case kSetItem: {
      const PickleValue value = pop(), key = pop();
      Values& items = open(top(), Kind::map);
      items.insert(items.end(), {key, value});
      return true;
    }
    case kAppends:
    case kAddItems:
    case kSetItems: {
      const Values added = pop_to_mark();
      Values& items = open(top(), code == kSetItems ? Kind::map : Kind::list);
      if (code == kSetItems && added.size() % 2 != 0)
        fail_damaged("expected pairs of keys and values, found a key alone");
      items.insert(items.end(), added.begin(), added.end());
      return true;
    }
    default:
      return false;
  }
}

bool Unpickler::run_name(PickleOpcode code) {
  switch (code) {
    case kGlobal: {
      const std::string module(take_line());
      push_name(module + " " + std::string(take_line()));
      return true;
    }
    case kStackGlobal: {
      const PickleValue name = pop(), module = pop();
      if (name.kind != Kind::text || module.kind != Kind::text)
        fail_damaged("expected a module and a name, both as texts");
      push_name(std::string(pickle_.bytes_of(module)) + " " + std::string(pickle_.bytes_of(name)));
      return true;
    }
    case kReduce:
      call();
      return true;
    case kBuild:
      pop();  // attributes of a state dict: the versions of its modules
      if (top().kind != Kind::map)
        fail(fmt::format("found attributes of {}, expected some of maps only. {}", kind_name(top().kind),
                         kSaveWeights));
      return true;
    case kBinPersId:
      push(contain(Kind::reference, {pop(), {Kind::integer, static_cast<int64_t>(opcode_at_)}}));
      pickle_.references_.push_back(top());
      return true;
    default:
      return false;
  }
}

}  // namespace trainer

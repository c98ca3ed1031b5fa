// SPDX-License-Identifier: Apache-2.0
#include "core/import/torch_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/printable.h"
#include "core/import/remedies.h"
#include "core/import/torch_names.h"
#include "core/storage/stored_type.h"

namespace trainer {
namespace {

using Kind = PickleValue::Kind;
using Role = TorchName::Role;

constexpr size_t kMostDimensions = 64;  // torch's own limit for most operations
constexpr size_t kMostKeyBytes = 255;   // torch writes numbers; each tensor keeps a copy

const TorchName* name_of(const PickleValue& value) {
  return value.kind == Kind::name ? &torch_names()[static_cast<size_t>(value.number)] : nullptr;
}

/// The name of the function of a call; null for other values.
const TorchName* function_of(const Pickle& pickle, const PickleValue& value) {
  return value.kind == Kind::call ? name_of(pickle.items_of(value)[0]) : nullptr;
}

bool has_role(const TorchName* name, Role role) {
  return name != nullptr && name->role == role;
}

bool is_text(const Pickle& pickle, const PickleValue& value, std::string_view text) {
  return value.kind == Kind::text && pickle.bytes_of(value) == text;
}

/// Reads the arguments of the call that makes a tensor.
class TensorCall {
 public:
  TensorCall(const Pickle& pickle, const PickleValue& call, const std::string& name)
      : pickle_(pickle),
        name_(name),
        position_(pickle.items_of(call)[2].number),
        arguments_(pickle.items_of(pickle.items_of(call)[1])),
        has_type_(has_role(function_of(pickle, call), Role::rebuild_of_type)) {}

  TorchTensor read() const;

 private:
  std::vector<int64_t> numbers(const PickleValue& value, const char* what) const;
  std::string_view dtype(const TorchStorage& storage) const;
  void check_bits() const;
  void place(TorchTensor& tensor, const TorchStorage& storage, int64_t first) const;
  bool overlaps(const TorchTensor& tensor) const;
  [[noreturn]] void fail(const std::string& text) const {
    pickle_.fail(position_, fmt::format("tensor '{}': {}", one_line(name_), text));
  }

  const Pickle& pickle_;
  const std::string& name_;
  int64_t position_;
  const std::vector<PickleValue>& arguments_;
  bool has_type_;
};

std::vector<int64_t> TensorCall::numbers(const PickleValue& value, const char* what) const {
  std::vector<int64_t> result;
  const PickleValue* tuple = &value;
  if (value.kind == Kind::call) {  // torch.Size((2, 3))
    const auto& arguments = pickle_.items_of(pickle_.items_of(value)[1]);
    if (arguments.size() == 1) tuple = &arguments[0];
  }
  const bool is_tuple = tuple->kind == Kind::tuple && pickle_.items_of(*tuple).size() <= kMostDimensions;
  if (!is_tuple)
    fail(fmt::format("expected at most {} {}, found {}", kMostDimensions, what, kind_name(value.kind)));
  for (const PickleValue& item : pickle_.items_of(*tuple)) {
    if (item.kind != Kind::integer || item.number < 0) {
      fail(fmt::format("expected {} from 0, found {}; save it again", what,
                       item.kind == Kind::integer ? fmt::to_string(item.number) : kind_name(item.kind)));
    }
    result.push_back(item.number);
  }
  return result;
}

std::string_view TensorCall::dtype(const TorchStorage& storage) const {
  if (!has_type_) return storage.dtype;
  const TorchName* type = arguments_.size() > 6 ? name_of(arguments_[6]) : nullptr;
  if (!has_role(type, Role::element_type))
    fail(std::string("expected the type of its elements, found another value. ") + kSaveWeights);
  return type->dtype;
}

/// A tensor that only stands for the negative or the conjugate of what is stored says so in its last
/// argument.
void TensorCall::check_bits() const {
  const size_t place = has_type_ ? 7 : 6;
  if (arguments_.size() <= place || arguments_[place].kind != Kind::map) return;
  if (!pickle_.items_of(arguments_[place]).empty())
    fail("is stored as its negative or conjugate, expected its own values; save tensor.resolve_neg()");
}

/// Sorted by stride, each dimension must step over all elements of those before it.
bool TensorCall::overlaps(const TorchTensor& tensor) const {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, size
  for (size_t i = 0; i < tensor.strides.size(); ++i)
    if (tensor.stored.shape[i] > 1) steps.emplace_back(tensor.strides[i], tensor.stored.shape[i]);
  std::ranges::sort(steps);
  int64_t reach = 1;
  for (const auto& [stride, size] : steps) {
    if (stride < reach) return true;
    if (__builtin_mul_overflow(stride, size, &reach))
      fail("its strides and sizes exceed 63 bits; save it again");
  }
  return false;
}

/// Sets the part of the storage that the elements from `first` on occupy.
void TensorCall::place(TorchTensor& tensor, const TorchStorage& storage, int64_t first) const {
  if (tensor.stored.end == 0) return;  // without elements
  const int64_t width = element_bytes(tensor.stored.dtype);
  int64_t steps = 0, dense = 1;  // both fit into 63 bits: `overlaps` has checked the products
  for (size_t i = tensor.strides.size(); i > 0; --i) {
    const int64_t size = tensor.stored.shape[i - 1], stride = tensor.strides[i - 1];
    if (size > 1 && stride != dense) tensor.is_contiguous = false;
    if (size > 1) steps += (size - 1) * stride;
    dense *= size;
  }
  int64_t end = 0;
  if (__builtin_add_overflow(first, steps, &end) || __builtin_add_overflow(end, 1, &end) ||
      __builtin_mul_overflow(end, width, &end) || end > storage.view_bytes) {
    fail(fmt::format("its elements from {} on need more than the {} bytes of its storage; {}", first,
                     storage.view_bytes, kCopyAgain));
  }
  tensor.begin = storage.view_begin + first * width;
  tensor.end = storage.view_begin + end;
}

TorchTensor TensorCall::read() const {
  if (arguments_.size() < 4 || arguments_[0].kind != Kind::reference || arguments_[1].kind != Kind::integer)
    fail(std::string("expected a storage, an offset, a shape and strides, found other values. ") +
         kSaveWeights);
  check_bits();
  const TorchStorage storage = storage_of(pickle_, arguments_[0]);
  TorchTensor tensor;
  tensor.key = storage.key;
  tensor.stored = {name_, std::string(dtype(storage)), numbers(arguments_[2], "sizes")};
  tensor.strides = numbers(arguments_[3], "strides");
  if (tensor.strides.size() != tensor.stored.shape.size())
    fail(fmt::format("{} sizes and {} strides, expected as many; download or copy the file again",
                     tensor.stored.shape.size(), tensor.strides.size()));
  const std::optional<int64_t> bytes = tensor_bytes(tensor.stored.shape, tensor.stored.dtype);
  if (!bytes)
    fail(fmt::format("shape [{}] needs more than 2^63 bytes; save it again",
                     fmt::join(tensor.stored.shape, ", ")));
  tensor.stored.end = *bytes;
  const int64_t first = arguments_[1].number;
  if (first < 0) fail(fmt::format("expected an offset from 0, found {}; save it again", first));
  if (*bytes > 0 && overlaps(tensor)) fail("its elements overlap each other; save tensor.contiguous()");
  place(tensor, storage, first);
  return tensor;
}

}  // namespace

TorchStorage storage_of(const Pickle& pickle, const PickleValue& reference) {
  const auto& parts = pickle.items_of(reference);
  const auto fail = [&](const std::string& text) { pickle.fail(parts[1].number, text); };
  if (parts[0].kind != Kind::tuple)
    fail(std::string("expected a storage, found another reference. ") + kSaveWeights);
  const auto& items = pickle.items_of(parts[0]);
  if (items.size() < 5 || !is_text(pickle, items[0], "storage")) {
    fail(std::string("expected a storage, found another reference. ") + kSaveWeights);
  }
  const TorchName* type = name_of(items[1]);
  if (!has_role(type, Role::storage) || items[2].kind != Kind::text || items[4].kind != Kind::integer)
    fail(std::string("expected a storage's type, key, device and size, found other values. ") + kSaveWeights);
  if (pickle.bytes_of(items[2]).size() > kMostKeyBytes)
    fail(fmt::format("expected a storage's key of at most {} bytes, found a longer one. {}", kMostKeyBytes,
                     kSaveWeights));
  TorchStorage storage{.key = std::string(pickle.bytes_of(items[2])), .dtype = type->dtype};
  const int64_t width = element_bytes(type->dtype);
  const auto bytes_from = [&](const PickleValue& elements) {
    int64_t bytes = 0;
    if (elements.kind != Kind::integer || elements.number < 0 ||
        __builtin_mul_overflow(elements.number, width, &bytes))
      fail("expected a storage's number of elements, found a negative or too large one; save it again");
    return bytes;
  };
  storage.bytes = storage.view_bytes = bytes_from(items[4]);
  if (items.size() < 6 || items[5].kind == Kind::none) return storage;
  if (items[5].kind != Kind::tuple || pickle.items_of(items[5]).size() != 3)
    fail(std::string("expected a view of a storage, found another value. ") + kSaveWeights);
  const auto& view = pickle.items_of(items[5]);
  storage.view_begin = bytes_from(view[1]);
  storage.view_bytes = bytes_from(view[2]);
  if (storage.view_begin > storage.bytes || storage.view_bytes > storage.bytes - storage.view_begin)
    fail(fmt::format("a view ends after the {} bytes of its storage; {}", storage.bytes, kCopyAgain));
  return storage;
}

bool is_tensor(const Pickle& pickle, const PickleValue& value) {
  const TorchName* function = function_of(pickle, value);
  return has_role(function, Role::rebuild_tensor) || has_role(function, Role::rebuild_of_type) ||
         has_role(function, Role::rebuild_parameter);
}

TorchTensor tensor_of(const Pickle& pickle, const PickleValue& value, const std::string& name) {
  if (!has_role(function_of(pickle, value), Role::rebuild_parameter))
    return TensorCall(pickle, value, name).read();
  const auto& arguments = pickle.items_of(pickle.items_of(value)[1]);
  const bool is_of_tensor = !arguments.empty() && is_tensor(pickle, arguments[0]) &&
                            !has_role(function_of(pickle, arguments[0]), Role::rebuild_parameter);
  if (!is_of_tensor) {
    pickle.fail(pickle.items_of(value)[2].number,
                fmt::format("parameter '{}': expected a tensor, found another value. {}", one_line(name),
                            kSaveWeights));
  }
  return TensorCall(pickle, arguments[0], name).read();
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/import/torch_names.h"

#include <fmt/core.h>

#include <array>

#include "core/base/printable.h"
#include "core/import/remedies.h"

namespace trainer {

std::span<const TorchName> torch_names() {
  using enum TorchName::Role;
  static constexpr auto kNames = std::to_array<TorchName>({
      {"collections OrderedDict", ordered_dict, ""},
      {"collections Counter", ignored, ""},                  // of torch.optim.lr_scheduler.MultiStepLR
      {"torch._utils _rebuild_tensor", rebuild_tensor, ""},  // before 0.4
      {"torch._utils _rebuild_tensor_v2", rebuild_tensor, ""},
      {"torch._utils _rebuild_tensor_v3", rebuild_of_type, ""},
      {"torch._utils _rebuild_parameter", rebuild_parameter, ""},
      {"torch FloatStorage", storage, "F32"},
      {"torch HalfStorage", storage, "F16"},
      {"torch BFloat16Storage", storage, "BF16"},
      {"torch DoubleStorage", storage, "F64"},
      {"torch LongStorage", storage, "I64"},
      {"torch IntStorage", storage, "I32"},
      {"torch ShortStorage", storage, "I16"},
      {"torch CharStorage", storage, "I8"},
      {"torch ByteStorage", storage, "U8"},
      {"torch BoolStorage", storage, "BOOL"},
      {"torch.storage UntypedStorage", storage, "U8"},
      {"torch float32", element_type, "F32"},
      {"torch float16", element_type, "F16"},
      {"torch bfloat16", element_type, "BF16"},
      {"torch float64", element_type, "F64"},
      {"torch int64", element_type, "I64"},
      {"torch int32", element_type, "I32"},
      {"torch int16", element_type, "I16"},
      {"torch int8", element_type, "I8"},
      {"torch uint64", element_type, "U64"},
      {"torch uint32", element_type, "U32"},
      {"torch uint16", element_type, "U16"},
      {"torch uint8", element_type, "U8"},
      {"torch bool", element_type, "BOOL"},
      {"torch float8_e4m3fn", element_type, "F8_E4M3"},
      {"torch float8_e5m2", element_type, "F8_E5M2"},
      {"torch Size", ignored, ""},
      {"torch device", ignored, ""},
  });
  return kNames;
}

std::string refusal_of(std::string_view name) {
  constexpr size_t kShown = 200;
  const std::string shown = one_line(name.substr(0, kShown));
  if (name == "torch._utils _rebuild_sparse_tensor" || name == "torch._utils _rebuild_sparse_csr_tensor") {
    return fmt::format("found a sparse tensor ('{}'), expected dense ones; save tensor.to_dense()", shown);
  }
  if (name == "torch._utils _rebuild_qtensor" || name.starts_with("torch Q")) {
    return fmt::format("found a quantised tensor ('{}'), expected others; save tensor.dequantize()", shown);
  }
  return fmt::format(
      "found the name '{}', expected only tensors, numbers, texts, lists and maps. Nothing of the file was "
      "executed. {}",
      shown, kSaveWeights);
}

}  // namespace trainer

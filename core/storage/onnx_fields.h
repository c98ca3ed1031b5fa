// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Numbers of ONNX's messages (onnx/onnx.proto), which reader and writer share.
namespace trainer::onnx {

namespace model_field {
enum : uint32_t { kIrVersion = 1, kProducerName = 2, kProducerVersion = 3, kGraph = 7, kOpsetImport = 8 };
}  // namespace model_field

namespace opset_field {
enum : uint32_t { kDomain = 1, kVersion = 2 };
}  // namespace opset_field

namespace graph_field {
enum : uint32_t {
  kNode = 1,
  kName = 2,
  kInitializer = 5,
  kInput = 11,
  kOutput = 12,
  kValueInfo = 13,
  kSparseInitializer = 15
};
}  // namespace graph_field

namespace node_field {
enum : uint32_t { kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5, kDomain = 7 };
}  // namespace node_field

namespace attribute_field {
enum : uint32_t { kName = 1, kFloat = 2, kInt = 3, kString = 4, kInts = 8, kType = 20 };
}  // namespace attribute_field

/// Values of AttributeProto.type.
namespace attribute_type {
enum : int32_t { kFloat = 1, kInt = 2, kString = 3, kInts = 7 };
}  // namespace attribute_type

namespace value_field {
enum : uint32_t { kName = 1, kType = 2 };
}  // namespace value_field

namespace type_field {
enum : uint32_t { kTensor = 1, kElement = 1, kShape = 2, kDimension = 1, kSize = 1, kSymbol = 2 };
}  // namespace type_field

namespace tensor_field {
enum : uint32_t {
  kDims = 1,
  kDataType = 2,
  kFloatData = 4,
  kInt32Data = 5,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14
};
}  // namespace tensor_field

/// An entry of TensorProto.external_data.
namespace entry_field {
enum : uint32_t { kKey = 1, kValue = 2 };
}  // namespace entry_field

/// Prefix of the names of constants, which are not weights.
constexpr const char* kConstantName = "/constant";

/// TensorProto.data_location of data in another file.
constexpr int32_t kExternal = 1;

/// Element types (TensorProto.DataType).
enum class Element : int32_t {
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  bf16 = 16,
  f8_e4m3 = 17,
  f8_e5m2 = 19
};

}  // namespace trainer::onnx

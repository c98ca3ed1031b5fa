// SPDX-License-Identifier: Apache-2.0
#include "core/import/onnx_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <protozero/data_view.hpp>
#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>
#include <protozero/types.hpp>
#include <protozero/varint.hpp>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/import/remedies.h"
#include "core/import/tensor_name.h"
#include "core/storage/onnx_fields.h"
#include "core/storage/stored_type.h"

namespace trainer {
namespace {

using protozero::pbf_reader;
using protozero::tag_and_type;

constexpr auto kVarint = protozero::pbf_wire_type::varint, kFixed32 = protozero::pbf_wire_type::fixed32,
               kFixed64 = protozero::pbf_wire_type::fixed64,
               kDelimited = protozero::pbf_wire_type::length_delimited;

using onnx::tensor_field::kDataLocation;
using onnx::tensor_field::kDataType;
using onnx::tensor_field::kDims;
using onnx::tensor_field::kDoubleData;
using onnx::tensor_field::kExternalData;
using onnx::tensor_field::kFloatData;
using onnx::tensor_field::kInt32Data;
using onnx::tensor_field::kInt64Data;
using onnx::tensor_field::kName;
using onnx::tensor_field::kRawData;
using onnx::tensor_field::kUint64Data;

/// A type of ONNX with the field that has its elements if raw_data has not.
struct OnnxType {
  onnx::Element element;
  std::string_view dtype;
  protozero::pbf_tag_type field;
};

using onnx::Element;

constexpr auto kOnnxTypes = std::to_array<OnnxType>({{Element::f32, "F32", kFloatData},
                                                     {Element::u8, "U8", kInt32Data},
                                                     {Element::i8, "I8", kInt32Data},
                                                     {Element::u16, "U16", kInt32Data},
                                                     {Element::i16, "I16", kInt32Data},
                                                     {Element::i32, "I32", kInt32Data},
                                                     {Element::i64, "I64", kInt64Data},
                                                     {Element::boolean, "BOOL", kInt32Data},
                                                     {Element::f16, "F16", kInt32Data},
                                                     {Element::f64, "F64", kDoubleData},
                                                     {Element::u32, "U32", kUint64Data},
                                                     {Element::u64, "U64", kUint64Data},
                                                     {Element::bf16, "BF16", kInt32Data},
                                                     {Element::f8_e4m3, "F8_E4M3", kInt32Data},
                                                     {Element::f8_e5m2, "F8_E5M2", kInt32Data}});

/// Moves to the next field of a message. protozero drops the upper half of a length, so lengths are compared
/// with the remaining bytes before it reads them.
bool advance_onnx(pbf_reader& message) {
  if (!message.next()) return false;
  if (!message.has_wire_type(kDelimited)) return true;
  const char* at = message.data().data();
  const char* const end = at + message.length();
  const uint64_t length = protozero::decode_varint(&at, end);
  if (length > static_cast<uint64_t>(end - at)) throw protozero::end_of_buffer_exception();
  return true;
}

std::string_view view_of(pbf_reader& field) {
  const protozero::data_view view = field.get_view();
  return {view.data(), view.size()};
}

/// Gives the elements of one tensor, as they come, in pieces.
class ElementWriter {
 public:
  ElementWriter(size_t width, const ByteSink& sink) : width_(width), sink_(sink) {}

  void put(std::string_view bytes) {
    flush();
    sink_(std::as_bytes(std::span(bytes)));
  }
  void put_number(uint64_t number) {
    if (used_ + width_ > piece_.size()) flush();
    std::memcpy(piece_.data() + used_, &number, width_);
    used_ += width_;
  }
  void put_numbers(std::string_view packed) {
    const char* at = packed.data();
    while (at != packed.data() + packed.size())
      put_number(protozero::decode_varint(&at, packed.data() + packed.size()));
  }
  void flush() {
    if (used_ > 0) sink_(std::span(piece_).first(used_));
    used_ = 0;
  }

 private:
  size_t width_;
  const ByteSink& sink_;
  std::array<std::byte, 4096> piece_ = {};
  size_t used_ = 0;
};

/// The elements of a TensorProto: of raw_data, and of the field for its type.
void write_elements(pbf_reader tensor, const OnnxType& type, const ByteSink& sink) {
  const auto width = static_cast<size_t>(element_bytes(type.dtype));
  const bool has_numbers = type.field != kFloatData && type.field != kDoubleData;
  ElementWriter writer(width, sink);
  while (advance_onnx(tensor)) {
    const bool is_data = tensor.tag() == type.field;
    const bool is_block = tensor.has_wire_type(kDelimited) && (is_data || tensor.tag() == kRawData);
    if (is_block && is_data && has_numbers) {
      writer.put_numbers(view_of(tensor));
    } else if (is_block) {
      writer.put(view_of(tensor));
    } else if (is_data && has_numbers && tensor.has_wire_type(kVarint)) {
      writer.put_number(tensor.get_uint64());
    } else if (type.field == kFloatData && is_data && tensor.has_wire_type(kFixed32)) {
      writer.put_number(tensor.get_fixed32());
    } else if (type.field == kDoubleData && is_data && tensor.has_wire_type(kFixed64)) {
      writer.put_number(tensor.get_fixed64());
    } else {
      tensor.skip();
    }
  }
  writer.flush();
}

class OnnxFile final : public ForeignWeights {
 public:
  OnnxFile(const std::filesystem::path& path, std::string bytes) : path_(path), bytes_(std::move(bytes)) {
    pbf_reader model(bytes_.data(), bytes_.size());
    while (advance_onnx(model)) {
      if (model.tag_and_type() == tag_and_type(onnx::model_field::kGraph, kDelimited)) {
        read_graph(model.get_message());
      } else {
        model.skip();
      }
    }
    if (tensors_.empty())
      fail("expected initializers with weights, found none; export the model with its parameters");
  }

  void copy(size_t index, const ByteSink& sink) override {
    write_elements(sources_.at(index).first, *sources_[index].second, sink);
  }

 private:
  void read_graph(pbf_reader graph);
  void add(pbf_reader message);
  [[noreturn]] void fail(const std::string& text) const {
    throw Error(ExitCode::data, fmt::format("{}: {}", one_line(path_.string()), text));
  }
  [[noreturn]] void fail(const std::string& name, const std::string& text) const {
    fail(fmt::format("tensor '{}': {}", one_line(name), text));
  }

  std::filesystem::path path_;
  std::string bytes_;
  std::vector<std::pair<pbf_reader, const OnnxType*>> sources_;
};

void OnnxFile::read_graph(pbf_reader graph) {
  using onnx::graph_field::kInitializer, onnx::graph_field::kSparseInitializer;
  while (advance_onnx(graph)) {
    if (graph.tag_and_type() == tag_and_type(kInitializer, kDelimited)) {
      add(graph.get_message());
    } else if (graph.tag_and_type() == tag_and_type(kSparseInitializer, kDelimited)) {
      fail("has a sparse initializer, expected dense ones; export the model with dense weights");
    } else {
      graph.skip();
    }
  }
}

/// Fields of a TensorProto but its elements.
struct OnnxHead {
  StoredTensor stored;
  int32_t type = 0;
  bool is_elsewhere = false;  ///< its elements are in another file
};

OnnxHead read_head(pbf_reader tensor) {
  OnnxHead head;
  while (advance_onnx(tensor)) {
    switch (tensor.tag_and_type()) {
      case tag_and_type(kDims, kVarint):
        head.stored.shape.push_back(tensor.get_int64());
        break;
      case tag_and_type(kDims, kDelimited):
        for (const int64_t size : tensor.get_packed_int64()) head.stored.shape.push_back(size);
        break;
      case tag_and_type(kDataType, kVarint):
        head.type = tensor.get_int32();
        break;
      case tag_and_type(kName, kDelimited):
        head.stored.name = view_of(tensor);
        break;
      case tag_and_type(kDataLocation, kVarint):
        head.is_elsewhere |= tensor.get_uint64() != 0;
        break;
      case tag_and_type(kExternalData, kDelimited):
        head.is_elsewhere = true;
        tensor.skip();
        break;
      default:
        tensor.skip();
    }
  }
  return head;
}

void OnnxFile::add(pbf_reader message) {
  OnnxHead head = read_head(message);
  const std::string& name = head.stored.name;
  if (name.starts_with(onnx::kConstantName)) return;
  if (!is_tensor_name(name)) fail(name, kRenameTensor);
  if (head.is_elsewhere) {
    fail(name,
         "its data is in another file, expected it in the model; in Python: onnx.save(onnx.load(path), path, "
         "save_as_external_data=False)");
  }
  const auto* type = std::ranges::find(kOnnxTypes, Element{head.type}, &OnnxType::element);
  if (type == kOnnxTypes.end())
    fail(name,
         fmt::format("ONNX's type {} cannot be stored, expected numbers; convert the tensor", head.type));
  head.stored.dtype = type->dtype;
  const std::optional<int64_t> bytes = tensor_bytes(head.stored.shape, type->dtype);
  if (!bytes)
    fail(name, fmt::format("shape [{}] is negative or needs more than 2^63 bytes; export the model again",
                           fmt::join(head.stored.shape, ", ")));
  int64_t found = 0;
  write_elements(message, *type, [&](std::span<const std::byte> piece) { found += std::ssize(piece); });
  if (found != *bytes) {
    fail(name, fmt::format("shape [{}] of {} needs {} bytes, found {}; {}",
                           fmt::join(head.stored.shape, ", "), type->dtype, *bytes, found, kCopyAgain));
  }
  head.stored.end = *bytes;
  tensors_.push_back(std::move(head.stored));
  sources_.emplace_back(message, type);
}

}  // namespace

std::unique_ptr<ForeignWeights> open_onnx_file(const std::filesystem::path& path) try {
  constexpr int64_t kMostBytes = int64_t{1} << 31;  // a limit of Protocol Buffers
  std::optional<std::string> bytes = read_text(path, Links::follow, kMostBytes);
  if (!bytes) throw Error(ExitCode::io, fmt::format("{}: is gone", one_line(path.string())));
  return std::make_unique<OnnxFile>(path, std::move(*bytes));
} catch (const protozero::exception& problem) {
  throw Error(ExitCode::data,
              fmt::format("{}: expected an ONNX model, found a damaged or another file ({}); {}",
                          one_line(path.string()), problem.what(), kCopyAgain));
}

}  // namespace trainer

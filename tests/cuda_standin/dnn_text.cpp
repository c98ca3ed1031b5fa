// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>

#include "tests/cuda_standin/dnn.h"

// Objects as text that another process can read: cuDNN calls it the JSON of a plan.

namespace trainer::standin {
namespace {

constexpr const char* kHeader = "stand-in-plan-1";

/// Handles and addresses mean nothing elsewhere.
bool is_portable(const Attribute& attribute) {
  return attribute.type != CUDNN_TYPE_HANDLE && attribute.type != CUDNN_TYPE_VOID_PTR;
}

void write(const Object& object, std::ostream& out) {
  out << ' ' << int{object.type} << ' ';
  out << std::count_if(object.attributes.begin(), object.attributes.end(),
                       [](const auto& named) { return is_portable(named.second); });
  for (const auto& [name, attribute] : object.attributes) {
    if (!is_portable(attribute)) continue;
    out << ' ' << name << ' ' << int{attribute.type} << ' ' << attribute.count << ' '
        << attribute.bytes.size();
    for (const std::byte byte : attribute.bytes) out << ' ' << std::to_integer<int>(byte);
    for (const ObjectPointer& child : attribute.objects) write(*child, out);
  }
}

template <class T>
T read_number(std::istream& in) {
  int64_t number = 0;
  if (!(in >> number)) throw Refusal{CUDNN_STATUS_BAD_PARAM, "a plan's text is cut off"};
  return static_cast<T>(number);
}

Object read(std::istream& in) {
  Object object{.type = read_number<cudnnBackendDescriptorType_t>(in), .is_finalized = true};
  for (auto left = read_number<int>(in); left > 0; --left) {
    Attribute& attribute = object.attributes[read_number<int>(in)];
    attribute.type = read_number<cudnnBackendAttributeType_t>(in);
    attribute.count = read_number<int64_t>(in);
    attribute.bytes.resize(read_number<size_t>(in));
    for (std::byte& byte : attribute.bytes) byte = read_number<std::byte>(in);
    if (attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
    for (int64_t i = 0; i < attribute.count; ++i)
      attribute.objects.push_back(std::make_shared<Object>(read(in)));
  }
  return object;
}

}  // namespace

std::string text_of(const Object& plan) {
  std::ostringstream out;
  out << kHeader;
  write(plan, out);
  return out.str();
}

Object plan_from(const std::string& text) {
  std::istringstream in(text);
  std::string header;
  if (!(in >> header) || header != kHeader)
    throw Refusal{CUDNN_STATUS_NOT_SUPPORTED, "a plan of another release"};
  return read(in);
}

}  // namespace trainer::standin

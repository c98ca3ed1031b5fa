// SPDX-License-Identifier: Apache-2.0
#include "tests/data/samples.h"

#include <zlib.h>

#include <filesystem>
#include <fstream>
#include "tests/catch.h"

#include "core/data/images/transforms/table.h"

namespace trainer {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "trainer-data-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string idx_bytes(uint32_t magic, const std::vector<uint32_t>& sizes, const std::string& payload) {
  std::vector<uint32_t> words = {magic};
  words.insert(words.end(), sizes.begin(), sizes.end());
  std::string bytes;
  for (uint32_t word : words) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift);
  }
  return bytes + payload;
}

std::string gzip(const std::string& bytes) {
  z_stream zlib{};
  constexpr int kGzip = 16;
  REQUIRE(::deflateInit2(&zlib, 9, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(::deflateBound(&zlib, bytes.size()) + 64, '\0');
  std::string copy = bytes;
  zlib.next_in = reinterpret_cast<Bytef*>(copy.data());
  zlib.avail_in = static_cast<uInt>(copy.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(::deflate(&zlib, Z_FINISH) == Z_STREAM_END);
  packed.resize(zlib.total_out);
  ::deflateEnd(&zlib);
  return packed;
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

DataSection read_section(const std::string& yaml) {
  Diagnostics diagnostics;
  DataSection section;
  Fields fields;
  section.declare(fields);
  fields.read(parse_yaml(yaml, "r.yaml", diagnostics), "data", diagnostics);
  diagnostics.throw_if_any();
  return section;
}

std::string data_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    return error.what();
  }
  FAIL("no error was thrown");
  return {};
}

std::unique_ptr<Transform> make_transform(const std::string& name) {
  for (const auto& row : transforms()) {
    if (row.name == name) return row.make();
  }
  FAIL("no transform " << name);
  return nullptr;
}

namespace {

template <class T>
void assign(Transform& transform, const std::string& name, const T& value) {
  Fields fields;
  transform.declare(fields);
  for (const Field& field : fields.list()) {
    if (field.name != name) continue;
    if (T* const* target = std::get_if<T*>(&field.target)) **target = value;
    if constexpr (std::is_same_v<T, int64_t>) {
      if (auto* const* target = std::get_if<std::optional<T>*>(&field.target)) **target = value;
      if (auto* const* target = std::get_if<SideOrPair*>(&field.target)) **target = {{value, value}, false};
    }
    return;
  }
  FAIL("no parameter " << name);
}

}  // namespace

void set(Transform& transform, const std::string& field, double value) {
  assign(transform, field, value);
}
void set(Transform& transform, const std::string& field, int64_t value) {
  assign(transform, field, value);
}
void set(Transform& transform, const std::string& field, std::vector<double> values) {
  assign(transform, field, values);
}
void set(Transform& transform, const std::string& field, const std::string& value) {
  assign(transform, field, value);
}
void set(Transform& transform, const std::string& field, bool value) {
  assign(transform, field, value);
}

TransformList augmentation() {
  TransformList list;
  list.push_back(make_transform("random_crop"));
  list.push_back(make_transform("horizontal_flip"));
  list.push_back(make_transform("normalize"));
  set(*list[2], "mean", std::vector<double>{0.3, 0.4});
  set(*list[2], "std", std::vector<double>{0.5, 0.6});
  return list;
}

TransformChain make_chain(const TransformList& list, const Shape& input) {
  Diagnostics diagnostics;
  TransformChain chain(list, input, diagnostics);
  diagnostics.throw_if_any();
  return chain;
}

BatchInputs image_inputs(const Shape& shape, DType dtype) {
  return {{"images", dtype, shape},         {"labels", DType::i32, {}},
          {"weights", DType::f32, {}},      {"sample_index", DType::i32, {}},
          {"other_labels", DType::i32, {}}, {"mix_weights", DType::f32, {}}};
}

void CountingSource::read(int64_t index, Image& into) const {
  if (index == bad_) throw Error(ExitCode::data, "sample " + std::to_string(index) + " is bad");
  into.resize(shape_[0], shape_[1], shape_[2]);
  for (size_t i = 0; i < into.pixels.size(); ++i) {
    into.pixels[i] = static_cast<uint8_t>(static_cast<size_t>(index) + 7 * i);
  }
  into.label = static_cast<int32_t>(index % classes());
}

std::string bits(const Batch& batch, int64_t rows, int64_t pixels) {
  const auto count = static_cast<size_t>(rows);
  std::string all(reinterpret_cast<const char*>(images_of(batch)), count * static_cast<size_t>(pixels) * 4);
  all.append(reinterpret_cast<const char*>(labels_of(batch)), count * 4);
  all.append(reinterpret_cast<const char*>(weights_of(batch)), count * 4);
  all.append(reinterpret_cast<const char*>(sample_index_of(batch)), count * 4);
  for (int64_t number : {batch.step, batch.first, batch.epoch, batch.real})
    all += std::to_string(number) + " ";
  return all;
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/import/foreign_weights.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/catch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

fs::path fixture(const std::string& name) {
  return fs::path(TRAINER_SOURCE_DIR) / "tests/fixtures/foreign" / name;
}

std::string file_contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  REQUIRE(stream.good());
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A file in a directory of its own.
class PutFile {
 public:
  explicit PutFile(const std::string& bytes) {
    std::string name = (fs::temp_directory_path() / "trainer-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
    std::ofstream(path(), std::ios::binary) << bytes;
  }
  PutFile(const PutFile&) = delete;
  PutFile& operator=(const PutFile&) = delete;
  ~PutFile() { fs::remove_all(folder_); }
  fs::path path() const { return folder_ / "w.pth"; }

 private:
  fs::path folder_;
};

using Contents = std::map<std::string, std::string>;  // "F32 2x3 ", then the bytes

Contents contents_of(const fs::path& path) {
  const auto weights = open_foreign_weights(path);
  Contents contents;
  for (size_t i = 0; i < weights->tensors().size(); ++i) {
    const StoredTensor& tensor = weights->tensors()[i];
    std::string text = tensor.dtype + " " + to_string(tensor.shape) + " ", bytes;
    weights->copy(i, [&](std::span<const std::byte> piece) {
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    });
    CHECK(std::ssize(bytes) == tensor.end);
    contents[tensor.name] = text + bytes;
  }
  return contents;
}

template <class T>
std::string stored(const std::string& type, const std::vector<T>& values) {
  return type + " " + std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// The text of the Error (exit 65) by which a file is refused, when it is opened or copied.
std::string refusal(const fs::path& path) {
  try {
    contents_of(path);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("import: both forms of torch.save give every tensor in its type, row by row") {
  for (const char* name : {"state.pth", "legacy.pth"}) {
    INFO(name);
    const Contents found = contents_of(fixture(name));
    const std::vector<float> whole{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const Contents expected = {
        {"fc.weight", stored<float>("F32 2x3", {0, 1, 2, 3, 4, 5})},
        {"half", stored<uint16_t>("F16 5", {0, 0x3c00, 0x4000, 0x4200, 0x4400})},
        {"brain", stored<uint16_t>("BF16 5", {0, 0x3f80, 0x4000, 0x4040, 0x4080})},
        {"double", stored<double>("F64 3", {0, 1, 2})},
        {"steps", stored<int64_t>("I64 " + to_string(Shape{}), {7})},
        {"mask", stored<uint8_t>("BOOL 3", {1, 0, 1})},
        {"transposed", stored<float>("F32 4x2x3", {0, 4, 8,  12, 16, 20, 1, 5, 9,  13, 17, 21,
                                                   2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23})},
        {"whole", stored("F32 4x3", whole)},
        {"tied", stored("F32 4x3", whole)},
        {"rows", stored<float>("F32 2x3", {3, 4, 5, 6, 7, 8})},
        {"column", stored<float>("F32 4", {1, 4, 7, 10})},
        {"none", "F32 0x7 "}};
    CHECK(found == expected);
  }
}

TEST_CASE(
    "import: a checkpoint's weights lose the prefix of DataParallel, and its other entries are counted") {
  const auto weights = open_foreign_weights(fixture("checkpoint.pth"));
  REQUIRE(weights->tensors().size() == 5);
  CHECK(weights->tensors()[0].name == "weight");
  CHECK(weights->remarks() ==
        std::vector<std::string>{"3 entries that are no weights were ignored: epoch, optimizer, lr",
                                 "the prefix 'module.' was removed from all names"});
  CHECK(contents_of(fixture("parameter.pth")) == Contents{{"w", stored<float>("F32 2x2", {0, 1, 2, 3})}});
}

TEST_CASE("import: a weight pruned by PyTorch is its original times its mask") {
  const Contents found = contents_of(fixture("pruned.pth"));
  REQUIRE(found.size() == 2);
  CHECK(found.at("weight") == stored<float>("F32 2x4", {0, 0, 0, 4, 5, 6, 7, 8}));
  CHECK(found.contains("bias"));
  CHECK(open_foreign_weights(fixture("pruned.pth"))->remarks() ==
        std::vector<std::string>{"1 weight was multiplied by the mask of torch.nn.utils.prune"});
}

TEST_CASE("import: what cannot be imported is refused by its name") {
  const std::map<std::string, std::string> texts = {
      {"names.pth", "data.pkl: byte 172: found the name 'argparse Namespace'"},
      {"sparse.pth", "found a sparse tensor"},
      {"quantised.pth", "found a quantised tensor"},
      {"norm.pth", "tensor 'fc.weight_g': is a part of a weight norm or a spectral norm"},
      {"parametrised.pth", "remove_parametrizations"},
      {"half_mask.pth",
       "mask 'w_mask' has an element that is neither 0 nor 1; call torch.nn.utils.prune.remove"},
      {"short_mask.pth", "mask 'w_mask' does not have its weight's shape"},
      {"expanded.pth", "tensor 'w': its elements overlap each other"},
      {"nothing.pth", "found a map without tensors"},
      {"compressed.pth", "is compressed, expected it stored"},
      {"external.onnx", "tensor 'far': its data is in another file"},
      {"short.onnx", "needs 24 bytes, found 20"},
      {"text.onnx", "ONNX's type 8"}};
  for (const auto& [name, text] : texts) {
    INFO(name);
    CHECK_THAT(refusal(fixture(name)), Catch::Matchers::ContainsSubstring(text));
  }
}

TEST_CASE("import: the initializers of an ONNX model, whichever field has their data") {
  const Contents expected = {{"raw", stored<float>("F32 2x3", {0, 1, 2, 3, 4, 5})},
                             {"floats", stored<float>("F32 3", {0, 1, 2})},
                             {"longs", stored<int64_t>("I64 3", {0, 300, -1})},
                             {"half", stored<uint16_t>("F16 3", {0, 0x3c00, 0x4000})},
                             {"double", stored<double>("F64 2", {0, 1})}};
  CHECK(contents_of(fixture("model.onnx")) == expected);
}

TEST_CASE("import: a file that is cut short is refused, wherever it ends") {
  for (const char* name : {"state.pth", "legacy.pth", "model.onnx"}) {
    const std::string whole = file_contents(fixture(name));
    for (size_t length = 0; length < whole.size(); length += 7) {
      INFO(name << " " << length);
      CHECK_FALSE(refusal(PutFile(whole.substr(0, length)).path()).empty());
    }
  }
}

TEST_CASE("import: a brace in an ONNX model does not make it a safetensors file") {
  const std::string model("\x08\x0d\x3a\xb3\xaa\xc3\x01\x0a{", 9), tensors("\x08\0\0\0\0\0\0\0{", 9);
  CHECK_THAT(refusal(PutFile(model).path()), !Catch::Matchers::ContainsSubstring("safetensors"));
  CHECK_THAT(refusal(PutFile(tensors).path()), Catch::Matchers::ContainsSubstring("is a safetensors file"));
}

TEST_CASE("import: a changed byte of a storage in an archive differs from its checksum") {
  std::string bytes = file_contents(fixture("state.pth"));
  const float element = 5;  // the last one of fc.weight, in the first storage
  const size_t place = bytes.find(std::string(reinterpret_cast<const char*>(&element), sizeof element));
  REQUIRE(place != std::string::npos);
  bytes[place] = 1;
  CHECK_THAT(refusal(PutFile(bytes).path()), Catch::Matchers::ContainsSubstring("differs from its checksum"));
}

TEST_CASE("import: a place beyond all files, in an archive's directory, is damage and no I/O error") {
  std::string bytes = file_contents(fixture("state.pth"));
  const size_t entry = bytes.find("PK\x01\x02");
  REQUIRE(entry != std::string::npos);
  for (const char* forged : {"\xff\xff\xff\xff", "\xff\xff\xff\x7f", "\xfe\xff\xff\xff"}) {
    for (const size_t field : {20, 24, 42}) {  // sizes, place
      std::string changed = bytes;
      changed.replace(entry + field, 4, forged);
      INFO(field);
      CHECK_FALSE(refusal(PutFile(changed).path()).empty());
    }
  }
}

TEST_CASE("import: other files are refused with the name of what is read") {
  CHECK_THAT(refusal(PutFile("not weights").path()),
             Catch::Matchers::ContainsSubstring("expected a file by torch.save"));
  CHECK_THAT(refusal(PutFile(std::string("\2\0\0\0\0\0\0\0{}", 10)).path()),
             Catch::Matchers::ContainsSubstring("is a safetensors file"));
  CHECK_THAT(refusal(PutFile("\x80\x02K\x01.").path()), Catch::Matchers::ContainsSubstring("magic number"));
}

}  // namespace trainer

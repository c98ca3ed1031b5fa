// SPDX-License-Identifier: Apache-2.0
#include "tests/text/files.h"

#include <fmt/core.h>
#include <unistd.h>

#include <fstream>

#include "core/text/byte_level.h"
#include "core/text/utf8.h"

namespace trainer {

namespace fs = std::filesystem;

TokenizerFolder::TokenizerFolder() {
  static int number = 0;
  folder_ = fs::temp_directory_path() / fmt::format("trainer-text-{}-{}", ::getpid(), number++);
  fs::create_directories(folder_);
}

TokenizerFolder::~TokenizerFolder() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string TokenizerFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(folder_ / name, std::ios::binary) << text;
  return path(name);
}

std::string tokenizer_fixture(const std::string& name) {
  return TRAINER_SOURCE_DIR "/tests/fixtures/tokenizers/" + name;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Json small_tokenizer() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(character_of_byte(static_cast<uint8_t>(byte)), text);
    vocabulary.add(text, byte);
  }
  vocabulary.add("ab", 256);
  vocabulary.add("abab", 257);
  Json root = Json::object();
  root["model"] = {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array({"a b", "ab ab"})}};
  root["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  return root;
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/data/idx.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "core/base/error.h"

namespace {

void write(const std::string& path, const uint8_t* data, size_t size) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (file == nullptr || std::fwrite(data, 1, size, file.get()) != size) std::abort();
}

/// The reader takes files: two in a folder of this process's own.
std::string prefix() {
  static const std::string folder = [] {
    std::string pattern = (std::filesystem::temp_directory_path() / "trainer-fuzz-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    return pattern;
  }();
  return folder + "/set";
}

}  // namespace

/// The first byte says how much of the rest is the file of pictures; what follows are the labels.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t images = (size - 1) * data[0] / 255;
  write(prefix() + "-images-idx3-ubyte", data + 1, images);
  write(prefix() + "-labels-idx1-ubyte", data + 1 + images, size - 1 - images);
  try {
    const auto source = trainer::open_idx(prefix());
    source->check_labels(10);
    trainer::Image image;
    for (int64_t i = 0; i < source->size(); ++i) source->read(i, image);
  } catch (const trainer::Error& error) {
    if (error.code() != trainer::ExitCode::data) std::abort();
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "core/engine/backend_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <fstream>
#include "tests/catch.h"

#include "core/base/error.h"

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using trainer::Error;
using trainer::ExitCode;

namespace {

/// An empty folder PREFIX/bin, removed at the end. The loader identifies an open library by its path, so each
/// folder has a new one.
struct EmptyProgramFolder {
  EmptyProgramFolder() { fs::create_directories(bin()); }
  ~EmptyProgramFolder() { fs::remove_all(prefix); }
  fs::path bin() const { return prefix / "bin"; }
  fs::path library(const std::string& folder) const { return prefix / folder / "libtrainer_cuda.so"; }

  static inline int count = 0;
  fs::path prefix = fs::temp_directory_path() /
                    ("trainer_backend_library_" + std::to_string(::getpid()) + "_" + std::to_string(++count));
};

/// The text of the error that loading must end with.
std::string refusal(const std::string& name, const fs::path& directory, ExitCode code = ExitCode::no_device) {
  try {
    trainer::load_backend(name, directory);
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "";
}

fs::path path_of_libm() {
  void* library = ::dlopen("libm.so.6", RTLD_NOW);
  REQUIRE(library != nullptr);
  link_map* map = nullptr;
  REQUIRE(::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0);
  const fs::path path = map->l_name;
  ::dlclose(library);
  return path;
}

}  // namespace

TEST_CASE("a backend's library that is not there is named, with what to do") {
  const EmptyProgramFolder folder;
  const std::string text = refusal("cuda", folder.bin());
  CHECK_THAT(text, ContainsSubstring("device.type=cuda: libtrainer_cuda.so is neither in " +
                                     folder.bin().string() + " nor in " + (folder.prefix / "lib").string() +
                                     ": it was not built, or not installed"));
  CHECK_THAT(text, ContainsSubstring("nvcc") && ContainsSubstring("scripts/build.sh") &&
                       ContainsSubstring("device.type=cpu"));
  CHECK_THAT(text, !ContainsSubstring("built without CUDA"));
}

TEST_CASE("what cannot be opened is refused with the loader's words, beside the program or in ../lib") {
  const EmptyProgramFolder folder;
  const std::string where = GENERATE("bin", "lib");
  fs::create_directories(folder.prefix / where);
  std::ofstream(folder.library(where)) << "this is no shared object, however long it may be made to look";
  const std::string text = refusal("cuda", folder.bin());
  CHECK_THAT(text, ContainsSubstring("cannot open") && ContainsSubstring("libtrainer_cuda.so: ") &&
                       ContainsSubstring("LD_LIBRARY_PATH"));
  CHECK_THAT(text, ContainsSubstring("invalid ELF header") || ContainsSubstring("file too short"));
}

TEST_CASE("a library of NVIDIA's that the loader does not find is named, with what to do") {
  const EmptyProgramFolder folder;
  fs::create_symlink(TRAINER_NEEDS_ABSENT, folder.library("bin"));
  CHECK_THAT(
      refusal("cuda", folder.bin()),
      ContainsSubstring(
          "device.type=cuda: libtrainer_cuda.so needs cuDNN 9: libcudnn_of_a_test.so.9, which the loader "
          "cannot find; install it, put its folder into LD_LIBRARY_PATH, or write device.type=cpu"));
}

TEST_CASE("a library that holds no backend is refused") {
  const EmptyProgramFolder folder;
  fs::copy_file(path_of_libm(), folder.library("bin"));
  CHECK_THAT(refusal("cuda", folder.bin()), ContainsSubstring("it has no trainer_open_backend"));
}

TEST_CASE("what a device fails with keeps its exit code, and only a missing one suggests the CPU") {
  const EmptyProgramFolder folder;
  fs::create_symlink(TRAINER_FAKE_BACKEND, folder.library("bin"));
  for (const ExitCode code : {ExitCode::no_device, ExitCode::internal, ExitCode::out_of_memory}) {
    ::setenv("FAKE_BACKEND", std::to_string(static_cast<int>(code)).c_str(), 1);
    CHECK(refusal("cuda", folder.bin(), code) ==
          std::string("device.type=cuda: the device has failed") +
              (code == ExitCode::no_device ? ", or write device.type=cpu" : ""));
  }
  ::unsetenv("FAKE_BACKEND");
}

TEST_CASE("only known backends are looked for") {
  const EmptyProgramFolder folder;
  CHECK_THAT(refusal("tpu", folder.bin()),
             ContainsSubstring("no library holds a backend \"tpu\": there is \"cuda\""));
  CHECK_THAT(refusal("../cuda", folder.bin()), ContainsSubstring("\"../cuda\""));
}

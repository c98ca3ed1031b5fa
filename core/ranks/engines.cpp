// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/engines.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

namespace trainer {
namespace {

constexpr const char* kNccl = "libnccl.so.2";

struct Close {
  void operator()(void* library) const { ::dlclose(library); }
};

/// Since 2.9, 22809 means 2.28.9; before, 2804 meant 2.8.4 (nccl.h, NCCL_VERSION).
std::string version_text(int code) {
  const int major_unit = code >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", code / major_unit, code % major_unit / 100, code % 100);
}

}  // namespace

NcclLibrary find_nccl() {
  const std::unique_ptr<void, Close> library(::dlopen(kNccl, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));
  if (library == nullptr) return {.problem = ::dlerror()};
  // As nccl.h declares it; 0 is ncclSuccess.
  auto* get_version = reinterpret_cast<int (*)(int*)>(::dlsym(library.get(), "ncclGetVersion"));
  int code = 0;
  if (get_version == nullptr || get_version(&code) != 0)
    return {.problem = fmt::format("{} does not tell its version (ncclGetVersion)", kNccl)};
  return {.version = version_text(code)};
}

}  // namespace trainer

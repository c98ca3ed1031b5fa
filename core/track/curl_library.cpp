// SPDX-License-Identifier: Apache-2.0
#include "core/track/curl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "core/base/error.h"

namespace trainer {
namespace {

[[noreturn]] void refuse() {
  const char* const reason = ::dlerror();
  throw Error(ExitCode::no_device,
              fmt::format("logging.mlflow needs libcurl: {}; install it (`apt-get install libcurl4`)",
                          reason == nullptr ? "libcurl.so.4 was not found" : reason));
}

CurlLibrary load() {
  void* const library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) refuse();
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) refuse();
  };
  CurlLibrary found{};
  find("curl_global_init", found.global_init);
  find("curl_easy_init", found.easy_init);
  find("curl_easy_cleanup", found.easy_cleanup);
  find("curl_easy_reset", found.easy_reset);
  find("curl_easy_setopt", found.easy_setopt);
  find("curl_easy_perform", found.easy_perform);
  find("curl_easy_getinfo", found.easy_getinfo);
  find("curl_easy_strerror", found.easy_strerror);
  find("curl_slist_append", found.slist_append);
  find("curl_slist_free_all", found.slist_free_all);
  return found;
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary library = load();
  return library;
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <curl/curl.h>

namespace trainer {

/// The functions of libcurl. It is loaded at the first use: with the 27 libraries that it needs, it would add
/// 15 ms to every start of the program, and only trackers need it.
struct CurlLibrary {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
};

/// Throws Error (exit 69) if this machine has no libcurl.
const CurlLibrary& curl_library();

}  // namespace trainer

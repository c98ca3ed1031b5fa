// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "core/base/error.h"

namespace trainer {

/// A buffer in which a library of our own writes text for the program that opened it. No exception may leave
/// the library, since the two may have been built separately.
struct LibraryAnswer {
  char* text;
  size_t bytes;

  /// As much of it as fits, ended by a zero.
  void write(const std::string& words) const {
    const size_t count = std::min(words.size(), bytes - 1);
    std::memcpy(text, words.data(), count);
    text[count] = '\0';
  }

  /// The result of a factory: runs `make` if both sides have one interface, otherwise writes the difference.
  template <class Make>
  ExitCode to_request(const char* library, const std::string& expected, const char* own,
                      const Make& make) const try {
    if (expected != own) {
      write(std::string(library) + " comes from another build: it has " + own + ", the program expects " +
            expected + "; install the two together");
      return ExitCode::no_device;
    }
    make();
    return ExitCode::done;
  } catch (const std::exception& problem) {
    const Failure failure = failure_of(problem);
    write(failure.text);
    return failure.code;
  }
};

}  // namespace trainer

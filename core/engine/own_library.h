// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace trainer {

/// A library of this program that it opens at run time, libtrainer_NAME.so, so that what it needs need not be
/// on every machine. It stays loaded, since objects that it made run its code as long as they live.
class OwnLibrary {
 public:
  /// What a message ends with that says where and how to build a library that is not there.
  struct Names {
    std::string name;                                     ///< "cuda"
    std::string to_build;                                 ///< "build it if nvcc is installed"
    std::function<void(const std::string& text)> refuse;  ///< throws Error: `text` says what is wrong
  };

  /// In `directory`, or in lib/ beside it.
  OwnLibrary(Names names, const std::filesystem::path& directory);

  /// A function that the library must export.
  template <class Function>
  Function* exported(const char* symbol) const {
    return reinterpret_cast<Function*>(find(symbol));
  }

 private:
  struct Close {
    void operator()(void* library) const;
  };
  void* find(const char* symbol) const;

  Names names_;
  std::filesystem::path path_;
  std::unique_ptr<void, Close> library_;
};

}  // namespace trainer

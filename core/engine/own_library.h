// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace trainer {

/// A library of this program that is opened at run time, libtrainer_NAME.so, so that its dependencies need
/// not be on every machine. It remains loaded, because objects that it made run its code for their whole
/// life.
class OwnLibrary {
 public:
  /// The end of a message about a missing library: where and how to build it.
  struct Names {
    std::string name;                                     ///< "cuda"
    std::string to_build;                                 ///< "build it if nvcc is installed"
    std::function<void(const std::string& text)> refuse;  ///< throws Error: `text` gives the reason
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

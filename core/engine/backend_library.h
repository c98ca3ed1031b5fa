// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "core/engine/backend.h"

namespace trainer {

/// What a backend's library and the program must agree on, since classes and their virtual functions cross
/// between the two. Raise the number when Backend, Kernel, Operation or a type in their signatures changes.
constexpr const char* kBackendInterface = "trainer backend interface 2, compiled by " __VERSION__;

/// The one function that a backend's library exports, under this name. It returns an owned backend or, where
/// there can be none, nullptr and in `reason` why, and what to do, ended by a zero. No exception leaves it.
constexpr const char* kBackendFactory = "trainer_make_backend";
using BackendFactory = Backend*(const char* interface, char* reason, size_t reason_bytes);

/// Opens libtrainer_NAME.so from `directory` or its sibling `lib`; the library stays open until the process
/// ends. Throws Error (exit 69) with the reason and what to do where there is no such backend here.
std::unique_ptr<Backend> load_backend(const std::string& name, const std::filesystem::path& directory);

/// The same, beside the running program.
std::unique_ptr<Backend> load_backend(const std::string& name);

}  // namespace trainer

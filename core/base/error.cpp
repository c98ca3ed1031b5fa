// SPDX-License-Identifier: Apache-2.0
#include "core/base/error.h"

#include <fmt/core.h>

#include <cstdlib>
#include <new>
#include <system_error>

#include "core/base/printable.h"

namespace trainer {

namespace {

const char* const kOutOfMemory = "out of memory; see `trainer plan` for what the run needs";

}  // namespace

Failure failure_of(const std::exception& problem) {
  if (const auto* error = dynamic_cast<const Error*>(&problem)) return {error->code(), error->what()};
  if (const auto* system = dynamic_cast<const std::system_error*>(&problem)) {
    if (system->code() == std::errc::resource_unavailable_try_again) {
      return {
          ExitCode::out_of_memory,
          "the system allows no further thread: raise its limits on processes or memory (ulimit -u, ulimit "
          "-v), or lower device.threads and data.workers"};
    }
    if (system->code() == std::errc::not_enough_memory) return {ExitCode::out_of_memory, kOutOfMemory};
    return {ExitCode::io, system->what()};
  }
  // A length that no container can have is a size that no memory has.
  if (dynamic_cast<const std::bad_alloc*>(&problem) != nullptr ||
      dynamic_cast<const std::length_error*>(&problem) != nullptr)
    return {ExitCode::out_of_memory, kOutOfMemory};
  return {ExitCode::internal, fmt::format("internal error: {}", problem.what())};
}

std::string to_string(const Location& where) {
  if (where.line == 0) return one_line(where.file);
  return fmt::format("{}:{}:{}", one_line(where.file), where.line, where.column);
}

std::string written_path(const Origin& origin) {
  const Moved* moved = origin.where.moved.get();
  if (moved == nullptr || !origin.path.starts_with(moved->path)) return origin.path;
  const std::string below = origin.path.substr(moved->path.size());
  return below.empty() || below[0] == '.' || below[0] == '[' ? moved->written + below : origin.path;
}

bool Diagnostics::is_known_of_another_use(const Location& where) {
  if (where.used_at == nullptr) return false;
  const auto [first, is_new] = first_uses_.emplace(to_string(where), where.used_at);
  return !is_new && first->second != where.used_at;
}

void Diagnostics::error(const Location& where, const std::string& path, const std::string& text) {
  if (is_known_of_another_use(where)) return;
  std::string line = where.file.empty() ? "" : to_string(where) + ": ";
  line += "error: ";
  if (!path.empty()) line += written_path({where, path}) + ": ";
  line += text;
  for (const Location* use = where.used_at.get(); use != nullptr; use = use->used_at.get()) {
    line += "; used at " + to_string(*use);
  }
  problems_.push_back(line);
}

void Diagnostics::throw_if_any() const {
  if (problems_.empty()) return;
  std::string text;
  for (const std::string& problem : problems_) text += problem + "\n";
  const char* noun = problems_.size() == 1 ? "error" : "errors";
  text += fmt::format("{} {}, nothing was started", problems_.size(), noun);
  throw Error(ExitCode::recipe, text);
}

void fail_at(const Origin& origin, const std::string& text) {
  Diagnostics diagnostics;
  diagnostics.error(origin, text);
  diagnostics.throw_if_any();
  std::abort();  // not reached: there is a problem
}

}  // namespace trainer

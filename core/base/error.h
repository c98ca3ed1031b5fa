// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace trainer {

/// The process's exit codes; scripts may rely on these numbers.
enum class ExitCode {
  done = 0,
  usage = 64,
  data = 65,
  no_device = 69,
  internal = 70,
  out_of_memory = 71,
  io = 74,
  requeue = 75,
  peer_lost = 76,
  recipe = 78,
};

/// A part of a recipe that was read at another path than the recipe's text has: `model.layers[7]` may be
/// written as `model.templates.block.layers[2]`.
struct Moved {
  std::string path;
  std::string written;
};

/// A place in a file, or in the command line (`file` is then "command line", `line` the argument's number).
/// Lines and columns count from 1; line 0 means that the place has none.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
  std::shared_ptr<const Location> used_at = nullptr;  ///< of a place in a template: that of its use
  std::shared_ptr<const Moved> moved = nullptr;       ///< of a place in a part that was
};

/// "file:line:column", or just "file" if there is no line.
std::string to_string(const Location& where);

/// Where something of the program came from: its place and its path in the recipe (`model.layers[7]`).
struct Origin {
  Location where;
  std::string path;
};

/// The path as the recipe's text has it: the one by which an override changes the value.
std::string written_path(const Origin& origin);

/// An error that a user can cause and fix. The text gives the place, what was expected, what was found and
/// the remedy.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// The failure of another process of the run, with its exit code: its own message says more.
class PeerError : public Error {
 public:
  using Error::Error;
};

/// An exception's exit code and text. Exceptions of the standard library are limits of the system: no memory
/// (71), no further thread (71), or a file system that refuses something (74).
struct Failure {
  ExitCode code;
  std::string text;
};
Failure failure_of(const std::exception& problem);

/// Collects every problem of a recipe, so that all are shown at once. Those of a place in a template are
/// shown for the first use that has them.
class Diagnostics {
 public:
  /// `place: error: path: text` with the path as written, without an empty path.
  void error(const Location& where, const std::string& path, const std::string& text);
  void error(const Origin& origin, const std::string& text) { error(origin.where, origin.path, text); }

  bool ok() const { return problems_.empty(); }
  const std::vector<std::string>& problems() const { return problems_; }

  /// Throws one Error (exit 78) with all problems, in the order of their places, if there are any.
  void throw_if_any() const;

 private:
  bool is_known_of_another_use(const Location& where);

  std::vector<std::string> problems_;
  std::map<std::string, std::shared_ptr<const Location>> first_uses_;  // by place in a template
};

/// Throws the Error of Diagnostics with this single problem.
[[noreturn]] void fail_at(const Origin& origin, const std::string& text);

}  // namespace trainer

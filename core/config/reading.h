// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/config/value.h"

namespace trainer {

/// The problems of one recipe. Unknown and missing keys are judged together at the end, so that
/// one mistake (a key misspelt, or written in the wrong place) is one error.
class Reading {
 public:
  struct Missing {
    Location where;
    std::string map_path, key;
    std::string expected;   ///< "missing key 'KEY', expected EXPECTED"
    Origin named = {};      ///< where the recipe names the missing part,
    std::string text = "";  ///< and the message about that instead
  };
  struct Unknown {
    Location where;
    std::string map_path, key;
    std::vector<std::string> absent;  ///< known keys of the same map that the recipe does not give
    std::vector<std::string> given;   ///< and those that it does
  };
  struct Declared {
    std::string map_path, key;
    bool is_given;
  };

  void error(const Location& where, const std::string& path, const std::string& text);
  void error(const Origin& origin, const std::string& text) { error(origin.where, origin.path, text); }
  void missing(Missing key);
  void unknown(Unknown key);

  /// Every key that the recipe may have, at any place: needed only if some key is unknown.
  bool needs_declared() const { return !unknown_.empty(); }
  void declared(Declared key) { declared_.push_back(std::move(key)); }

  /// Reports all problems in the order of their places.
  void finish(Diagnostics& diagnostics);

 private:
  struct Problem {
    Location where;
    std::string path, text;
  };

  std::string judge(const Unknown& unknown);
  std::vector<Declared> elsewhere(const Unknown& unknown) const;
  bool is_missing(const Declared& key) const;
  void forgive(const std::string& path);

  std::vector<Problem> problems_;
  std::vector<Missing> missing_;
  std::vector<Unknown> unknown_;
  std::set<std::string> missing_in_templates_, unknown_in_templates_;  ///< keys with their places
  std::vector<Declared> declared_;
};

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trainer {

/// Names that expressions may use, each with the text of a number, `true` or `false`.
using Scope = std::map<std::string, std::string>;

/// The error of an expression; the caller adds its place.
struct BadExpression {
  std::string text;
  std::string unknown;  ///< the name that the scope does not hold, if that is the error
};

/// Whether `text` holds an expression: `${` that does not begin `${env:`.
bool has_expression(const std::string& text);

/// Whether a text may be a name's value: a number, `true` or `false`.
bool is_number_or_truth(const std::string& text);

/// The names in the expressions of `text`, without repetition. Throws BadExpression if one is malformed.
std::vector<std::string> names_in(const std::string& text);

/// `text` with each `${...}` replaced by its value: whole numbers with + - * / % (division drops the
/// remainder),
/// == != < <= > >=, true, false, parentheses and names; a name alone may have any number as its value. Throws
/// BadExpression.
std::string evaluate(const std::string& text, const Scope& scope);

}  // namespace trainer

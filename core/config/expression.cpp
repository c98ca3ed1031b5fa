// SPDX-License-Identifier: Apache-2.0
#include "core/config/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>

#include "core/config/events.h"
#include "core/config/messages.h"

namespace trainer {
namespace {

constexpr std::string_view kStart = "${", kEnvironment = "${env:";

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T number{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// A value while it is computed. Others can only be passed on.
struct Term {
  enum class Kind { number, truth, other };
  Kind kind = Kind::number;
  int64_t number = 0;  ///< of a truth value 0 or 1
  std::string text;    ///< of any other
};

Term truth(bool value) {
  return {.kind = Term::Kind::truth, .number = value, .text = ""};
}

Term term_of(const std::string& text) {
  if (text == "true" || text == "false") return truth(text == "true");
  if (const auto number = parse_whole<int64_t>(text)) return {.number = *number, .text = ""};
  return {.kind = Term::Kind::other, .text = text};
}

std::string text_of(const Term& term) {
  if (term.kind == Term::Kind::other) return term.text;
  if (term.kind == Term::Kind::truth) return term.number != 0 ? "true" : "false";
  return fmt::format("{}", term.number);
}

int64_t apply(char operation, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (operation) {
    case '+':
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case '-':
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case '*':
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    default:
      if (b == 0) throw BadExpression{fmt::format("{} {} 0: division by zero", a, operation), ""};
      overflow = a == std::numeric_limits<int64_t>::min() && b == -1;
      if (!overflow) result = operation == '/' ? a / b : a % b;
  }
  if (overflow) throw BadExpression{fmt::format("{} {} {} is beyond 64 bits", a, operation, b), ""};
  return result;
}

bool compare(const std::string& operation, int64_t a, int64_t b) {
  if (operation == "==") return a == b;
  if (operation == "!=") return a != b;
  if (operation == "<") return a < b;
  if (operation == "<=") return a <= b;
  if (operation == ">") return a > b;
  return a >= b;
}

/// Reads one expression by recursive descent. Without a scope it only looks at the form and notes the names.
class Parser {
 public:
  Parser(std::string_view text, const Scope* scope) : text_(text), scope_(scope) {}

  Term whole() {
    Term term = comparison();
    if (at_ != text_.size()) fail(fmt::format("expected an operator, found '{}'", shown(rest())));
    return term;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& unknown = "") const {
    throw BadExpression{fmt::format("in ${{{}}}: {}", shown(std::string(text_)), what), unknown};
  }

  std::string rest() const { return std::string(text_.substr(at_)); }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  /// Takes the first of the operators that is found here.
  std::string take(const std::vector<std::string>& operators) {
    skip_spaces();
    for (const std::string& one : operators) {
      if (!text_.substr(at_).starts_with(one)) continue;
      at_ += one.size();
      return one;
    }
    return "";
  }

  void check_numbers(const std::string& operation, const Term& a, const Term& b) const {
    const bool equality = operation == "==" || operation == "!=";
    if (scope_ == nullptr || (a.kind == Term::Kind::number && b.kind == Term::Kind::number)) return;
    if (equality && a.kind == Term::Kind::truth && b.kind == Term::Kind::truth) return;
    fail(fmt::format("'{}' takes two whole numbers, got {} and {}", operation, text_of(a), text_of(b)));
  }

  Term comparison() {
    Term left = sum();
    const std::string operation = take({"==", "!=", "<=", ">=", "<", ">"});
    if (operation.empty()) return left;
    const Term right = sum();
    check_numbers(operation, left, right);
    return truth(compare(operation, left.number, right.number));
  }

  Term chain(const std::vector<std::string>& operators, const std::function<Term()>& operand) {
    Term left = operand();
    for (std::string operation; !(operation = take(operators)).empty();) {
      const Term right = operand();
      check_numbers(operation, left, right);
      left = {.number = scope_ ? apply(operation[0], left.number, right.number) : 0, .text = ""};
    }
    return left;
  }

  Term sum() {
    return chain({"+", "-"}, [this] { return product(); });
  }
  Term product() {
    return chain({"*", "/", "%"}, [this] { return factor(); });
  }

  Term factor() {
    if (++depth_ > kMaxDepth) fail(fmt::format("nested deeper than {} levels", kMaxDepth));
    Term term = unbounded_factor();
    --depth_;
    return term;
  }

  Term unbounded_factor() {
    if (!take({"-"}).empty()) {
      const Term operand = factor();
      check_numbers("-", Term{}, operand);
      return {.number = scope_ ? apply('-', 0, operand.number) : 0, .text = ""};
    }
    if (!take({"("}).empty()) {
      Term inner = comparison();
      if (take({")"}).empty()) fail("expected ')'");
      return inner;
    }
    const size_t start = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string word(text_.substr(start, at_ - start));
    skip_spaces();
    if (word.empty())
      fail("expected a whole number or a name" + (rest().empty() ? "" : ", found '" + shown(rest()) + "'"));
    return is_digit(word[0]) ? literal(word) : named(word);
  }

  Term literal(const std::string& word) const {
    const auto number = parse_whole<int64_t>(word);
    if (!number) fail(fmt::format("expected a whole number or a name, found '{}'", shown(word)));
    return {.number = *number, .text = ""};
  }

  Term named(const std::string& word) {
    if (word == "true" || word == "false") return truth(word == "true");
    if (std::find(names_.begin(), names_.end(), word) == names_.end()) names_.push_back(word);
    if (scope_ == nullptr) return {};
    const auto found = scope_->find(word);
    if (found == scope_->end()) fail(fmt::format("unknown name '{}'", shown(word)), word);
    return term_of(found->second);
  }

  std::string_view text_;
  const Scope* scope_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::string> names_;
};

/// Calls `each` with the contents of every `${ }`; returns the text with these replaced by the results.
std::string replaced(const std::string& text, const std::function<std::string(std::string_view)>& each) {
  std::string result;
  size_t done = 0;
  for (size_t start; (start = text.find(kStart, done)) != std::string::npos;) {
    const size_t begin = start + kStart.size(), end = text.find('}', begin);
    if (end == std::string::npos) throw BadExpression{"expected '}' after '${'", ""};
    result.append(text, done, start - done);
    result += each(std::string_view(text).substr(begin, end - begin));
    done = end + 1;
  }
  return result.append(text, done);
}

}  // namespace

bool has_expression(const std::string& text) {
  return text.find(kStart) != std::string::npos && text.find(kEnvironment) == std::string::npos;
}

bool is_number_or_truth(const std::string& text) {
  const auto number = parse_whole<double>(text);
  return text == "true" || text == "false" || (number && std::isfinite(*number));
}

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  replaced(text, [&](std::string_view expression) {
    Parser parser(expression, nullptr);
    parser.whole();
    for (const std::string& name : parser.names()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return std::string();
  });
  return names;
}

std::string evaluate(const std::string& text, const Scope& scope) {
  return replaced(text,
                  [&](std::string_view expression) { return text_of(Parser(expression, &scope).whole()); });
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <array>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/tokenizer_files.h"

namespace trainer {
namespace {

/// A value with its place, "model.merges[3]".
class Placed {
 public:
  Placed(const std::string& path, const Json& value, std::string place = "")
      : path_(path), value_(value), place_(std::move(place)) {}

  /// A member, null if there is none.
  Placed operator[](const char* key) const {
    static const Json none;
    const Json* found = value_.find(key);
    return {path_, found == nullptr ? none : *found, place_.empty() ? key : place_ + "." + key};
  }
  template <class Visit>
  void each_item(const Visit& visit) const {
    if (!value_.is_array()) fail("an array");
    for (size_t i = 0; i < value_.size(); ++i)
      visit(Placed(path_, value_[i], fmt::format("{}[{}]", place_, i)));
  }

  bool is_null() const { return value_.is_null(); }
  const Json& value() const { return value_; }
  std::string in_file() const { return place_.empty() ? path_ : path_ + ": " + place_; }

  const std::string& text() const {
    if (!value_.is_text()) fail("a text");
    return value_.text();
  }
  /// False if it is null or absent.
  bool flag(bool otherwise = false) const {
    if (value_.is_null()) return otherwise;
    if (!value_.is_boolean()) fail("true or false");
    return value_.boolean();
  }
  int32_t token() const {
    const std::optional<int64_t> number = value_.integer();
    if (!number || *number < 0 || *number > std::numeric_limits<int32_t>::max())
      fail("a token, a number from 0 on");
    return static_cast<int32_t>(*number);
  }

  [[noreturn]] void fail(const std::string& expected) const {
    constexpr size_t kShown = 60;
    std::string found = value_.dump(-1, Json::NotUtf8::replace);
    if (found.size() > kShown) found = found.substr(0, kShown) + "…";
    throw Error(ExitCode::data, fmt::format("{}: expected {}, found {}", in_file(), expected, found));
  }
  /// Of features that a file may have, but that are not supported.
  [[noreturn]] void refuse(const std::string& what, const std::string& supported) const {
    throw Error(ExitCode::recipe, fmt::format("{} is {}; supported: {}", in_file(), what, supported));
  }

 private:
  const std::string& path_;
  const Json& value_;
  std::string place_;
};

SplitBehavior split_behavior(const Placed& named) {
  constexpr std::array<std::pair<const char*, SplitBehavior>, 5> kNames = {
      {{"Isolated", SplitBehavior::isolated},
       {"Removed", SplitBehavior::removed},
       {"MergedWithPrevious", SplitBehavior::merged_with_previous},
       {"MergedWithNext", SplitBehavior::merged_with_next},
       {"Contiguous", SplitBehavior::contiguous}}};
  for (const auto& [name, behavior] : kNames) {
    if (named.text() == name) return behavior;
  }
  named.fail("Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

/// Reads pre-tokenizers in their order; nothing may follow ByteLevel, which ends with bytes.
class PreTokenizerReader {
 public:
  explicit PreTokenizerReader(PreTokenizer& into) : into_(into) {}

  void read(const Placed& step) {
    const std::string& type = step["type"].text();
    if (type == "Sequence") return step["pretokenizers"].each_item([&](const Placed& item) { read(item); });
    if (is_done_) step.refuse(type + " after ByteLevel", "ByteLevel as the last pre-tokenizer");
    if (++steps_ > kMostSteps)
      step.refuse(fmt::format("step {} of the pre-tokenizer", steps_), fmt::format("at most {}", kMostSteps));
    if (type == "Split") return split(step);
    if (type == "Digits") return digits(step);
    if (type == "ByteLevel") return byte_level(step);
    step.refuse(type, "Split, Digits and ByteLevel");
  }
  bool is_done() const { return is_done_; }

 private:
  void split(const Placed& step) {
    const Placed pattern = step["pattern"];
    const bool is_literal = !pattern["String"].is_null();
    const std::string text = is_literal ? literal_pattern(pattern["String"].text()) : pattern["Regex"].text();
    into_.add_split(std::make_unique<Regex>(text, pattern.in_file()), split_behavior(step["behavior"]),
                    step["invert"].flag());
  }
  void digits(const Placed& step) {
    into_.add_split(std::make_unique<Regex>("\\p{N}", step.in_file()),
                    step["individual_digits"].flag() ? SplitBehavior::isolated : SplitBehavior::contiguous,
                    false);
  }
  void byte_level(const Placed& step) {
    if (step["add_prefix_space"].flag(true)) into_.add_prefix_blank();
    if (step["use_regex"].flag(true)) {
      into_.add_split(std::make_unique<Regex>(kGpt2Pattern, step.in_file()), SplitBehavior::isolated, false);
    }
    is_done_ = true;
  }

  /// Each step cuts within the one before, a call within a call. Published tokenizers have two to four.
  static constexpr int kMostSteps = 64;

  PreTokenizer& into_;
  bool is_done_ = false;
  int steps_ = 0;
};

/// Whether it brings texts into normalization form C.
bool composes(const Placed& normalizer) {
  if (normalizer.is_null()) return false;
  const std::string& type = normalizer["type"].text();
  if (type == "NFC") return true;
  if (type != "Sequence") normalizer.refuse(type, "NFC, or none");
  bool any = false;
  normalizer["normalizers"].each_item([&](const Placed& item) { any = composes(item) || any; });
  return any;
}

/// A BPE's option to work on characters instead of bytes.
void refuse_other_models(const Placed& model) {
  const Placed type = model["type"];
  if (!type.is_null() && type.text() != "BPE") type.refuse(type.text(), "BPE");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Placed affix = model[key];
    if (!affix.is_null() && !affix.text().empty()) affix.refuse("'" + affix.text() + "'", "none");
  }
  if (model["byte_fallback"].flag())
    model["byte_fallback"].refuse("true", "byte-level BPE, which needs none");
  const Json& dropout = model["dropout"].value();
  if (!dropout.is_null() && (!dropout.is_number() || dropout.number() != 0))
    model["dropout"].refuse(dropout.dump(), "none");
}

void read_model(const Placed& model, ByteLevelBpeParts& parts) {
  refuse_other_models(model);
  const Placed vocabulary = model["vocab"];
  if (!vocabulary.value().is_object()) vocabulary.fail("an object of tokens");
  for (const auto& [text, token] : vocabulary.value().members())
    parts.vocabulary.emplace_back(text, Placed(parts.path, token, "model.vocab: '" + text + "'").token());
  model["merges"].each_item([&](const Placed& merge) {
    if (merge.value().is_text()) {
      parts.merges.push_back(split_merge(merge.in_file(), merge.text()));
    } else {
      std::vector<std::string> both;
      merge.each_item([&](const Placed& side) { both.push_back(side.text()); });
      if (both.size() != 2) merge.fail("two texts");
      parts.merges.emplace_back(both[0], both[1]);
    }
  });
  parts.ignores_merges = model["ignore_merges"].flag();
}

AddedToken added_token(const Placed& added) {
  if (added["single_word"].flag()) added["single_word"].refuse("true", "false");
  return {.text = added["content"].text(),
          .token = added["id"].token(),
          .takes_blanks_before = added["lstrip"].flag(),
          .takes_blanks_behind = added["rstrip"].flag(),
          .is_normalized = added["normalized"].flag()};
}

}  // namespace

ByteLevelBpeParts read_tokenizer_json(const std::string& path, std::string_view text) {
  std::string problem;
  const std::optional<Json> parsed = Json::parse(text, &problem);
  if (!parsed) throw Error(ExitCode::data, fmt::format("{}: expected JSON: {}", path, problem));
  const Placed root(path, *parsed);
  ByteLevelBpeParts parts{.path = path};
  read_model(root["model"], parts);
  parts.composes = composes(root["normalizer"]);
  PreTokenizerReader reader(parts.pre_tokenizer);
  const Placed pre_tokenizer = root["pre_tokenizer"];
  if (!pre_tokenizer.is_null()) reader.read(pre_tokenizer);
  if (!reader.is_done()) pre_tokenizer.refuse("without ByteLevel", "byte-level BPE");
  if (!root["added_tokens"].is_null())
    root["added_tokens"].each_item([&](const Placed& added) { parts.added.push_back(added_token(added)); });
  return parts;
}

}  // namespace trainer

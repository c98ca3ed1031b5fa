// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_state.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/json.h"

namespace trainer {
namespace {

constexpr int64_t kFormat = 1;

/// JSON has no infinities and no NaN.
Json to_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json to_json(const std::map<std::string, double>& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object[name] = to_json(value);
  return object;
}

/// Reads required members; the message names the first that is invalid.
class StateReader {
 public:
  StateReader(const Json& object, std::string path, const std::string& file)
      : object_(object), path_(std::move(path)), file_(file) {
    if (!object_.is_object()) fail(path_, "an object");
  }

  StateReader object(const char* name) const { return {member(name), path_ + name + ".", file_}; }
  int64_t count(const char* name) const { return count(member(name), name); }
  double number(const char* name) const { return number(member(name), name); }
  std::string text(const char* name) const { return text(member(name), name); }
  std::map<std::string, double> numbers(const char* name) const {
    std::map<std::string, double> result;
    for (const auto& [key, value] : members(name).members()) result[key] = number(value, name);
    return result;
  }
  std::map<std::string, std::string> texts(const char* name) const {
    std::map<std::string, std::string> result;
    for (const auto& [key, value] : members(name).members()) result[key] = text(value, name);
    return result;
  }
  std::map<std::string, std::vector<int64_t>> count_lists(const char* name) const {
    std::map<std::string, std::vector<int64_t>> result;
    for (const auto& [key, value] : members(name).members()) {
      if (!value.is_array()) fail(path_ + name, "lists");
      for (const Json& item : value.items()) result[key].push_back(count(item, name));
    }
    return result;
  }
  /// Of a member that states of earlier versions lack.
  std::map<std::string, std::string> texts_if_any(const char* name) const {
    return has(name) ? texts(name) : std::map<std::string, std::string>();
  }
  bool has(const char* name) const { return object_.contains(name); }

 private:
  const Json& member(const char* name) const {
    const Json* found = object_.find(name);
    if (found == nullptr) fail(path_ + name, "there");
    return *found;
  }
  const Json& members(const char* name) const {
    const Json& value = member(name);
    if (!value.is_object()) fail(path_ + name, "an object");
    return value;
  }
  int64_t count(const Json& value, const char* name) const {
    const std::optional<int64_t> count = value.integer();
    if (!count || *count < 0) fail(path_ + name, "a whole number, 0 or more");
    return *count;
  }
  double number(const Json& value, const char* name) const {
    if (value.is_number()) return value.number();
    const std::string text = value.is_text() ? value.text() : "";
    if (text == "nan") return std::nan("");
    if (text == "inf") return HUGE_VAL;
    if (text == "-inf") return -HUGE_VAL;
    fail(path_ + name, "numbers");
  }
  std::string text(const Json& value, const char* name) const {
    if (!value.is_text()) fail(path_ + name, "text");
    return value.text();
  }
  [[noreturn]] void fail(const std::string& path, const char* expected) const {
    throw Error(ExitCode::data,
                fmt::format("{}: expected {} to be {}; the state is damaged or of another version", file_,
                            path.empty() ? "all of it" : path, expected));
  }

  const Json& object_;
  std::string path_;
  const std::string& file_;
};

BestEvaluation parse_best(const StateReader& reader) {
  return {.metric = reader.text("metric"), .value = reader.number("value"), .step = reader.count("step")};
}

Json to_json(const BestEvaluation& best) {
  return {{"metric", best.metric}, {"value", to_json(best.value)}, {"step", best.step}};
}

/// States of earlier versions have the best checkpoint's step alone; the metric is in their recipe.
void add_earlier_best(RunState& state) {
  constexpr std::string_view kKey = "\n  keep_best: ";
  const size_t found = state.recipe.find(kKey);
  if (state.best.step == 0 || found == std::string::npos) return;
  const size_t begin = found + kKey.size();
  const auto value = state.loop.best.find(state.recipe.substr(begin, state.recipe.find('\n', begin) - begin));
  if (value == state.loop.best.end()) return;
  state.best = {.metric = value->first, .value = value->second, .step = state.best.step};
  state.loop.kept = state.best;
}

LoopState parse_loop(const StateReader& reader) {
  LoopState loop{.step = reader.count("step"),
                 .updates = reader.count("updates"),
                 .validated = reader.count("validated"),
                 .interval_steps = reader.count("interval_steps"),
                 .interval_loss = reader.number("interval_loss"),
                 .train_loss = reader.number("train_loss"),
                 .loss_scale = std::nullopt,
                 .last = reader.numbers("last"),
                 .best = reader.numbers("best"),
                 .unreadable = {}};
  if (reader.has("guard")) {  // the first versions had no guards
    const StateReader guard = reader.object("guard");
    loop.guard = {.rollbacks = guard.count("rollbacks"),
                  .overflows = guard.count("overflows"),
                  .at_smallest = guard.count("at_smallest")};
  }
  if (reader.has("early_stop")) {
    const StateReader stop = reader.object("early_stop");
    loop.early_stop = {.metric = stop.text("metric"),
                       .best = stop.number("best"),
                       .best_step = stop.count("best_step"),
                       .bad = stop.count("bad")};
  }
  if (reader.has("plateau")) {
    const StateReader plateau = reader.object("plateau");
    loop.plateau = {.metric = plateau.text("metric"),
                    .bad = plateau.count("bad"),
                    .cooldown = plateau.count("cooldown"),
                    .factor = plateau.number("factor")};
    if (plateau.has("best")) loop.plateau->best = plateau.number("best");
  }
  if (reader.has("kept")) loop.kept = parse_best(reader.object("kept"));
  if (reader.has("verified_step")) loop.verified = reader.count("verified_step");
  if (reader.has("loss_scale")) loop.loss_scale = reader.number("loss_scale");
  if (reader.has("unreadable")) loop.unreadable = reader.count_lists("unreadable");
  return loop;
}

}  // namespace

std::string to_json(const RunState& state) {
  const LoopState& loop = state.loop;
  Json progress = {{"step", loop.step},
                   {"updates", loop.updates},
                   {"validated", loop.validated},
                   {"interval_steps", loop.interval_steps},
                   {"interval_loss", to_json(loop.interval_loss)},
                   {"train_loss", to_json(loop.train_loss)}};
  if (loop.verified > 0) progress["verified_step"] = loop.verified;
  if (loop.loss_scale) progress["loss_scale"] = to_json(*loop.loss_scale);
  progress["guard"] = {{"rollbacks", loop.guard.rollbacks},
                       {"overflows", loop.guard.overflows},
                       {"at_smallest", loop.guard.at_smallest}};
  if (const auto& stop = loop.early_stop) {
    progress["early_stop"] = {{"metric", stop->metric},
                              {"best", to_json(stop->best)},
                              {"best_step", stop->best_step},
                              {"bad", stop->bad}};
  }
  if (const auto& plateau = loop.plateau) {
    progress["plateau"] = {{"metric", plateau->metric},
                           {"bad", plateau->bad},
                           {"cooldown", plateau->cooldown},
                           {"factor", to_json(plateau->factor)}};
    if (plateau->best) progress["plateau"]["best"] = to_json(*plateau->best);
  }
  if (loop.kept) progress["kept"] = to_json(*loop.kept);
  progress["last"] = to_json(loop.last);
  progress["best"] = to_json(loop.best);
  if (!loop.unreadable.empty()) progress["unreadable"] = loop.unreadable;
  Json json = {{"format", kFormat},
               {"progress", progress},
               {"epoch", state.epoch},
               {"samples", state.samples},
               {"best_step", state.best.step},
               {"micro_batch_size", state.micro_batch_size},
               {"facts", state.facts},
               {"data", state.data},
               {"about", state.about},
               {"algorithms", state.algorithms},
               {"mathematics", state.mathematics},
               {"recipe", state.recipe},
               {"wall", state.wall}};
  if (!state.best.metric.empty()) json["best"] = to_json(state.best);
  if (!state.teacher.empty()) json["teacher"] = state.teacher;
  return json.dump(1, Json::NotUtf8::replace) + "\n";
}

RunState parse_run_state(std::string_view text, const std::string& file) {
  const Json json = Json::parse_or_null(text);
  const StateReader reader(json, "", file);
  if (reader.count("format") != kFormat) {
    throw Error(ExitCode::data, fmt::format("{}: has format {}, this program reads format {}; use the "
                                            "program that wrote it, or a later one",
                                            file, reader.count("format"), kFormat));
  }
  RunState state = {.loop = parse_loop(reader.object("progress")),
                    .epoch = reader.number("epoch"),
                    .samples = reader.count("samples"),
                    .best = {.metric = {}, .value = 0, .step = reader.count("best_step")},
                    .mathematics = reader.text("mathematics"),
                    .recipe = reader.text("recipe"),
                    .micro_batch_size = reader.count("micro_batch_size"),
                    .facts = reader.texts("facts"),
                    .data = reader.texts_if_any("data"),
                    .about = reader.texts_if_any("about"),
                    .algorithms = reader.texts("algorithms"),
                    .wall = reader.texts("wall")};
  if (reader.has("teacher")) state.teacher = reader.text("teacher");
  if (reader.has("best")) {
    state.best = parse_best(reader.object("best"));
  } else {
    add_earlier_best(state);
  }
  return state;
}

}  // namespace trainer

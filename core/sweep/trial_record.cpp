// SPDX-License-Identifier: Apache-2.0
#include "core/sweep/trial_record.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/json.h"
#include "core/storage/atomic_file.h"

namespace trainer {
namespace {

/// Takes a record's object apart; a value of another type makes the whole text unusable.
class RecordReader {
 public:
  explicit RecordReader(const Json& object) : object_(object) { require(object.is_object()); }

  int64_t whole(const char* key) {
    const Json* value = object_.find(key);
    require(value != nullptr && value->integer() && *value->integer() >= 0);
    return is_valid_ ? *value->integer() : 0;
  }
  double number(const char* key) {
    const Json* value = object_.find(key);
    require(value != nullptr && value->is_number() && std::isfinite(value->number()));
    return is_valid_ ? value->number() : 0;
  }
  std::string text(const char* key) { return text_of(object_.find(key)); }
  std::vector<std::string> texts(const char* key) {
    std::vector<std::string> all;
    for (const Json& item : items(key)) all.push_back(text_of(&item));
    return all;
  }
  const std::vector<Json>& items(const char* key) {
    static const std::vector<Json> none;
    const Json* value = object_.find(key);
    require(value != nullptr && value->is_array());
    return is_valid_ ? value->items() : none;
  }
  const Json* find(const char* key) const { return object_.find(key); }
  void require(bool holds) { is_valid_ = is_valid_ && holds; }
  bool is_valid() const { return is_valid_; }

 private:
  std::string text_of(const Json* value) {
    require(value != nullptr && value->is_text());
    return is_valid_ ? value->text() : "";
  }

  const Json& object_;
  bool is_valid_ = true;
};

Json json_of(const TrialValue& value) {
  return {{"step", value.step}, {"value", value.value}};
}

TrialValue read_value(const Json& json, RecordReader& whole) {
  RecordReader reader(json);
  const TrialValue value{.step = reader.whole("step"), .value = reader.number("value")};
  whole.require(reader.is_valid());
  return value;
}

Json json_of(const RepeatRecord& repeat) {
  Json json = {{"rungs", Json::array()},
               {"steps", repeat.steps},
               {"seconds", repeat.seconds},
               {"samples_per_s", repeat.samples_per_s},
               {"joules_per_sample", repeat.joules_per_sample},
               {"peak_bytes", repeat.peak_bytes}};
  for (const TrialValue& value : repeat.rungs) json["rungs"].push_back(json_of(value));
  if (repeat.end) json["end"] = json_of(*repeat.end);
  return json;
}

RepeatRecord read_repeat(const Json& json, RecordReader& whole) {
  RecordReader reader(json);
  RepeatRecord repeat{.steps = reader.whole("steps"),
                      .seconds = reader.number("seconds"),
                      .samples_per_s = reader.number("samples_per_s"),
                      .joules_per_sample = reader.number("joules_per_sample"),
                      .peak_bytes = reader.whole("peak_bytes")};
  for (const Json& value : reader.items("rungs")) repeat.rungs.push_back(read_value(value, reader));
  if (const Json* end = reader.find("end")) repeat.end = read_value(*end, reader);
  whole.require(reader.is_valid());
  return repeat;
}

TrialFailure read_failure(const Json& json, RecordReader& whole) {
  RecordReader reader(json);
  TrialFailure failure{
      .reason = reader.text("reason"), .code = reader.whole("code"), .message = reader.text("message")};
  whole.require(reader.is_valid());
  return failure;
}

}  // namespace

std::string to_json(const TrialRecord& record) {
  Json json = {{"number", record.number}};
  json["overrides"] = record.overrides;
  json["values"] = record.texts;
  json["repeats"] = Json::array();
  for (const RepeatRecord& repeat : record.repeats) json["repeats"].push_back(json_of(repeat));
  json["kills"] = record.kills;
  json["requeues"] = record.requeues;
  if (record.failure) {
    json["failure"] = {{"reason", record.failure->reason},
                       {"code", record.failure->code},
                       {"message", record.failure->message}};
  }
  // A message may quote a file's name, which need not be UTF-8.
  return json.dump(1, Json::NotUtf8::replace) + "\n";
}

std::optional<TrialRecord> parse_trial(std::string_view text) {
  const Json json = Json::parse_or_null(text);
  RecordReader reader(json);
  TrialRecord record{.number = reader.whole("number"),
                     .overrides = reader.texts("overrides"),
                     .texts = reader.texts("values"),
                     .kills = reader.whole("kills"),
                     .requeues = reader.whole("requeues")};
  for (const Json& repeat : reader.items("repeats")) record.repeats.push_back(read_repeat(repeat, reader));
  if (const Json* failure = reader.find("failure")) record.failure = read_failure(*failure, reader);
  return reader.is_valid() ? std::optional(std::move(record)) : std::nullopt;
}

std::string trial_name(int64_t number) {
  return fmt::format("trial-{:04}", number);
}

void write_trial(const std::filesystem::path& sweep, const TrialRecord& record) {
  write_atomically(sweep / (trial_name(record.number) + ".json"), to_json(record));
}

}  // namespace trainer

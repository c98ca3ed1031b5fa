// SPDX-License-Identifier: Apache-2.0
#include "tests/recipe/json_schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>

namespace trainer {
namespace {

using Json = nlohmann::json;
using Complaints = std::vector<std::string>;

const std::set<std::string> kNotes = {"$schema",     "title", "description", "default",
                                      "definitions", "then",  "else"};

bool is_type(const Json& instance, const std::string& type) {
  if (type == "integer")
    return instance.is_number() && instance.get<double>() == std::floor(instance.get<double>());
  if (type == "number") return instance.is_number();
  if (type == "string") return instance.is_string();
  if (type == "boolean") return instance.is_boolean();
  if (type == "null") return instance.is_null();
  if (type == "array") return instance.is_array();
  if (type == "object") return instance.is_object();
  throw std::logic_error("unknown type " + type);
}

/// The values of a keyword: one of a list, or the only one. No copy: schemas are queried thousands of times.
template <class Fits>
bool any_of(const Json& wanted, Fits fits) {
  return wanted.is_array() ? std::any_of(wanted.begin(), wanted.end(), fits) : fits(wanted);
}

/// Compiled once.
const std::regex& regex_of(const std::string& pattern) {
  static std::map<std::string, std::regex> known;
  const auto found = known.find(pattern);
  return found != known.end() ? found->second : known.emplace(pattern, pattern).first->second;
}

/// Checks one instance against one schema; keywords by the specification of draft 7.
class Check {
 public:
  Check(const Json& root, Complaints& complaints) : root_(root), complaints_(complaints) {}

  void check(const Json& schema, const Json& instance, const std::string& path) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) complain(path, "is not allowed");
      return;
    }
    if (schema.contains("$ref")) return check(target(schema["$ref"]), instance, path);
    for (const auto& [keyword, wanted] : schema.items()) {
      if (!kNotes.contains(keyword)) check_keyword(schema, keyword, wanted, instance, path);
    }
  }

  bool fits(const Json& schema, const Json& instance) const {
    Complaints found;
    Check(root_, found).check(schema, instance, "");
    return found.empty();
  }

 private:
  void complain(const std::string& path, const std::string& why) { complaints_.push_back(path + ": " + why); }

  const Json& target(const std::string& reference) const {
    return root_.at(Json::json_pointer(reference.substr(1)));
  }

  void check_keyword(const Json& schema, const std::string& keyword, const Json& wanted, const Json& instance,
                     const std::string& path) {
    if (keyword == "type") {
      if (!any_of(wanted, [&](const Json& type) { return is_type(instance, type); }))
        complain(path, "has the wrong type");
    } else if (keyword == "enum") {
      if (std::find(wanted.begin(), wanted.end(), instance) == wanted.end())
        complain(path, "is not a known name");
    } else if (keyword == "const") {
      if (instance != wanted) complain(path, "is not what it must be");
    } else if (keyword == "anyOf") {
      for (const Json& one : wanted) {
        if (fits(one, instance)) return;
      }
      complain(path, "fits no form");
    } else if (keyword == "if") {
      const char* branch = fits(wanted, instance) ? "then" : "else";
      if (schema.contains(branch)) check(schema[branch], instance, path);
    } else if (keyword == "pattern") {
      if (instance.is_string() &&
          !std::regex_search(instance.get<std::string>(), regex_of(wanted.get<std::string>())))
        complain(path, "does not match");
    } else if (!check_number(keyword, wanted, instance, path) &&
               !check_list(keyword, wanted, instance, path) &&
               !check_map(schema, keyword, wanted, instance, path)) {
      throw std::logic_error("unknown keyword " + keyword);
    }
  }

  // Each returns whether the keyword belongs to it.

  bool check_number(const std::string& keyword, const Json& wanted, const Json& instance,
                    const std::string& path) {
    static const std::set<std::string> own = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
    if (!own.contains(keyword) || !instance.is_number()) return own.contains(keyword);
    const double number = instance, bound = wanted;
    const bool right = keyword == "minimum"            ? number >= bound
                       : keyword == "maximum"          ? number <= bound
                       : keyword == "exclusiveMinimum" ? number > bound
                                                       : number < bound;
    if (!right) complain(path, "is out of bounds");
    return true;
  }

  bool check_list(const std::string& keyword, const Json& wanted, const Json& instance,
                  const std::string& path) {
    static const std::set<std::string> own = {"items", "minItems", "maxItems"};
    if (!own.contains(keyword) || !instance.is_array()) return own.contains(keyword);
    if (keyword == "items") {
      for (size_t i = 0; i < instance.size(); ++i)
        check(wanted, instance[i], path + "[" + std::to_string(i) + "]");
    } else if (keyword == "minItems" ? instance.size() < wanted : instance.size() > wanted) {
      complain(path, "has the wrong number of items");
    }
    return true;
  }

  bool check_map(const Json& schema, const std::string& keyword, const Json& wanted, const Json& instance,
                 const std::string& path) {
    static const std::set<std::string> own = {"properties", "required", "additionalProperties",
                                              "minProperties", "maxProperties"};
    if (!own.contains(keyword) || !instance.is_object()) return own.contains(keyword);
    if (keyword == "required") {
      for (const Json& key : wanted) {
        if (!instance.contains(key.get<std::string>())) complain(path, "misses " + key.get<std::string>());
      }
    } else if (keyword == "minProperties" || keyword == "maxProperties") {
      const bool right = keyword == "minProperties" ? instance.size() >= wanted : instance.size() <= wanted;
      if (!right) complain(path, "has the wrong number of keys");
    } else {
      const auto known = schema.find("properties");
      for (const auto& [key, value] : instance.items()) {
        const bool is_known = known != schema.end() && known->contains(key);
        if (keyword == "properties" && is_known) check(wanted[key], value, path + "." + key);
        if (keyword == "additionalProperties" && !is_known) check(wanted, value, path + "." + key);
      }
    }
    return true;
  }

  const Json& root_;
  Complaints& complaints_;
};

void check_defaults(const Json& root, const Json& schema, const std::string& path, Complaints& wrong) {
  if (schema.is_object() && schema.contains("default") && !schema["default"].is_object()) {
    if (!Check(root, wrong).fits(schema, schema["default"])) wrong.push_back(path);
  }
  if (!schema.is_structured()) return;
  for (const auto& [key, below] : schema.items()) check_defaults(root, below, path + "/" + key, wrong);
}

Json to_json(const Value& value) {
  switch (value.kind) {
    case Value::Kind::null:
      return nullptr;
    case Value::Kind::list: {
      Json list = Json::array();
      for (const Value& item : value.items) list.push_back(to_json(item));
      return list;
    }
    case Value::Kind::map: {
      Json map = Json::object();
      for (const Value::Entry& entry : value.entries) map[entry.key] = to_json(entry.value);
      return map;
    }
    case Value::Kind::scalar:
      break;
  }
  const Json parsed = Json::parse(value.raw, nullptr, false);
  return !value.quoted && (parsed.is_number() || parsed.is_boolean()) ? parsed : Json(value.raw);
}

}  // namespace

struct JsonSchema::Root {
  Json schema;
};

JsonSchema::JsonSchema(const std::string& text) : root_(std::make_unique<Root>(Root{Json::parse(text)})) {}
JsonSchema::~JsonSchema() = default;

std::vector<std::string> JsonSchema::complaints(const Value& instance, const std::string& definition) const {
  Complaints found;
  const Json& schema = definition.empty() ? root_->schema : root_->schema.at("definitions").at(definition);
  Check(root_->schema, found).check(schema, to_json(instance), "");
  return found;
}

std::vector<std::string> JsonSchema::wrong_defaults() const {
  Complaints wrong;
  check_defaults(root_->schema, root_->schema, "", wrong);
  return wrong;
}

}  // namespace trainer

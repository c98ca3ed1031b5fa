// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/schema.h"

#include <algorithm>

#include "core/base/json.h"
#include "core/config/field_values.h"
#include "core/recipe/recipe.h"
#include "core/recipe/value_json.h"

namespace trainer {
namespace {

/// Text that is replaced by its value: `${env:NAME}`, or `${...}` in a network.
constexpr const char* kReplaced = R"(\$\{)";

Json reference(const std::string& definition) {
  return {{"$ref", "#/definitions/" + definition}};
}

/// A number or truth value of this type, or a text that is replaced by one.
Json replaceable(const std::string& type) {
  return {{"type", Json::array({type, "string"})}, {"pattern", kReplaced}};
}

/// A whole number is written without a point.
Json number(double value) {
  const auto whole = static_cast<int64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

void add_bounds(Json& schema, const Field& field) {
  if (field.minimum) schema[field.minimum_excluded ? "exclusiveMinimum" : "minimum"] = number(*field.minimum);
  if (field.maximum) schema[field.maximum_excluded ? "exclusiveMaximum" : "maximum"] = number(*field.maximum);
}

/// Visits a field's target: the schema of one value.
struct TypeSchema {
  const Field& field;

  Json operator()(const bool*) const { return replaceable("boolean"); }
  Json operator()(const int64_t*) const { return bounded("integer"); }
  Json operator()(const double*) const { return bounded("number"); }
  /// A scalar of any form may be text.
  Json operator()(const std::string*) const {
    if (field.names.empty()) return {{"type", Json::array({"string", "number", "boolean"})}};
    return {{"anyOf", Json::array({{{"enum", field.names}}, {{"type", "string"}, {"pattern", kReplaced}}})}};
  }
  Json operator()(const Duration*) const { return with_unit("ep|ba|tok"); }
  Json operator()(const TimeSpan*) const { return with_unit("h|min|s"); }
  Json operator()(const Cadence*) const { return with_unit("ep|ba|tok|h|min|s"); }
  Json operator()(const ByteSize*) const {
    Json schema = {{"type", Json::array({"integer", "string"})}};
    schema["pattern"] = std::string("^[0-9]+([KMGT]iB)?$|") + kReplaced;
    schema["minimum"] = 0;
    return schema;
  }
  Json operator()(const AutoCount*) const {
    return {{"anyOf", Json::array({bounded("integer"), {{"const", "auto"}}})}};
  }
  Json operator()(const FlagOrCount*) const {
    return {{"anyOf", Json::array({bounded("integer"), {{"type", "boolean"}}})}};
  }
  Json operator()(const Value*) const { return Json::object(); }
  Json operator()(const NumbersOrBalanced*) const {
    const Json list = {{"type", "array"}, {"items", bounded("number")}};
    return {{"anyOf", Json::array({list, {{"const", "balanced"}}})}};
  }
  Json operator()(const Pair*) const {
    const Json one = bounded("integer");
    const Json two = {{"type", "array"}, {"items", one}, {"minItems", 2}, {"maxItems", 2}};
    return {{"anyOf", Json::array({one, two})}};
  }
  Json operator()(const SideOrPair*) const { return (*this)(static_cast<const Pair*>(nullptr)); }
  Json operator()(const FilePath*) const { return (*this)(static_cast<const std::string*>(nullptr)); }
  template <class T>
  Json operator()(const std::vector<T>*) const {
    const Json one = (*this)(static_cast<const T*>(nullptr));
    const Json list = {{"type", "array"}, {"items", one}};
    return field.takes_one ? Json{{"anyOf", Json::array({list, one})}} : list;
  }
  template <class T>
  Json operator()(const std::optional<T>*) const {
    return {{"anyOf", Json::array({(*this)(static_cast<const T*>(nullptr)), {{"type", "null"}}})}};
  }

 private:
  Json bounded(const std::string& type) const {
    Json schema = replaceable(type);
    add_bounds(schema, field);
    return schema;
  }
  Json with_unit(const std::string& units) const {
    const bool positive = field.minimum && *field.minimum >= 1;
    const std::string count = positive ? "0*[1-9][0-9]*" : "[0-9]+";
    return {{"type", "string"}, {"pattern", "^" + count + "(" + units + ")$|" + kReplaced}};
  }
};

Json field_schema(const Field& field) {
  Json schema = std::visit(TypeSchema{field}, field.target);
  schema["description"] = field.help;
  if (!field.is_required) schema["default"] = to_json(current_value(field));
  return schema;
}

Json map_schema(const Fields& fields);

bool has_required(const Fields& fields) {
  return std::any_of(fields.keys().begin(), fields.keys().end(), [](const Fields::Key& key) {
    return key.field ? key.field->is_required : key.group->is_required;
  });
}

/// The parameters of a component; nothing if none is required; the value of its bare parameter.
Json parameters_schema(const Fields& fields, const std::string& help) {
  Json forms = Json::array({map_schema(fields)});
  if (!has_required(fields)) forms.push_back({{"type", "null"}});
  for (const Field& field : fields.list()) {
    if (field.is_bare) forms.push_back(std::visit(TypeSchema{field}, field.target));
  }
  return {{"description", help}, {"anyOf", forms}};
}

Json component_schema(const Group& group) {
  Json names = Json::array(), forms = Json::array();
  for (const Registered<Component>& choice : group.choices) {
    Fields fields;
    const std::unique_ptr<Component> component = choice.make();
    component->declare(fields);
    if (!has_required(fields)) names.push_back(choice.name);
    Json map = map_schema(fields);
    map["description"] = choice.help;
    map["properties"]["name"] = {{"const", choice.name}};
    if (choice.name != group.default_name()) map["required"].push_back("name");
    forms.push_back(map);
  }
  forms.push_front(Json{{"enum", names}});
  if (!group.is_required) forms.push_back({{"type", "null"}});
  Json schema = {{"description", group.help}, {"anyOf", forms}};
  if (!group.default_name().empty()) schema["default"] = group.default_name();
  return schema;
}

/// Each component's name with the schema of its parameters; `bare` receives those that need none.
Json choices_schema(const Registry<Component>& choices, Json& bare) {
  Json properties = Json::object();
  for (const Registered<Component>& choice : choices) {
    Fields fields;
    const std::unique_ptr<Component> component = choice.make();
    component->declare(fields);
    properties[choice.name] = parameters_schema(fields, choice.help);
    if (!has_required(fields)) bare.push_back(choice.name);
  }
  return properties;
}

Json components_schema(const Group& group) {
  Json bare = Json::array();
  const Json one = {{"type", "object"},
                    {"properties", choices_schema(group.choices, bare)},
                    {"additionalProperties", false},
                    {"minProperties", 1},
                    {"maxProperties", 1}};
  return {{"description", group.help},
          {"type", "array"},
          {"items", {{"anyOf", Json::array({{{"enum", bare}}, one})}}}};
}

Json maps_schema(const Group& group) {
  Fields fields;
  const std::unique_ptr<Component> item = group.choices.front().make();
  item->declare(fields);
  return {{"description", group.help}, {"type", "array"}, {"items", map_schema(fields)}};
}

Json group_schema(const Group& group) {
  if (group.kind == Group::Kind::maps) return maps_schema(group);
  if (group.kind == Group::Kind::component) return component_schema(group);
  if (group.kind == Group::Kind::components) return components_schema(group);
  Json section = map_schema(*group.section);
  if (!section.contains("required")) section["type"] = Json::array({"object", "null"});
  for (const Field& field : group.section->list()) {
    if (field.is_bare)
      section = {{"anyOf", Json::array({section, std::visit(TypeSchema{field}, field.target)})}};
  }
  section["description"] = group.help;
  return section;
}

Json map_schema(const Fields& fields) {
  Json properties = Json::object(), required = Json::array();
  for (const Fields::Key& key : fields.keys()) {
    const std::string& name = key.name();
    properties[name] = key.field ? field_schema(*key.field) : group_schema(*key.group);
    if (key.field ? key.field->is_required : key.group->is_required) required.push_back(name);
  }
  Json schema = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = required;
  return schema;
}

// Additions of templates to a network: the values are written out before any field is read, so no field
// declares them.

/// One item of a list of layers; `others` is the schema of keys that do not name a layer.
Json layer_item(const Json& properties, const Json& bare, const Json& others) {
  const Json controlled = {{"anyOf", Json::array({{{"required", {"when"}}}, {{"required", {"repeat"}}}})}};
  const Json item = {{"type", "object"},
                     {"properties", properties},
                     {"additionalProperties", others},
                     {"if", controlled},
                     {"then", {{"minProperties", 2}, {"maxProperties", 3}}},
                     {"else", {{"minProperties", 1}, {"maxProperties", 1}}}};
  return {{"anyOf", Json::array({bare, item})}};
}

Json template_schema() {
  const Json argument = {{"type", Json::array({"number", "boolean", "null"})}};
  return {{"type", "object"},
          {"properties",
           {{"arguments",
             {{"description", "arguments and their defaults; an argument without a default is required"},
              {"type", Json::array({"object", "null"})},
              {"additionalProperties", argument}}},
            {"layers", {{"type", "array"}, {"items", reference("template_item")}}}}},
          {"required", {"layers"}},
          {"additionalProperties", false}};
}

Json template_use() {
  const Json text = {{"type", Json::array({"string", "number", "boolean"})}};
  return {
      {"type", Json::array({"object", "null"})},
      {"properties",
       {{"name", text}, {"inputs", {{"type", "array"}, {"items", text}, {"minItems", 1}, {"maxItems", 1}}}}},
      {"additionalProperties", {{"type", Json::array({"number", "boolean", "string"})}}}};
}

Json templates_schema(const Json& declared) {
  const Json map = {{"type", Json::array({"object", "null"})},
                    {"additionalProperties", reference("template")}};
  return {{"description", declared["description"]}, {"anyOf", Json::array({{{"type", "string"}}, map})}};
}

/// Moves the layers out of the model's schema into definitions and adds the keys of templates.
Json definitions_of(Json& model) {
  Json definitions = Json::object();
  Json& layers = model["properties"]["layers"];
  const Json bare = layers["items"]["anyOf"].items()[0];
  Json properties = Json::object();
  for (const auto& [name, schema] : layers["items"]["anyOf"].items()[1]["properties"].members()) {
    definitions["layer_" + name] = schema;
    properties[name] = reference("layer_" + name);
  }
  properties["when"] = replaceable("boolean");
  properties["when"]["description"] = "false: omit the layer";
  properties["repeat"] = replaceable("integer");
  properties["repeat"]["minimum"] = 0;
  properties["repeat"]["description"] = "number of times to repeat the layer; ${index} counts from 0";
  definitions["layer_item"] = layer_item(properties, bare, false);
  definitions["template_item"] = layer_item(properties, {{"type", "string"}}, reference("template_use"));
  definitions["template_use"] = template_use();
  definitions["template"] = template_schema();
  model["properties"]["templates"] = templates_schema(model["properties"]["templates"]);
  const auto with_items = [](const std::string& definition) {
    return Json{{"properties", {{"layers", {{"items", reference(definition)}}}}}};
  };
  layers.erase("items");
  model["if"] = {{"required", {"templates"}}};
  model["then"] = with_items("template_item");
  model["else"] = with_items("layer_item");

  Json network = model;
  network["properties"].erase("network");
  network["description"] = "a network's file: the key model.network names it";
  definitions["network"] = std::move(network);
  model["anyOf"] = Json::array({{{"required", {"network"}}}, {{"required", model["required"]}}});
  model.erase("required");
  return definitions;
}

}  // namespace

std::string recipe_schema() {
  const Recipe recipe;
  Json keys = map_schema(recipe.fields());
  Json& model = keys["properties"]["model"];
  const Json definitions = definitions_of(model);
  const Json name = {{"type", "string"}, {"description", "short for {network: NAME}"}};
  model = Json{{"description", model["description"]}, {"anyOf", Json::array({name, model})}};
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "a recipe of trainer"}};
  for (const auto& [key, value] : keys.members()) schema[key] = value;
  schema["definitions"] = definitions;
  return schema.dump(1) + "\n";
}

}  // namespace trainer

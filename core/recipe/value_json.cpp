// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/value_json.h"

namespace trainer {

Json to_json(const Value& value) {
  if (value.kind == Value::Kind::null) return nullptr;
  if (value.kind == Value::Kind::list) {
    Json list = Json::array();
    for (const Value& item : value.items) list.push_back(to_json(item));
    return list;
  }
  if (value.kind == Value::Kind::map) {
    Json map = Json::object();
    for (const Value::Entry& entry : value.entries) map.add(entry.key, to_json(entry.value));
    return map;
  }
  const Json parsed = Json::parse_or_null(value.text);
  const bool is_plain = !value.quoted && (parsed.is_number() || parsed.is_boolean());
  return is_plain ? parsed : Json(value.text);
}

}  // namespace trainer

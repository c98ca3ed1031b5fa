// SPDX-License-Identifier: Apache-2.0
#include "core/layers/head.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/config/messages.h"
#include "core/layers/layer.h"

namespace trainer {
namespace {

bool is_count(const Value& value) {
  int64_t count = 0;
  const char* end = value.text.data() + value.text.size();
  const auto [stop, status] = std::from_chars(value.text.data(), end, count);
  return value.kind == Value::Kind::scalar && !value.quoted && status == std::errc{} && stop == end &&
         count > 0;
}

/// The key that sets the outputs of a layer of this type; nullptr if it has none or is unknown.
const char* width_key(const std::string& type) {
  const auto row = std::ranges::find(layers(), type, &Registered<Layer>::name);
  // The keys of components are string literals, which outlive this one.
  return row == layers().end() ? nullptr : row->make()->width_key();
}

bool has_width(const Value& item) {
  return item.kind == Value::Kind::map && item.entries.size() == 1 &&
         width_key(item.entries.front().key) != nullptr;
}

/// Sets one key of a layer's parameters; a single value stands for that key alone.
void set_width(Value& parameters, const char* key, const Value::Entry& given) {
  if (parameters.kind != Value::Kind::map) {
    parameters = given.value;
    parameters.where = given.where;
    return;
  }
  const auto found = std::ranges::find(parameters.entries, key, &Value::Entry::key);
  const Value::Entry entry{key, given.where, given.value};
  if (found == parameters.entries.end()) {
    parameters.entries.push_back(entry);
  } else {
    *found = entry;
  }
}

}  // namespace

void set_num_classes(Value& network, const std::string& path, Reading& reading) {
  const auto given = std::ranges::find(network.entries, "num_classes", &Value::Entry::key);
  const auto list = std::ranges::find(network.entries, "layers", &Value::Entry::key);
  if (given == network.entries.end() || list == network.entries.end() || !is_count(given->value)) return;
  const Origin origin{given->where, join_path(path, "num_classes")};
  std::vector<Value>& items = list->value.items;
  if (items.empty()) return;
  const auto last = std::find_if(items.rbegin(), items.rend(), has_width);
  if (last == items.rend())
    return reading.error(origin, "no layer of the network has a number of outputs to set");
  const auto index = std::distance(items.begin(), last.base()) - 1;
  Value::Entry& layer = last->entries.front();
  if (const Value* tied = layer.value.find("weight_of"); tied != nullptr && !tied->text.empty()) {
    return reading.error(origin, fmt::format("the last layer's weight is that of '{}'; set the number of "
                                             "outputs in both layers instead",
                                             shown(tied->text)));
  }
  const char* key = width_key(layer.key);
  Value::Entry width = *given;
  width.where.moved = std::make_shared<const Moved>(
      Moved{fmt::format("{}[{}].{}{}", join_path(path, "layers"), index, layer.key,
                        layer.value.kind == Value::Kind::map ? std::string(".") + key : ""),
            origin.path});
  set_width(layer.value, key, width);
}

}  // namespace trainer

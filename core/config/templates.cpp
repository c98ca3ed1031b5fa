// SPDX-License-Identifier: Apache-2.0
#include "core/config/templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/config/events.h"
#include "core/config/expression.h"
#include "core/config/fields.h"
#include "core/config/messages.h"
#include "core/config/networks.h"
#include "core/config/template_table.h"
#include "core/config/template_use.h"

namespace trainer {
namespace {

/// Keys and values of all layers. A transformer of 16,000 layers has 160,000.
constexpr size_t kMaxWrittenOut = 250'000;

Value scalar(const std::string& text, const Location& where) {
  Value value;
  value.kind = Value::Kind::scalar;
  value.text = value.raw = text;
  value.where = where;
  return value;
}

Value list_of(const std::string& text, const Location& where) {
  Value value;
  value.kind = Value::Kind::list;
  value.where = where;
  value.items.push_back(scalar(text, where));
  return value;
}

Value::Entry* find_entry(Value& map, const std::string& key) {
  const auto found = std::find_if(map.entries.begin(), map.entries.end(),
                                  [&](const Value::Entry& entry) { return entry.key == key; });
  return found == map.entries.end() ? nullptr : &*found;
}

/// A list of layers while it is written out: the network's own, or one use of a template.
struct Block {
  const Block* parent = nullptr;
  const Template* of = nullptr;
  int depth = 0;
  std::string path;                               ///< of the list as it is written
  std::string prefix;                             ///< of its layers' names
  std::string input, current;                     ///< names of the block's input, and of its next layer's
  Scope scope = {};                               ///< its arguments, and `index` beside `repeat`
  std::map<std::string, std::string> names = {};  ///< of its layers: here, and in the network
  std::shared_ptr<const Location> used_at = nullptr;
  size_t item = 0;                               ///< of the list, which is being written out
  std::shared_ptr<const Moved> moved = nullptr;  ///< its paths

  /// A layer's name in the network, also of NAME:OUTPUT.
  std::string resolve(const std::string& name) const {
    if (const std::string* found = find(name)) return *found;
    const size_t colon = std::min(name.rfind(':'), name.size());
    const std::string* layer = find(name.substr(0, colon));
    return layer == nullptr ? prefix + name : *layer + name.substr(colon);
  }

  /// Nullptr if the block has no layer of that name.
  const std::string* find(const std::string& name) const {
    const auto found = names.find(name);
    return name == "input" ? &input : found == names.end() ? nullptr : &found->second;
  }
};

class Expander {
 public:
  Expander(TemplateTable& table, const std::vector<std::string>& known, const std::string& network_path,
           Reading& reading)
      : table_(table),
        known_(known),
        path_(join_path(network_path, "layers")),
        templates_path_(join_path(network_path, "templates")),
        reading_(reading) {}

  std::vector<Value> expand(const Value& list) {
    Block network{.path = path_, .prefix = "", .input = "input", .current = "input"};
    add_items(list, network);
    return std::move(layers_);
  }

 private:
  /// The path of the next layer; everything before it has been written out.
  std::string next_path() const { return fmt::format("{}[{}]", path_, layers_.size()); }

  void add_items(const Value& list, Block& block) {
    for (size_t i = 0; i < list.items.size(); ++i) {
      block.item = i;
      note_paths(block);
      if (!list.items[i].reported) add_item(list.items[i], block);
    }
  }

  void note_paths(Block& block) const {
    Moved paths{next_path(), fmt::format("{}[{}]", block.path, block.item)};
    block.moved = paths.path == paths.written ? nullptr : std::make_shared<const Moved>(std::move(paths));
  }

  void add_item(const Value& written, Block& block) {
    const auto is_name = [this](const std::string& name) {
      return contains(known_, name) || table_.find(name) != nullptr;
    };
    const Item item = take_apart(written, is_name);
    if (item.stray != nullptr || item.is_empty) return refuse(item, written, block);
    if (!item.is_layer) return pass_on(written, block);
    if (item.repeat == nullptr) return add_copy(written, item, block);
    const Origin origin{placed(item.repeat->where, block), next_path() + ".repeat"};
    const std::optional<int64_t> times = count(*item.repeat, origin, block);
    const std::shared_ptr<const Location> outer = block.used_at;
    for (int64_t i = 0; times && i < *times && !is_exhausted_; ++i) {
      block.scope["index"] = fmt::format("{}", i);
      block.used_at = std::make_shared<const Location>(origin.where);
      add_copy(written, item, block);
    }
    block.used_at = outer;
    block.scope.erase("index");
  }

  void refuse(const Item& item, const Value& written, const Block& block) {
    if (item.is_empty) {
      const Value::Entry& first = written.entries.front();
      return reading_.error(placed(first.where, block), next_path(),
                            fmt::format("expected a layer beside '{}', found none", first.key));
    }
    Reading::Unknown unknown{placed(item.stray->where, block), next_path(), item.stray->key, {}, {}};
    for (const std::string& control : controls()) {
      (written.find(control) ? unknown.given : unknown.absent).push_back(control);
    }
    reading_.unknown(unknown);
  }

  /// Anything but a layer goes to the readers of layers unchanged.
  void pass_on(Value written, const Block& block) {
    std::erase_if(written.entries, [](const Value::Entry& entry) { return is_control(entry.key); });
    place(written, block);
    layers_.push_back(std::move(written));
  }

  /// Times that an item is repeated; nullopt after an error.
  std::optional<int64_t> count(const Value::Entry& repeat, const Origin& origin, Block& block) {
    const Value value = evaluated(repeat.value, origin, block);
    if (value.reported) return std::nullopt;
    int64_t times = 0;
    const char* end = value.text.data() + value.text.size();
    const auto [stop, status] = std::from_chars(value.text.data(), end, times);
    if (value.kind == Value::Kind::scalar && !value.quoted && status == std::errc{} && stop == end &&
        times >= 0)
      return times;
    reading_.error(origin, "expected how often, a whole number of at least 0, found " + describe(value));
    return std::nullopt;
  }

  void add_copy(const Value& written, const Item& item, Block& block) {
    note_paths(block);
    if (is_exhausted_ || !charge(written, block)) return;
    const std::string& name = item.layer.key;
    Template* made = table_.find(name);
    if (made != nullptr) made->is_used = true;
    if (item.when != nullptr) {
      const Origin origin{placed(item.when->where, block), next_path() + ".when"};
      const Value value = evaluated(item.when->value, origin, block);
      const bool is_truth = !value.quoted && (value.text == "true" || value.text == "false");
      if (value.reported) return;
      if (!is_truth) return reading_.error(origin, "expected true or false, found " + describe(value));
      if (value.text == "false") return skip(item, block);
    }
    const Origin origin{placed(item.layer.where, block), join_path(next_path(), shown(name))};
    if (made == nullptr && !contains(known_, name)) return table_.miss(name, origin, reading_);
    Value parameters = evaluated(item.layer.value, origin, block);
    if (made != nullptr) return add_use(*made, parameters, origin, block);
    add_layer(item, std::move(parameters), origin, block);
  }

  /// A layer that is left out hands on its first input.
  void skip(const Item& item, Block& block) {
    Value map = item.layer.value;
    const Origin origin{placed(item.layer.where, block), next_path()};
    const Value::Entry* name = find_entry(map, "name");
    const Value::Entry* inputs = find_entry(map, "inputs");
    if (inputs != nullptr && !inputs->value.items.empty()) {
      block.current = block.resolve(evaluated(inputs->value.items[0], origin, block).text);
    }
    if (name != nullptr && name->value.kind == Value::Kind::scalar) {
      block.names[evaluated(name->value, origin, block).text] = block.current;
    }
  }

  void add_layer(const Item& item, Value parameters, const Origin& origin, Block& block) {
    const std::string number = fmt::format("{}", layers_.size());
    std::string own, full = number;
    if (Value::Entry* name = find_entry(parameters, "name");
        name && name->value.kind == Value::Kind::scalar) {
      own = name->value.text;
      full = name->value.text = block.prefix + own;
      name->value.raw = block.prefix + name->value.raw;
    }
    bool is_bare = item.is_bare;
    if (Value::Entry* inputs = find_entry(parameters, "inputs")) {
      for (Value& input : inputs->value.items) {
        if (input.kind == Value::Kind::scalar) input.text = input.raw = block.resolve(input.text);
      }
    } else if (block.current != before_) {
      if (parameters.kind != Value::Kind::map && parameters.kind != Value::Kind::null) {
        return reading_.error(
            origin,
            fmt::format("reads '{}', not the layer before it: write its parameters as a map", block.current));
      }
      parameters.kind = Value::Kind::map;
      parameters.entries.push_back({"inputs", origin.where, list_of(block.current, origin.where)});
      is_bare = false;
    }
    if (!own.empty()) block.names[own] = full;
    block.current = before_ = full;
    Value layer;
    layer.where = origin.where;
    layer.kind = is_bare ? Value::Kind::scalar : Value::Kind::map;
    layer.text = layer.raw = is_bare ? item.layer.key : "";
    if (!is_bare) layer.entries.push_back({item.layer.key, origin.where, std::move(parameters)});
    layers_.push_back(std::move(layer));
  }

  void add_use(Template& made, Value& parameters, const Origin& origin, Block& block) {
    if (made.is_broken) return;
    Block use{.parent = &block,
              .of = &made,
              .depth = block.depth + 1,
              .path = fmt::format("{}.{}.layers", templates_path_, shown(made.name)),
              .prefix = block.prefix,
              .input = block.current,
              .current = "",
              .used_at = std::make_shared<const Location>(origin.where)};
    if (!may_nest(made, origin, block) || !read_use(made, parameters, origin, use.scope, reading_)) return;
    const Value::Entry* name = find_entry(parameters, "name");
    if (name != nullptr) use.prefix += name->value.text + ".";
    if (const Value* inputs = parameters.find("inputs")) use.input = block.resolve(inputs->items[0].text);
    use.current = use.input;
    add_items(*made.layers, use);
    block.current = use.current;
    if (name != nullptr) {
      block.names[name->value.text] = use.current;
    } else {
      block.names.insert(use.names.begin(), use.names.end());
    }
  }

  bool may_nest(const Template& made, const Origin& origin, const Block& block) {
    std::string way = made.name;
    for (const Block* at = &block; at->of != nullptr; at = at->parent) {
      way.insert(0, at->of->name + " > ");
      if (at->of != &made) continue;
      reading_.error(origin, fmt::format("a template cannot use itself: {}", way));
      return false;
    }
    if (block.depth < kMaxDepth) return true;
    reading_.error(origin, fmt::format("templates nested deeper than {} levels", kMaxDepth));
    return false;
  }

  /// A copy with places and with every expression replaced by its value.
  Value evaluated(const Value& written, const Origin& origin, const Block& block) {
    Value value = written;
    place(value, block);
    evaluate_below(value, origin, block);
    return value;
  }

  void evaluate_below(Value& value, const Origin& origin, const Block& block) {
    for (size_t i = 0; i < value.items.size(); ++i) {
      evaluate_below(value.items[i], {value.items[i].where, fmt::format("{}[{}]", origin.path, i)}, block);
    }
    for (Value::Entry& entry : value.entries) {
      evaluate_below(entry.value, {entry.where, join_path(origin.path, shown(entry.key))}, block);
    }
    if (value.kind != Value::Kind::scalar || value.reported || !has_expression(value.raw)) return;
    try {
      value.text = value.raw = evaluate(value.text, block.scope);
      value.quoted = false;
    } catch (const BadExpression& bad) {
      value.reported = true;
      report(bad, origin, block);
    }
  }

  /// A missing index may be due to a `repeat` elsewhere or a misspelt one.
  void report(const BadExpression& bad, const Origin& origin, const Block& block) {
    if (bad.unknown.empty()) return reading_.error(origin, bad.text);
    std::vector<std::string> known;
    for (const auto& [name, value] : block.scope) known.push_back(name);
    if (bad.unknown != "index") return reading_.error(origin, bad.text + suggestion(bad.unknown, known));
    reading_.declared({next_path(), "repeat", false});
    reading_.missing({origin.where, next_path(), "repeat", "", origin,
                      bad.text + "; it is defined only for a layer with `repeat`"});
  }

  static Location placed(Location where, const Block& block) {
    where.used_at = block.used_at;
    where.moved = block.moved;
    return where;
  }

  static void place(Value& value, const Block& block) {
    value.where = placed(value.where, block);
    for (Value& item : value.items) place(item, block);
    for (Value::Entry& entry : value.entries) {
      entry.where = placed(entry.where, block);
      place(entry.value, block);
    }
  }

  static size_t size_of(const Value& value) {
    size_t size = 1;
    for (const Value& item : value.items) size += size_of(item);
    for (const Value::Entry& entry : value.entries) size += 1 + size_of(entry.value);
    return size;
  }

  /// Keeps a few templates from becoming more layers than memory holds.
  bool charge(const Value& item, const Block& block) {
    size_ += size_of(item);
    if (size_ <= kMaxWrittenOut) return true;
    is_exhausted_ = true;
    reading_.error(placed(item.where, block), next_path(),
                   fmt::format("too many layers: more than {} keys and values once templates are written out",
                               kMaxWrittenOut));
    return false;
  }

  TemplateTable& table_;
  const std::vector<std::string>& known_;
  std::string path_, templates_path_;
  Reading& reading_;
  std::vector<Value> layers_;
  std::string before_ = "input";  ///< name of the last of layers_
  size_t size_ = 0;
  bool is_exhausted_ = false;
};

}  // namespace

void include_templates(Value& network, const std::string& path, Diagnostics& diagnostics) {
  Value::Entry* entry = find_entry(network, "templates");
  if (entry == nullptr || entry->value.kind != Value::Kind::scalar || entry->value.reported) return;
  const Value other = load_network(entry->value, entry->where, diagnostics);
  const Value* templates = other.find("templates");
  entry->value.reported = true;
  if (other.kind != Value::Kind::map) return;
  if (templates == nullptr || templates->kind != Value::Kind::map) {
    diagnostics.error(entry->where, join_path(path, "templates"),
                      fmt::format("expected a map 'templates' in {}, found {}", other.where.file,
                                  templates ? describe(*templates) : "none"));
    return;
  }
  entry->value = *templates;
}

void expand_templates(Value& network, const std::string& path, const std::vector<std::string>& known,
                      Reading& reading) {
  const std::string templates_path = join_path(path, "templates");
  Value::Entry* templates = find_entry(network, "templates");
  if (templates && templates->value.kind == Value::Kind::list) {
    reading.error(templates->where, templates_path,
                  "expected a map of templates, or a network's file that has them, found a list");
    templates->value.reported = true;
  }
  TemplateTable table(templates ? &templates->value : nullptr, templates_path, known, reading);
  Value::Entry* layers = find_entry(network, "layers");
  if (layers && layers->value.kind == Value::Kind::list && !layers->value.reported) {
    layers->value.items = Expander(table, known, path, reading).expand(layers->value);
  }
  table.finish(reading);
  if (templates && templates->value.kind == Value::Kind::map) {
    templates->value = Value{};
    templates->value.where = templates->where;
  }
}

}  // namespace trainer

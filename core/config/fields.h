// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/component.h"
#include "core/config/field.h"
#include "core/config/value.h"

namespace trainer {

class Reading;

/// A key with keys of its own: a section, a component or a list of components. Setters chain.
class Group {
 public:
  enum class Kind { section, component, components, maps };

  Group(Kind group_kind, const std::string& group_name, const std::string& group_help);
  ~Group();

  Group& required();
  Group& does_not_affect_results();  ///< nothing in it is part of a run's identity
  /// A section that came later: an identity leaves it out while nothing in it is set, as Field::absent_as.
  Group& absent_if_unset();
  /// A component that came later: the same while it is the one of this name, which stands for the results of
  /// before.
  Group& absent_as(const std::string& component);

  bool is_list() const { return kind == Kind::components || kind == Kind::maps; }

  Kind kind;
  std::string name;
  std::string help;
  bool is_required = false, is_mathematics = true, is_absent_if_unset = false;
  std::unique_ptr<Fields> section;  ///< the keys of a section
  Registry<Component> choices;      ///< the allowed components
  std::string absent_component;     ///< see absent_as

  /// The component that applies without a setting in the recipe; empty if there is none.
  std::string default_name() const { return members_.empty() ? "" : members_.front().component->chosen_as; }

 private:
  friend class Fields;
  struct Member {
    Component* component;
    std::unique_ptr<Fields> fields;
    Location where;
  };

  /// Records a component that the target holds; finds out its name if it is not known.
  Member& adopt(Component& component);

  std::function<void(std::unique_ptr<Component>)> put_;  // into the target: replaces it, or adds to the list
  std::function<void()> clear_;
  std::vector<Member> members_;
  bool is_named_ = false;  // the recipe gives the component's name
};

/// The keys of one map of a recipe, declared once. The parser, the listing of the registry, the resolved
/// recipe and a run's identity are all derived from them. Bound targets must not move while it is used.
class Fields {
 public:
  Field& add(const std::string& name, Field::Target target, const std::string& help);

  /// A nested map with keys of its own.
  Group& section(const std::string& name, const std::string& help,
                 const std::function<void(Fields&)>& declare);

  /// `key: {name: sgd, lr: 0.1}` or `key: sgd`: a component chosen by `name` out of a table; target holds the
  /// default. Without a name the parameters are the default's. A default whose type is in the registry more
  /// than once must set its own `chosen_as`.
  template <class Base>
  Group& component(const std::string& name, std::unique_ptr<Base>& target, const Registry<Base>& registry,
                   const std::string& help);

  /// `key: [relu, conv2d: {…}, resize: 256]`: a list of components, each a bare name or a map of one key.
  template <class Base>
  Group& components(const std::string& name, std::vector<std::unique_ptr<Base>>& target,
                    const Registry<Base>& registry, const std::string& help);

  /// Reads `value` into the targets; reports everything wrong with it, each problem once, in the order of the
  /// file: at the key of a map's entry, at an item of a list. `path` is this map's path. `skip` names keys
  /// that the caller has read itself. Fills `written` if it is given.
  void read(const Value& value, const std::string& path, Diagnostics& diagnostics,
            std::map<std::string, Location>* written = nullptr, const std::vector<std::string>& skip = {});
  /// The same as a part of a reading that others add to, before it is finished.
  void read(const Value& value, const std::string& path, Reading& reading,
            const std::vector<std::string>& skip = {});

  /// `key: [{pattern: "*.bias", factor: 2}, …]`: a list of maps that all have the keys of Item, a Component.
  template <class Item>
  Group& maps(const std::string& name, std::vector<std::unique_ptr<Item>>& target, const std::string& help);

  /// Puts these declared keys before all others in the resolved recipe.
  void put_first(const std::vector<std::string>& names);

  enum class Form {
    as_written,   ///< relative paths aside, which become absolute
    canonical,    ///< one text for each value, those from environment variables hidden
    mathematics,  ///< one text for each value, of the keys that affect results only
    identity,     ///< the same under the names that identities keep, values from environment variables hidden
  };
  /// After read: the whole map with defaults filled in; the place of a default is {"default"}.
  Value resolved(Form form = Form::as_written) const;

  const std::deque<Field>& list() const { return fields_; }

  /// All declarations, in order: exactly one of the two is set.
  struct Key {
    const Field* field;
    const Group* group;
    const std::string& name() const { return field ? field->name : group->name; }
  };
  const std::vector<Key>& keys() const { return keys_; }

 private:
  friend class Group;

  Group& add_group(Group::Kind kind, const std::string& name, const std::string& help);
  Field* find_field(const std::string& name);
  Group* find_group(const std::string& name);
  /// Reports a key that this map had under another name; returns false if there was none.
  bool refuse_old_key(const Value::Entry& entry, const std::string& path, Reading& reading);
  void check_is_new(const std::string& name) const;

  void read_map(const Value& value, const std::string& path, Reading& reading,
                const std::vector<std::string>& skip);
  void read_field(const Field& field, const Value::Entry& entry, const std::string& path, Reading& reading);
  bool read_bare(const Value::Entry& entry, const std::string& path, Reading& reading);
  void read_group(Group& group, const Value::Entry& entry, const std::string& path, Reading& reading);
  void read_missing(const Value& value, const std::string& path, Reading& reading);

  static void read_component(Group& group, const Value::Entry& entry, const std::string& path,
                             Reading& reading);
  static void read_unnamed(Group& group, const Value::Entry& entry, const std::string& path,
                           Reading& reading);
  static void read_components(Group& group, const Value::Entry& entry, const std::string& path,
                              Reading& reading);
  static void read_maps(Group& group, const Value::Entry& entry, const std::string& path, Reading& reading);
  static void read_item(Group& group, const Value& item, const std::string& path, Reading& reading);
  static Group::Member* choose(Group& group, const std::string& name, const Origin& named_at,
                               const Origin& origin, Reading& reading);
  static void read_named(Group& group, const Value::Entry& entry, const std::string& path, Reading& reading);
  void read_parameters(const Value& value, Component& component, const std::vector<std::string>& skip,
                       Reading& reading);
  std::map<std::string, Location> written() const;

  void collect(const std::string& path, Reading& reading) const;
  Value resolved_map(Form form, const std::string& map_name) const;
  static Value resolved_group(const Group& group, Form form);
  static Value resolved_component(const Group& group, Form form);
  static Value resolved_item(const Group::Member& member, Form form);

  std::deque<Field> fields_;
  std::deque<Group> groups_;
  std::vector<Key> keys_;
  std::map<std::string, Value::Entry> given_;  // the recipe's values for the keys
};

/// The candidate nearest to `name` (edit distance, at most a third of its length, at least 1), or nullopt. Of
/// two equally near ones, the one that shares more leading letters, otherwise the first. Nothing if `name`
/// itself
/// is one.
std::optional<std::string> nearest(const std::string& name, const std::vector<std::string>& candidates);

template <class Base>
Registry<Component> as_components(const Registry<Base>& registry) {
  Registry<Component> choices;
  for (const Registered<Base>& row : registry) {
    choices.push_back(
        {row.name, row.help, [make = row.make]() -> std::unique_ptr<Component> { return make(); }});
  }
  return choices;
}

template <class Base>
Group& Fields::component(const std::string& name, std::unique_ptr<Base>& target,
                         const Registry<Base>& registry, const std::string& help) {
  Group& group = add_group(Group::Kind::component, name, help);
  group.choices = as_components(registry);
  group.put_ = [&target](std::unique_ptr<Component> made) {
    target.reset(static_cast<Base*>(made.release()));
  };
  group.clear_ = [&target] { target.reset(); };
  if (target) group.adopt(*target);
  return group;
}

template <class Base>
Group& Fields::components(const std::string& name, std::vector<std::unique_ptr<Base>>& target,
                          const Registry<Base>& registry, const std::string& help) {
  Group& group = add_group(Group::Kind::components, name, help);
  group.choices = as_components(registry);
  group.put_ = [&target](std::unique_ptr<Component> made) {
    target.emplace_back(static_cast<Base*>(made.release()));
  };
  group.clear_ = [&target] { target.clear(); };
  for (const std::unique_ptr<Base>& component : target) group.adopt(*component);
  return group;
}

template <class Item>
Group& Fields::maps(const std::string& name, std::vector<std::unique_ptr<Item>>& target,
                    const std::string& help) {
  Group& group = components(name, target, {{name, help, [] { return std::make_unique<Item>(); }}}, help);
  group.kind = Group::Kind::maps;
  return group;
}

}  // namespace trainer

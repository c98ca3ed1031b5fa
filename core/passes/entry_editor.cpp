// SPDX-License-Identifier: Apache-2.0
#include "core/passes/entry_editor.h"

#include <algorithm>
#include <utility>

namespace trainer {

EntryEditor::EntryEditor(Entry& entry)
    : entry_(entry),
      nodes_(std::exchange(entry.nodes, {})),
      is_removed_(nodes_.size(), false),
      inserted_(nodes_.size()) {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    place_.push_back(2 * n + 1);
    link(n);
  }
  for (const NamedTensor& output : entry.outputs) ++links(output.tensor).outputs;
}

EntryEditor::Links& EntryEditor::links(TensorId id) {
  const auto place = static_cast<size_t>(id);
  if (place >= links_.size()) links_.resize(std::max(place + 1, 2 * links_.size()));
  return links_[place];
}

const EntryEditor::Links& EntryEditor::links(TensorId id) const {
  static const Links none;
  const auto place = static_cast<size_t>(id);
  return place < links_.size() ? links_[place] : none;
}

int EntryEditor::maker_of(TensorId id) const {
  return id == kNone ? kNobody : links(id).maker;
}

int EntryEditor::uses(TensorId id) const {
  return links(id).outputs + static_cast<int>(links(id).readers.size());
}

const std::vector<size_t>& EntryEditor::readers(TensorId id) const {
  return links(id).readers;
}

int EntryEditor::only_reader(TensorId id) const {
  const std::vector<size_t>& all = readers(id);
  return uses(id) == 1 && all.size() == 1 ? static_cast<int>(all[0]) : kNobody;
}

bool EntryEditor::exists_before(size_t n, TensorId id) const {
  const int maker = maker_of(id);
  return maker == kNobody || is_before(static_cast<size_t>(maker), n);
}

void EntryEditor::link(size_t n) {
  for (const TensorId id : nodes_[n].outputs) {
    if (id != kNone) links(id).maker = static_cast<int>(n);
  }
  for (const TensorId id : nodes_[n].inputs) {
    if (id == kNone) continue;
    std::vector<size_t>& all = links(id).readers;
    all.insert(std::ranges::upper_bound(all, place_[n], {}, [&](size_t other) { return place_[other]; }), n);
  }
}

void EntryEditor::unlink(size_t n) {
  for (const TensorId id : nodes_[n].outputs) {
    if (id != kNone && links(id).maker == static_cast<int>(n)) links(id).maker = kNobody;
  }
  for (const TensorId id : nodes_[n].inputs) {
    if (id == kNone) continue;
    std::vector<size_t>& all = links(id).readers;
    all.erase(std::ranges::find(all, n));
  }
}

void EntryEditor::set_inputs(size_t n, std::vector<TensorId> inputs) {
  unlink(n);
  nodes_[n].inputs = std::move(inputs);
  link(n);
}

void EntryEditor::set_input(size_t n, size_t i, TensorId id) {
  std::vector<TensorId> inputs = nodes_[n].inputs;
  inputs[i] = id;
  set_inputs(n, std::move(inputs));
}

void EntryEditor::set_outputs(size_t n, std::vector<TensorId> outputs) {
  unlink(n);
  nodes_[n].outputs = std::move(outputs);
  link(n);
}

void EntryEditor::set_output(size_t n, size_t o, TensorId id) {
  std::vector<TensorId> outputs = nodes_[n].outputs;
  outputs[o] = id;
  set_outputs(n, std::move(outputs));
}

void EntryEditor::remove(size_t n) {
  unlink(n);
  is_removed_[n] = true;
}

void EntryEditor::insert_before(size_t n, Node node) {
  inserted_[n].push_back(nodes_.size());
  nodes_.push_back(std::move(node));
  is_removed_.push_back(false);
  place_.push_back(place_[n] - 1);
  link(nodes_.size() - 1);
}

void EntryEditor::finish() {
  const auto put_back = [&](size_t n) {
    if (!is_removed_[n]) entry_.nodes.push_back(std::move(nodes_[n]));
  };
  for (size_t n = 0; n < inserted_.size(); ++n) {
    for (const size_t before : inserted_[n]) put_back(before);
    put_back(n);
  }
}

}  // namespace trainer

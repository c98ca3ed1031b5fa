// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <memory>
#include <utility>

#include "core/graph/names.h"
#include "core/step/forward.h"
#include "core/step/stages.h"

namespace trainer {
namespace {

/// Puts the nodes of a teacher's prediction before those of an entry. Inputs are shared by their names; what
/// persists becomes constant.
class Graft {
 public:
  Graft(Program& program, const Program& teacher) : program_(program), teacher_(teacher) {}

  /// The teacher's logits.
  TensorId before(Entry& entry) {
    const Entry& prediction = *teacher_.find_entry(entry_name::kPredict);
    std::vector<Node> nodes = prediction.nodes;
    for (Node& node : nodes) {
      node.origin.path = kTeacherPrefix + node.origin.path;
      for (TensorId& id : node.inputs) id = copy_of(id);
      for (TensorId& id : node.outputs) id = copy_of(id);
    }
    entry.nodes.insert(entry.nodes.begin(), std::make_move_iterator(nodes.begin()),
                       std::make_move_iterator(nodes.end()));
    return copy_of(prediction.output(output_name::kLogits));
  }

 private:
  TensorId copy_of(TensorId id) {
    if (id == kNone) return kNone;
    const auto known = copies_.find(id);
    return known != copies_.end() ? known->second
                                  : copies_.emplace(id, add(teacher_.tensor(id))).first->second;
  }

  TensorId add(Tensor tensor) {
    if (is_from_outside(tensor.role)) return program_.input(tensor.name, tensor.spec);
    if (!is_persistent(tensor.role)) return program_.add(std::move(tensor));
    return program_.persistent(kTeacherPrefix + tensor.name, tensor.spec, Role::constant, tensor.initial);
  }

  Program& program_;
  const Program& teacher_;
  std::map<TensorId, TensorId> copies_;
};

/// Throws unless the teacher reads what the network reads, and its logits are of the same classes.
void check_teacher(const Program& program, const ForwardSpec& spec, TensorId logits) {
  const Origin origin = spec.task.origin_of("loss.teacher.recipe");
  for (const Tensor& tensor : spec.teacher->tensors) {
    if (!is_from_outside(tensor.role)) continue;
    const TensorId own = program.find(tensor.name);
    if (own != kNone && program.spec(own) == tensor.spec) continue;
    fail_at(origin, fmt::format("the teacher reads {} {}, and the network {}; choose a teacher with the same "
                                "model.input",
                                tensor.name, to_string(tensor.spec.shape),
                                own == kNone ? "none" : to_string(program.spec(own).shape)));
  }
  const Entry& prediction = *spec.teacher->find_entry(entry_name::kPredict);
  const Shape &given = spec.teacher->spec(prediction.output(output_name::kLogits)).shape,
              &wanted = program.spec(logits).shape;
  if (given != wanted) {
    fail_at(origin, fmt::format("the teacher's output is {}, and the network's {}; choose a teacher of the "
                                "same classes",
                                to_string(given), to_string(wanted)));
  }
}

}  // namespace

Pass teacher(const ForwardSpec& spec, const std::shared_ptr<Logits>& logits) {
  const auto run = [spec, logits](Program& program) {
    check_teacher(program, spec, logits->at(entry_name::kTrainStep));
    logits->emplace(kTeacherLogits,
                    Graft(program, *spec.teacher).before(program.entry(entry_name::kTrainStep)));
  };
  return {.name = "teacher",
          .help = "the teacher's operations, whose logits the loss compares with",
          .run = run,
          .after = {"forward"}};
}

}  // namespace trainer

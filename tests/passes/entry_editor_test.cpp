// SPDX-License-Identifier: Apache-2.0
#include "core/passes/entry_editor.h"

#include <string>
#include "tests/catch.h"

#include "tests/passes/draft.h"

namespace trainer {
namespace {

/// y = relu(a), z = relu(y), and w = relu(y), which is the entry's output.
struct Chain {
  Draft draft;
  TensorId a = draft.input("a", {2, 2}), y = draft.relu(a), z = draft.relu(y), w = draft.relu(y);

  Chain() { draft.output("w", w); }
  Entry& entry() { return draft.program.entries[0]; }
  Node relu(TensorId x, TensorId made) {
    return {.op = entry().nodes[0].op, .inputs = {x}, .outputs = {made}, .origin = {}};
  }
};

}  // namespace

TEST_CASE("an editor knows who makes and who reads each tensor, whatever is changed") {
  Chain chain;
  const Node extra =
      chain.relu(chain.y, chain.draft.program.add(Tensor(chain.draft.program.tensor(chain.y))));
  EntryEditor nodes(chain.entry());
  CHECK(nodes.maker_of(chain.a) == EntryEditor::kNobody);
  CHECK(nodes.maker_of(chain.y) == 0);
  CHECK(nodes.readers(chain.y) == std::vector<size_t>{1, 2});
  CHECK(nodes.only_reader(chain.y) == EntryEditor::kNobody);
  CHECK(nodes.uses(chain.w) == 1);  // by the entry
  CHECK(nodes.only_reader(chain.w) == EntryEditor::kNobody);
  CHECK(nodes.exists_before(0, chain.a));
  CHECK_FALSE(nodes.exists_before(0, chain.y));
  CHECK(nodes.exists_before(1, chain.y));

  nodes.insert_before(1, extra);
  const size_t inserted = nodes.size() - 1;
  CHECK(nodes.readers(chain.y) == std::vector<size_t>{inserted, 1, 2});
  CHECK(nodes.exists_before(inserted, chain.y));
  CHECK(nodes.exists_before(1, extra.outputs[0]));
  CHECK_FALSE(nodes.exists_before(0, extra.outputs[0]));

  nodes.remove(1);
  CHECK(nodes.maker_of(chain.z) == EntryEditor::kNobody);
  nodes.set_input(2, 0, extra.outputs[0]);
  CHECK(nodes.only_reader(chain.y) == static_cast<int>(inserted));
  CHECK(nodes.only_reader(extra.outputs[0]) == 2);
  nodes.finish();
  verify(chain.draft.program);
  const std::vector<Node>& left = chain.entry().nodes;
  REQUIRE(left.size() == 3);
  CHECK(left[1].outputs == extra.outputs);
  CHECK(left[2].inputs == extra.outputs);
}

TEST_CASE("a program whose names do not find their tensors is broken") {
  Draft draft;
  draft.input("a", {1});
  draft.program.tensors[0].name = "b";
  CHECK_THROWS_WITH(verify(draft.program), "program is broken: the name b is not its tensor's alone");
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/engine/step_timeline.h"

#include <memory>

#include "core/graph/names.h"
#include "core/graph/ops/exchange.h"
#include "core/graph/ops/unary.h"
#include "tests/catch.h"

namespace trainer {
namespace {

/// A plan with an entry of such nodes, on tensors of 100 bytes.
class Stage {
 public:
  explicit Stage(std::string name = entry_name::kTrainStep) {
    plan_.placements.push_back({.bytes = 100});
    plan_.tensors.resize(1);
    plan_.entries.push_back({.name = std::move(name), .nodes = {}, .outputs = {}, .peak_by_kind = {}});
  }
  Stage& compute() { return add(std::make_shared<Unary>(elementwise::Function(elementwise::Relu{})), true); }
  Stage& start(int64_t number) { return add(std::make_shared<AllReduceStart>(number), true); }
  Stage& done(int64_t number) { return add(std::make_shared<CollectiveDone>(number, 1), true); }
  Stage& send(int64_t number, int64_t to) {
    return add(std::make_shared<ExchangeStart>(number, std::vector<Peer>{{.position = to, .number = 0}},
                                               std::vector<ExchangeStart::Received>{}),
               true);
  }
  Stage& receive(int64_t number, int64_t from) {
    return add(std::make_shared<ExchangeStart>(number, std::vector<Peer>{},
                                               std::vector<ExchangeStart::Received>{
                                                   {.from = {.position = from, .number = 0}, .spec = {}}}),
               true);
  }
  Stage& in_place() {
    return add(std::make_shared<Unary>(elementwise::Function(elementwise::Relu{})), false);
  }
  StageStep step() const { return stage_step(plan_, 1); }

 private:
  Stage& add(std::shared_ptr<const Operation> op, bool runs) {
    Node node{.op = std::move(op), .inputs = {0}, .outputs = {}, .origin = {}};
    plan_.entries[0].nodes.push_back({.node = std::move(node), .choice = {}, .runs = runs});
    return *this;
  }
  Plan plan_;
};

/// Nodes take a second, transfers as given.
std::vector<StageTime> times_of(const std::vector<StageStep>& steps, TransferTime transfer) {
  return step_timeline(
      steps, [](size_t, const PlannedEntry&, size_t) { return 1.0; },
      [&](const CollectiveStart&, double bytes) {
        CHECK(bytes == 100);
        return transfer;
      });
}

}  // namespace

TEST_CASE("a transfer runs beside computation, and is waited for where it is read") {
  Stage stage;
  stage.compute().start(0).compute().compute().done(0).compute().in_place();
  const StageTime hidden = times_of({stage.step()}, {.link = 1.5})[0];
  CHECK(hidden.seconds == Approx(4));
  CHECK(hidden.computing == Approx(4));
  CHECK(hidden.transferring == Approx(1.5));
  CHECK(hidden.waiting == 0);
  const StageTime exposed = times_of({stage.step()}, {.link = 3.5})[0];
  CHECK(exposed.seconds == Approx(5.5));
  CHECK(exposed.waiting == Approx(1.5));
  // The processor's part of a transfer delays what it computes.
  const StageTime shared = times_of({stage.step()}, {.link = 1, .processor = 0.5})[0];
  CHECK(shared.seconds == Approx(4.5));
  CHECK(shared.computing == Approx(4.5));
}

TEST_CASE("transfers follow each other on the link") {
  Stage stage;
  stage.start(0).start(1).compute().done(0).done(1);
  const StageTime time = times_of({stage.step()}, {.link = 2})[0];
  CHECK(time.seconds == Approx(4));
  CHECK(time.waiting == Approx(3));
  CHECK(time.transferring == Approx(4));
}

TEST_CASE("a stage waits for the message of another, which arrives once it is sent") {
  Stage first, second;
  first.compute().compute().send(0, 1).done(0);
  second.compute().receive(0, 0).done(0).compute();
  const std::vector<StageTime> times = times_of({first.step(), second.step()}, {.link = 0.5});
  CHECK(times[0].seconds == Approx(2.5));
  CHECK(times[1].seconds == Approx(3.5));
  CHECK(times[1].waiting == Approx(1.5));
  // The order of stages does not matter.
  Stage late, early;
  late.receive(0, 1).done(0).compute();
  early.compute().send(0, 0).compute().done(0);
  CHECK(times_of({late.step(), early.step()}, {.link = 0.5})[0].seconds == Approx(2.5));
}

TEST_CASE("stages that wait for each other are an error of the program") {
  Stage one, other;
  one.receive(0, 1).done(0).send(1, 1).done(1);
  other.receive(0, 0).done(0).send(1, 0).done(1);
  CHECK_THROWS_AS(times_of({one.step(), other.step()}, {}), std::logic_error);
}

TEST_CASE("a step runs its entries as the training loop does") {
  Plan plan;
  for (const char* name : {entry_name::kAccumulateFirst, entry_name::kAccumulateNext, entry_name::kUpdate,
                           entry_name::kEvaluate, entry_name::kAccumulateLast})
    plan.entries.push_back({.name = name, .nodes = {}, .outputs = {}, .peak_by_kind = {}});
  std::vector<std::string> names;
  for (const PlannedEntry* entry : stage_step(plan, 4).entries) names.push_back(entry->name);
  CHECK(names == std::vector<std::string>{entry_name::kAccumulateFirst, entry_name::kAccumulateNext,
                                          entry_name::kAccumulateNext, entry_name::kAccumulateLast,
                                          entry_name::kUpdate});
}

}  // namespace trainer

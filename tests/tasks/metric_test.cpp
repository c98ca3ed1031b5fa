// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/metric.h"

#include <cmath>
#include <limits>
#include <set>
#include "tests/catch.h"

#include "core/tasks/task.h"

namespace trainer {

TEST_CASE("the direction says which of two values is better, and none is better than its equal") {
  CHECK(is_better(Direction::smaller, 1, 2));
  CHECK(!is_better(Direction::smaller, 2, 1));
  CHECK(is_better(Direction::larger, 2, 1));
  CHECK(!is_better(Direction::larger, 1, 2));
  for (const Direction direction : {Direction::smaller, Direction::larger}) {
    CHECK(!is_better(direction, 1, 1));
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double strange : {std::nan(""), infinity, -infinity}) {
      CHECK(!is_better(direction, strange, 1));
      CHECK(is_better(direction, 1, strange));
      CHECK(!is_better(direction, strange, std::nan("")));
    }
  }
}

TEST_CASE("the loss is a mean that is better when smaller; metrics of averages have sums of their own") {
  const Metric loss = loss_metric();
  CHECK(loss.direction == Direction::smaller);
  CHECK(loss.value(std::vector<double>{9}, 4) == 9.0 / 4);
  const std::vector<Metric> all = with_averages({loss, {.name = "b", .sums = {"x", "y"}}});
  CHECK(names_of(all) == std::vector<std::string>{"loss", "b", "ema_loss", "ema_b"});
  CHECK(all[2].sums == std::vector<std::string>{"ema_loss"});
  CHECK(all[2].direction == Direction::smaller);
  CHECK(all[3].sums == std::vector<std::string>{"ema_x", "ema_y"});
  CHECK(find_metric(all, "ema_b") == &all[3]);
  CHECK(find_metric(all, "c") == nullptr);
}

TEST_CASE(
    "a mean over valid targets is divided by its valid targets: the loss by its weights, others by their "
    "number") {
  const Metric loss = over_valid_targets(loss_metric());
  CHECK(loss.count == "loss_weight");
  CHECK(over_valid_targets({.name = "perplexity", .sums = {"loss"}}).count == "loss_weight");
  const Metric top1 = over_valid_targets({.name = "top1", .sums = {"top1"}});
  CHECK(top1.count == "valid_targets");
  const std::vector<Metric> all = with_averages({loss, top1});
  CHECK(over_valid_targets({.name = "f", .sums = {}, .matrix = "cells"}).count.empty());
  CHECK(with_averages({{.name = "f", .sums = {}, .matrix = "cells"}})[1].matrix == "ema_cells");
  REQUIRE(all.size() == 4);
  CHECK(all[2].count == "ema_loss_weight");
  CHECK(all[3].count == "ema_valid_targets");
}

TEST_CASE("a metric's direction is known by its name, also where it is of averaged weights") {
  CHECK(direction_of("loss") == Direction::smaller);
  CHECK(direction_of("ema_loss") == Direction::smaller);
  CHECK(direction_of("top1") == Direction::larger);
  CHECK(direction_of("ema_top5") == Direction::larger);
  CHECK(!direction_of("no_loss").has_value());
  CHECK(!direction_of("").has_value());
}

TEST_CASE("every metric has a function and sums that its task puts out, and one direction in all tasks") {
  for (const auto& task : tasks()) {
    INFO(task->name());
    std::set<std::string> outputs = {"loss", sum_name::kTokens, sum_name::kBytes, sum_name::kTargetDeviation,
                                     sum_name::kTargetSquares};
    for (const MetricSum& sum : task->sums()) CHECK(outputs.insert(sum.output).second);
    for (const Metric& metric : task->metrics()) {
      INFO(metric.name);
      const bool of_matrix = metric.of_matrix != nullptr, of_scores = metric.of_scores != nullptr;
      CHECK((metric.value != nullptr) + of_matrix + of_scores == 1);
      CHECK(!metric.help.empty());
      CHECK(!metric.name.starts_with(kAveraged));
      CHECK(metric.sums.empty() == (of_matrix || of_scores));
      CHECK(metric.scores == (of_scores ? "scores" : ""));
      CHECK(metric.matrix == (of_matrix ? "confusion_cells" : ""));
      for (const std::string& sum : metric.sums) CHECK(outputs.contains(sum));
      CHECK(direction_of(metric.name) == metric.direction);
    }
  }
}

}  // namespace trainer

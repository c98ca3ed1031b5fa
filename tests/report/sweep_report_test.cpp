// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include "tests/catch.h"

#include "core/report/sweep_report.h"
#include "core/sweep/sweep_table.h"
#include "core/sweep/trial_process.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

const std::string kRate = "{log_uniform: {key: optimizer.lr, from: 0.001, to: 10}}";
const std::string kRandomRate = "method: random, metric: loss, trials: 9, parameters: [" + kRate + "]";
const std::string kHalvedRate = "halving: {first: 1ba, factor: 3}, " + kRandomRate;
const std::string kConditional = "method: random, metric: loss, trials: 9, parameters: [" + kRate +
                                 ", {choice: {key: optimizer.name, values: [sgd, adamw]}}, {uniform: {key: "
                                 "optimizer.momentum, from: 0, to: 0.9, when: {optimizer.name: sgd}}}]";

SweepPlan reported_plan(const std::string& sweep, const std::string& name = "small") {
  const std::string text = "version: 1\nrun: {name: '" + name + R"(', seed: 3}
model:
  input: [1, 8, 8]
  layers: [flatten, {linear: 16}, tanh, {linear: 5}]
data: {format: synthetic, synthetic: {train_samples: 160, val_samples: 40}}
optimizer: {name: sgd, lr: 0.05}
validation: {interval: 1ba}
training: {global_batch_size: 16, max_duration: 9ba}
sweep: {)" + sweep + "}\n";
  return {{.path = "swept.yaml", .text = text}, {}};
}

TrialRecord reported_trial(int64_t number, const std::vector<std::string>& texts,
                           const std::vector<double>& rungs, std::optional<double> end = {}) {
  TrialRecord record{.number = number, .texts = texts, .repeats = {{}}};
  RepeatRecord& repeat = record.repeats[0];
  for (const double value : rungs) repeat.rungs.push_back({std::ssize(repeat.rungs) + 1, value});
  repeat.steps = end ? 9 : 3;
  repeat.seconds = 1.25 + static_cast<double>(number);
  repeat.samples_per_s = 1234.5678, repeat.peak_bytes = 1'048'577;
  if (end) repeat.end = TrialValue{9, *end};
  return record;
}

TrialRecord failed_trial(int64_t number, const std::string& reason, const std::string& message) {
  TrialRecord record = reported_trial(number, {"0.1"}, {});
  record.failure = TrialFailure{.reason = reason, .code = 1, .message = message};
  return record;
}

size_t times_in(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

/// Takes a page apart: every tag has quoted attributes only, and elements are closed in order.
class TagChecker {
 public:
  explicit TagChecker(const std::string& html) : html_(html) {}

  void check() {
    for (at_ = html_.find('<'); at_ != std::string::npos; at_ = html_.find('<', at_)) {
      ++at_;
      if (html_[at_] == '!') continue;
      tag();
    }
    CHECK(open_.empty());
  }

 private:
  std::string word() {
    const size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(html_.at(at_))) != 0 || html_[at_] == '-') ++at_;
    return html_.substr(begin, at_ - begin);
  }
  void expect(char c) {
    INFO(html_.substr(at_ < 40 ? 0 : at_ - 40, 80));
    REQUIRE(html_.at(at_) == c);
    ++at_;
  }
  void attribute() {
    REQUIRE(!word().empty());
    expect('=');
    expect('"');
    at_ = html_.find_first_of("\"<>", at_);
    expect('"');
  }
  void tag() {
    const bool closes = html_[at_] == '/';
    if (closes) ++at_;
    const std::string name = word();
    INFO(name << " at " << at_);
    REQUIRE(!name.empty());
    for (; html_.at(at_) == ' '; attribute()) ++at_;
    const bool is_alone = html_.at(at_) == '/' || name == "meta";
    if (html_[at_] == '/') ++at_;
    expect('>');
    if (closes) {
      REQUIRE(!open_.empty());
      REQUIRE(open_.back() == name);
      open_.pop_back();
    } else if (!is_alone) {
      open_.push_back(name);
    }
  }

  const std::string& html_;
  size_t at_ = 0;
  std::vector<std::string> open_;
};

std::string checked_sweep(const SweepPlan& plan, const TrialRecords& records,
                          const std::filesystem::path& directory = "/nonexistent") {
  const std::string html = sweep_report(plan, directory, records);
  TagChecker(html).check();
  for (const char* part :
       {"<script", "<img", "http", "src=", "@import", "url(", "<link", ">nan<", "nan,", "inf,"}) {
    INFO(part);
    CHECK(html.find(part) == std::string::npos);
  }
  return html;
}

/// The rows of the last table, that of all trials.
std::vector<std::string> trial_rows(const std::string& html) {
  std::istringstream lines(html.substr(html.rfind("<tbody>")));
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("<tr")) rows.push_back(line.substr(line.find("<td")));
  return rows;
}

std::vector<int64_t> trial_order(const std::string& html) {
  std::vector<int64_t> numbers;
  for (const std::string& row : trial_rows(html))
    numbers.push_back(std::stoll(row.substr(row.find('>') + 1)));
  return numbers;
}

bool has_part(const std::string& html, const std::string& part) {
  return html.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a sweep's page has its figures, best first, and the best beside the recipe as written") {
  const SweepPlan plan = reported_plan(kHalvedRate);
  TrialRecords records;
  records[0] = reported_trial(0, {"0.05"}, {2, 1.5}, 1.25);
  records[1] = reported_trial(1, {"4"}, {9});
  records[2] = reported_trial(2, {"0.5"}, {1, 0.75}, 0.5);
  records[3] = failed_trial(3, "memory", "out of memory");
  const std::string html = checked_sweep(plan, records);
  for (const char* part :
       {"<h1>Sweep of small</h1>",
        "random, metric loss (smaller is better); 9 trials: 2 finished, 1 dropped, 1 failed, 5 open",
        "<b>0.5</b><span>best loss: trial 2</span>", "<b>1.25</b><span>loss of the recipe as written</span>",
        "<b>22.2 %</b><span>saved by halving: 21 of 27 steps taken</span>",
        "<tr class=\"best\"><td>optimizer.lr</td><td>0.05</td><td>0.5</td></tr>",
        "The best of 2 values is optimistic", "sweep.repeat",
        "aria-label=\"loss of 3 trials over their parameters\"", "aria-label=\"loss over optimizer.lr\"",
        "aria-label=\"importance of parameters\"", "100 %</text>",
        "<td>memory</td><td class=\"n\">1</td><td>trial 3: out of memory</td>"}) {
    INFO(part);
    CHECK(has_part(html, part));
  }
  // Rungs: came, went on, dropped, waiting, the worst that went on.
  CHECK(has_part(html,
                 "<td>1ba</td><td class=\"n\">3</td><td class=\"n\">2</td><td class=\"n\">1</td><td "
                 "class=\"n\">0</td><td class=\"n\">2</td>"));
  CHECK(times_in(html, "<polyline class=\"c1\" style=\"stroke-width: 4px\"") == 1);
  CHECK(times_in(html, "<polyline class=\"c0\" opacity=\"") == 1);
  CHECK(times_in(html, "<polyline class=\"c7 faint\"") == 1);
  CHECK(times_in(html.substr(html.find("<g class=\"hollow\">")), "<circle ") == 3);
  CHECK(times_in(html, "<tr class=\"best\"><td class=\"n\">2</td>") == 1);
}

TEST_CASE("all trials of a sweep are sorted by value, in both directions") {
  const auto order = [](const std::string& metric) {
    const SweepPlan plan =
        reported_plan("method: random, metric: " + metric +
                      ", halving: {first: 1ba, factor: 2}, trials: 9, parameters: [" + kRate + "]");
    const double sign = plan.maximizes() ? -1 : 1;
    TrialRecords records;
    records[0] = reported_trial(0, {"1"}, {8 * sign, 8 * sign, 8 * sign, 8 * sign}, 8 * sign);
    records[1] = reported_trial(1, {"1"}, {9 * sign});
    records[2] = failed_trial(2, "numeric", "");
    records[3] = reported_trial(3, {"1"}, {7 * sign, 9 * sign});
    records[4] = reported_trial(4, {"1"}, {5 * sign, 5 * sign, 5 * sign, 5 * sign}, 2 * sign);
    records[5] = reported_trial(5, {"1"}, {8.5 * sign});
    records[6] = reported_trial(6, {"1"}, {5 * sign, 5 * sign, 5 * sign, 5 * sign}, 3 * sign);
    return trial_order(checked_sweep(plan, records));
  };
  CHECK(order("loss") == std::vector<int64_t>{4, 6, 0, 3, 5, 1, 2});
  CHECK(order("top1") == order("loss"));
}

TEST_CASE("the numbers of a sweep's page are those of sweep.csv") {
  const SweepPlan plan = reported_plan(kHalvedRate + ", repeat: {key: run.seed, values: [1, 2]}");
  TrialRecords records;
  for (int64_t i = 0; i < 6; ++i) {
    const double value = 1.0 / static_cast<double>(i + 3);
    records[i] = reported_trial(i, {fmt::format("{}", 0.1 * value)}, {value, value / 3}, value / 7);
    records[i].repeats.push_back(records[i].repeats[0]);
    records[i].repeats[1].end->value += 0.001;
    records[i].repeats[1].joules_per_sample = 0.0123456789;
  }
  const std::vector<SweepRow> all = sweep_rows(plan, records, sweep_state(plan, records));
  const std::vector<std::string> rows = trial_rows(checked_sweep(plan, records));
  REQUIRE(rows.size() == 6);
  for (const std::string& row : rows) {
    const auto number = static_cast<size_t>(std::stoi(row.substr(row.find('>') + 1)));
    std::string csv = sweep_csv(plan, {all[number]});
    std::istringstream cells(csv.substr(csv.find('\n') + 1));
    for (std::string cell; std::getline(cells, cell, ',');) {
      while (cell.ends_with('\n') || cell.ends_with('\r')) cell.pop_back();
      INFO(row << " has " << cell);
      CHECK((cell.empty() || has_part(row, ">" + cell + "</td>")));
    }
  }
}

TEST_CASE("the deviation of repeats stands beside a value, without a warning of luck") {
  const SweepPlan plan = reported_plan(kRandomRate + ", repeat: {key: run.seed, values: [1, 2]}");
  TrialRecords records;
  for (int64_t i = 0; i < 2; ++i) {
    records[i] = reported_trial(i, {"0.05"}, {}, 1);
    records[i].repeats.push_back(records[i].repeats[0]);
    records[i].repeats[1].end->value = 2;
  }
  const std::string html = checked_sweep(plan, records);
  CHECK(has_part(html, "<b>1.5 ± 0.7071</b><span>best loss: trial 0</span>"));
  CHECK(has_part(html, "Values are means ± standard deviations of 2 trainings, which differ in run.seed."));
  CHECK(has_part(html, "<th class=\"n\">deviation</th>"));
  CHECK(has_part(html, "loss 1.5000 ± 0.7071</title>"));
  CHECK(has_part(html, "The best setting is the recipe as written."));
  CHECK(!has_part(html, "optimistic"));
}

TEST_CASE("names, values and messages of others bring nothing into a sweep's page that a browser obeys") {
  const std::string bad = "<script>alert(1)</script>\"'&";
  const SweepPlan plan =
      reported_plan(R"yaml(method: random, halving: {first: 1ba}, metric: loss, trials: 9, parameters: [)yaml"
                    R"yaml({choice: {key: run.name, values: ["<script>alert(1)", "a\"&'><b", "c"]}}])yaml",
                    "<script>x&");
  TrialRecords records;
  records[0] = reported_trial(0, {plan.section().parameters[0]->text(0)}, {1, 1}, 1);
  records[1] = reported_trial(1, {plan.section().parameters[0]->text(1)}, {0.5, 0.5}, 0.5);
  records[2] = reported_trial(2, {bad}, {5});
  records[3] = failed_trial(3, bad, "</td>" + bad + "\x1b[2J\x01\xff");
  records[3].texts = {bad, bad, bad};
  records[4] = failed_trial(4, "numeric", "");
  records[4].texts = {};
  const std::string html = checked_sweep(plan, records);
  CHECK(has_part(html, "<td>&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;</td>"));
  CHECK(has_part(html, "<h1>Sweep of &lt;script&gt;x&amp;</h1>"));
  for (const char* value : {"&lt;script&gt;alert(1)", "&amp;&#39;&gt;&lt;b"})
    CHECK(times_in(html, value) >= 3);
  CHECK(has_part(html, "[2J\uFFFD\uFFFD"));
  for (const char* byte : {"\x1b", "\xff", "\x01"}) CHECK(!has_part(html, byte));
}

TEST_CASE("a sweep without a value has a page that says so") {
  const SweepPlan plan = reported_plan(kHalvedRate);
  TrialRecords records;
  for (int64_t i = 0; i < 4; ++i) {
    const std::string html = checked_sweep(plan, records);
    CHECK(has_part(html, "No trial has finished with a value"));
    CHECK(!has_part(html, "class=\"best\""));
    CHECK(!has_part(html, "best loss"));
    CHECK(!has_part(html, "<polyline "));
    if (i > 0)
      CHECK(has_part(html, "<td>memory</td><td class=\"n\">" + std::to_string(i) + "</td><td>trial 0: no"));
    records[i] = failed_trial(i, "memory", i == 0 ? "no room" : "later");
  }
  // Dropped trials alone are drawn, and none of them is the best.
  records.clear();
  records[0] = reported_trial(0, {"0.05"}, {1});
  records[1] = reported_trial(1, {"0.5"}, {2});
  const std::string html = checked_sweep(plan, records);
  CHECK(has_part(html, "No trial has finished with a value"));
  CHECK(times_in(html, "<polyline class=\"c7 faint\"") == 1);
  CHECK(!has_part(html, "class=\"best\""));
}

TEST_CASE("one finished trial of a sweep has a page") {
  const SweepPlan plan = reported_plan(kRandomRate);
  const std::string html = checked_sweep(plan, {{0, reported_trial(0, {"0.05"}, {}, 1)}});
  CHECK(has_part(html, "<b>1</b><span>best loss: trial 0</span>"));
  CHECK(has_part(html, "The best setting is the recipe as written."));
  CHECK(has_part(html, "Fewer than two finished trials"));
  CHECK(!has_part(html, "optimistic"));
  CHECK(!has_part(html, "<h2>Rungs"));
  CHECK(!has_part(html, "<h2>Failures"));
  CHECK(!has_part(html, "saved by halving"));
}

TEST_CASE("a line passes below the axis of a parameter that its trial does not have") {
  const SweepPlan plan = reported_plan(kConditional);
  TrialRecords records;
  records[0] = reported_trial(0, {"0.05", "sgd", "0"}, {}, 2);
  records[1] = reported_trial(1, {"0.5", "adamw", ""}, {}, 1);
  records[2] = reported_trial(2, {"100", "adamw", "0.5"}, {}, 3);  // a rate beyond the range
  const std::string html = checked_sweep(plan, records);
  CHECK(times_in(html, ">none</text>") == 1);
  CHECK(times_in(html, ",328.0 ") == 2);
  CHECK(has_part(html, "<td>optimizer.momentum</td><td>0</td><td>–</td>"));
  CHECK(has_part(html, ">100</text>"));
  // Momentum has a dot for the one trial that has it.
  const std::string momentum = html.substr(html.find("aria-label=\"loss over optimizer.momentum\""));
  CHECK(times_in(momentum.substr(0, momentum.find("</svg>")), "<circle ") == 1);
}

TEST_CASE("a diverged trial does not press all others of a sweep into one line") {
  const SweepPlan plan = reported_plan(kRandomRate);
  TrialRecords records;
  for (int64_t i = 0; i < 8; ++i)
    records[i] = reported_trial(i, {"0.05"}, {}, i == 7 ? 1e30 : 1 + 0.1 * static_cast<double>(i));
  const std::string html = checked_sweep(plan, records);
  CHECK(has_part(html, "Beyond the axis of loss and drawn at its end: 1 of 8 values."));
  for (const double size : {1.7e308, 5e-324, 0.0}) {
    for (int64_t i = 0; i < 8; ++i)
      records[i].repeats[0].end->value = i % 2 == 0 ? size : plan.maximizes() ? 0 : -size;
    CHECK(checked_sweep(plan, records).size() < 50'000);
  }
}

TEST_CASE("curves of a sweep's best trials lie over each other") {
  const SweepPlan plan =
      reported_plan("method: random, metric: loss, trials: 30, parameters: [" + kRate + "]");
  const test::ScratchDirectory directory;
  TrialRecords records;
  for (int64_t i = 0; i < 30; ++i) {
    records[i] = reported_trial(i, {"0.05"}, {}, static_cast<double>(30 - i));
    const std::filesystem::path run = run_of(plan, directory.path(), i, 0);
    std::filesystem::create_directories(run);
    std::ofstream file(run / "metrics.jsonl");
    for (int step = 1; step <= 3; ++step)
      file << fmt::format(R"({{"step":{0},"updates":{0},"epoch":1,"split":"validation","loss":{1}}})"
                          "\n",
                          step, 40 - i);
  }
  const std::string html = checked_sweep(plan, records, directory.path());
  CHECK(times_in(html, "aria-label=\"loss\"") == 1);
  CHECK(has_part(html, "</svg> trial 29 (1) &#160;"));
  CHECK(html.find(" trial 29 (1) ") < html.find(" trial 6 (24) "));
  CHECK(!has_part(html, "trial 5 (25)"));
  CHECK(has_part(html, "The best 24 of 30 trials are drawn."));
  CHECK(times_in(html, "class=\"sample\"") == 24);
  CHECK(has_part(checked_sweep(plan, records), "No trial has records of the metric yet: no curves."));
}

TEST_CASE("a sweep of 1,000 trials of 8 parameters has a page of less than 2 MiB, its rows folded") {
  const std::string parameters =
      kRate +
      ", {uniform: {key: optimizer.momentum, from: 0.1, to: 0.9}}"
      ", {uniform: {key: optimizer.weight_decay, from: 0, to: 0.1}}"
      ", {choice: {key: optimizer.nesterov, values: [true, false]}}"
      ", {integer: {key: training.global_batch_size, from: 4, to: 64, logarithmic: true}}"
      ", {integer: {key: run.seed, from: 0, to: 100000}}"
      ", {uniform: {key: loss.label_smoothing, from: 0, to: 0.3}}"
      ", {choice: {key: run.name, values: [first, second, third]}}";
  const SweepPlan plan = reported_plan(
      "method: random, metric: loss, halving: {first: 1ba, factor: 3}, "
      "trials: 1100, parameters: [" +
      parameters + "]");
  TrialRecords records;
  for (int64_t i = 0; i < 1100; ++i) {
    const double value = 1 + static_cast<double>((i * 7919) % 1100) / 1100;
    records[i] = reported_trial(i, plan.setting(i, {}, {}).texts, {value, value / 3}, value / 7);
  }
  const std::string html = checked_sweep(plan, records);
  CHECK(html.size() < 2 * 1024 * 1024);
  CHECK(has_part(html, "<summary>All trials (1100)</summary>"));
  CHECK(has_part(html, "1000 of 1100 trials are listed; sweep.csv has all."));
  CHECK(has_part(html, "The best 300 of 1100 trials with a value are drawn; 800 are left out."));
  CHECK(trial_rows(html).size() == 1000);
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

/// A run that has measured these numbers of samples a second; `more` is in each line of its metrics.
void write_run(const Workspace& workspace, const std::vector<int>& speeds,
               const nlohmann::json& more = nlohmann::json::object()) {
  std::filesystem::create_directories(workspace.path() / "run");
  std::string lines;
  for (size_t i = 0; i < speeds.size(); ++i) {
    nlohmann::json line = {{"step", i + 1}, {"updates", i + 1},           {"epoch", 0.5}, {"split", "train"},
                           {"loss", 1.0},   {"samples_per_s", speeds[i]}, {"time", 1.0}};
    line.update(more);
    lines += line.dump() + "\n";
  }
  workspace.write("run/metrics.jsonl", lines);
  workspace.write("run/status.json", R"({"status": "saved", "step": 3, "steps": 9, "pid": 1, "host": "h",
                                         "updated": 1})");
}

class ShownTable {
 public:
  ShownTable() { workspace_.write("small.yaml", kSmallRecipe); }

  Outcome print(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"plan", "--config", "small.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    return run_trainer(words, workspace_.path());
  }
  nlohmann::json rows(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const Outcome outcome = print(more);
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return nlohmann::json::parse(outcome.output);
  }
  const Workspace& workspace() const { return workspace_; }

 private:
  Workspace workspace_;
};

}  // namespace

TEST_CASE("hours and cost of a whole run follow from the speed that a run has measured") {
  const ShownTable table;
  write_run(table.workspace(), {500, 400, 9000});  // median 500
  // 36000 batches of 50 samples at 500 a second take an hour, at a price of 1.25.
  const std::vector<std::string> words{"--devices",
                                       "cpu",
                                       "--measured",
                                       "run",
                                       "--price",
                                       "cpu=1.25",
                                       "training.max_duration=36000ba",
                                       "training.global_batch_size=50",
                                       "training.micro_batch_size=10"};
  const nlohmann::json row = table.rows(words)[0];
  CHECK(row["device"] == "cpu");
  CHECK(row["measured_in"] == "run");
  CHECK(row["measured_seconds"].get<double>() == Approx(0.1));
  CHECK(row["samples_per_second"] == 500);
  CHECK(row["steps"] == 36000);
  CHECK(row["hours"].get<double>() == Approx(1));
  CHECK(row["cost"].get<double>() == Approx(1.25));
  CHECK_FALSE(row.contains("kilowatt_hours_at_power_limit"));  // a processor's limit is not known
  const Outcome text = table.print(words);
  CHECK_THAT(text.output, ContainsSubstring("   100.00 ms         500        1.00           -        1.25"));
  CHECK_THAT(text.output, ContainsSubstring("cpu: measured in run."));
  CHECK_THAT(text.output, ContainsSubstring("Hours are those of 36000 training steps;"));
  CHECK_THAT(text.output, !ContainsSubstring("predicted"));
}

TEST_CASE("the speed of a processor is not predicted: the table asks for a run on it") {
  const ShownTable table;
  const Outcome text = table.print({"--devices", "cpu"});
  CHECK(text.code == 0);
  CHECK_THAT(text.output, ContainsSubstring("the speed of processors is not predicted") &&
                              ContainsSubstring("--measured RUN") && ContainsSubstring("yes"));
  const nlohmann::json row = table.rows({"--devices", "cpu", "--price", "cpu=1"})[0];
  for (const char* key : {"samples_per_second", "hours", "cost"}) CHECK_FALSE(row.contains(key));
}

TEST_CASE("the length of a run without data is known in batches, not in epochs") {
  const ShownTable table;
  write_run(table.workspace(), {100});
  const std::vector<std::string> words{"--devices",         "cpu", "--measured", "run", "data.format=idx",
                                       "data.train=nowhere"};
  const auto with = [&](const std::string& duration) {
    std::vector<std::string> all = words;
    all.push_back("training.max_duration=" + duration);
    return all;
  };
  CHECK(table.rows(with("7ba"))[0]["steps"] == 7);
  CHECK_FALSE(table.rows(with("7ep"))[0].contains("hours"));
  CHECK_THAT(table.print(with("7ep")).output,
             ContainsSubstring("Hours are not known without the data, unless"));
}

TEST_CASE("the cores that feed a device follow from the rate of one") {
  const ShownTable table;
  write_run(table.workspace(), {1000});
  const std::vector<std::string> words{"--devices", "cpu", "--measured", "run", "--decode-rate"};
  const auto cores_at = [&](const std::string& rate) {
    std::vector<std::string> all = words;
    all.push_back(rate);
    return table.rows(all)[0]["cores_to_load"];
  };
  CHECK(cores_at("400") == 3);
  CHECK(cores_at("500") == 2);
  CHECK(cores_at("1e6") == 1);
  std::vector<std::string> text = words;
  text.emplace_back("400");
  CHECK_THAT(table.print(text).output, ContainsSubstring("Cores are those that make 400 samples/s each"));
  for (const char* rate : {"0", "-1", "nan", "x", "1e20"}) {
    INFO(rate);
    std::vector<std::string> wrong = words;
    wrong.emplace_back(rate);
    CHECK(table.print(wrong).code == 64);
  }
}

TEST_CASE("a plan for a GPU names the cores that it needs, or the command that measures one") {
  if (!has_cuda()) return;
  const ShownTable table;
  table.workspace().write("digits.yaml", std::string(kSmallRecipe) + "device: {type: cuda, model: h200}\n");
  const std::vector<std::string> words{"plan", "--config", "digits.yaml"};
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run_trainer(all, table.workspace().path());
    INFO(outcome.errors);
    CHECK(outcome.code == 0);
    return outcome;
  };
  const std::vector<std::string> files{"data.format=idx", "data.train=nowhere", "data.val=null"};
  CHECK_THAT(plan(files).output, ContainsSubstring("`trainer data stats --time --config digits.yaml`"));
  CHECK_THAT(plan({}).output, !ContainsSubstring("loading"));  // made-up samples
  const Outcome slow = plan({"--decode-rate", "1"});
  CHECK_THAT(slow.output, ContainsSubstring("cores that make 1 samples/s each (--decode-rate)"));
  CHECK_THAT(slow.errors, ContainsSubstring("warning: the GPU would wait for data: "));
  const Outcome fast = plan({"--decode-rate", "1e9", "--json"});
  CHECK(fast.errors.empty());
  CHECK(nlohmann::json::parse(fast.output)["loading"]["cores"] == 1);
}

TEST_CASE("a run on other devices than the table's row is refused as its measurement") {
  const ShownTable table;
  const std::vector<std::string> words{"--devices", "cpu", "--measured", "run"};
  const auto outcome_with = [&](const nlohmann::json& more) {
    write_run(table.workspace(), {1000}, more);
    return table.print(words);
  };
  CHECK(outcome_with({{"world_size", 1}}).code == 0);
  const Outcome ranks = outcome_with({{"world_size", 4}});
  CHECK(ranks.code == 64);
  CHECK_THAT(ranks.errors, ContainsSubstring("--measured run: it ran on 4 ranks, the plan has 1; plan with "
                                             "parallelism.data=4, or measure a run with as many"));
  const Outcome gpu = outcome_with({{"host_ms", 0.1}});
  CHECK(gpu.code == 64);
  CHECK_THAT(gpu.errors, ContainsSubstring("--measured run: it ran on a GPU, so it says nothing about cpu; "
                                           "name its device, as in --measured h100=run"));
}

TEST_CASE("spaces around the names of devices and prices do not matter") {
  const ShownTable table;
  const auto rows = table.rows({"--devices", "cpu, cpu ", "--price", " cpu=1 "});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["device"] == "cpu");
}

TEST_CASE("a device that keeps the samples itself needs no cores to make them") {
  if (!has_cuda()) return;
  const ShownTable table;
  const std::vector<std::string> words{"--devices", "h200", "--decode-rate", "10"};
  CHECK(table.rows(words)[0].contains("cores_to_load"));
  std::vector<std::string> kept = words;
  kept.emplace_back("data.cache=device");
  CHECK_FALSE(table.rows(kept)[0].contains("cores_to_load"));
}

TEST_CASE("wrong prices, devices and measurements are refused by name") {
  const ShownTable table;
  const auto refused = [&](const std::vector<std::string>& words, int code) {
    const Outcome outcome = table.print(words);
    INFO(outcome.errors);
    CHECK(outcome.code == code);
    CHECK(outcome.output.empty());
    return outcome.errors;
  };
  CHECK_THAT(refused({"--devices", "cpu", "--price", "h300=2"}, 64),
             ContainsSubstring("--price: unknown device 'h300'; known are a10, a100, b200, h100, h100_pcie, "
                               "h200, l4, l40s, rtx4090, rtx5090, cpu"));
  for (const char* price : {"cpu", "cpu=", "cpu=x", "cpu=-1", "cpu=nan", "cpu=inf", "cpu=1e300", "cpu= 1"}) {
    INFO(price);
    CHECK_THAT(refused({"--devices", "cpu", "--price", price}, 64),
               ContainsSubstring("--price: expected DEVICE=PRICE, a number from 0 to 1e+09 for each hour"));
  }
  CHECK_THAT(refused({"--devices", ","}, 64), ContainsSubstring("--devices: expected names"));
  refused({"--price", "h100=1"}, 64);
  refused({"--measured", "run"}, 64);
  CHECK_THAT(refused({"--devices", "cpu", "--measured", "nowhere"}, 64),
             ContainsSubstring("nowhere: not a run's directory"));
  write_run(table.workspace(), {});
  CHECK_THAT(refused({"--devices", "cpu", "--measured", "run"}, 65),
             ContainsSubstring("run: its metrics.jsonl has no samples_per_s"));
}

TEST_CASE("a measured run of another network is named") {
  const ShownTable table;
  write_run(table.workspace(), {100});
  table.workspace().write("run/recipe.yaml", "training: {precision: amp_bf16}\n");
  const Outcome outcome = table.print({"--devices", "cpu", "--measured", "run"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.errors, ContainsSubstring("run was trained with another"));
}

TEST_CASE("a table of GPUs: energy at the power limit, cost of all ranks, the micro-batch that fits") {
  if (!has_cuda()) return;
  const ShownTable table;
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"plan", "--config", kConfigs + "resnet50_imagenet.yaml", "--json", "--devices", "l4,h100",
                 "--price", "h100=2.5", "--price", "l4=0.5,a100=9", "training.max_duration=1000ba",
                 "data.format=synthetic", "training.precision=amp_bf16"});
    const Outcome outcome = run_trainer(more, table.workspace().path());
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return nlohmann::json::parse(outcome.output);
  };
  const nlohmann::json rows = plan({"parallelism.data=2", "training.micro_batch_size=128"});
  REQUIRE(rows.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const nlohmann::json& row = rows[i];
    const double hours = 1000 * row["predicted_seconds"].get<double>() / 3600;
    CHECK(row["devices"] == 2);
    CHECK(row["hours"].get<double>() == Approx(hours));
    CHECK(row["kilowatt_hours_at_power_limit"].get<double>() ==
          Approx(hours * 2 * (i == 0 ? 72 : 700) / 1000));
    CHECK(row["cost"].get<double>() == Approx(hours * 2 * (i == 0 ? 0.5 : 2.5)));
    CHECK(row["fits"] == true);
  }
  CHECK(rows[0]["hours"] > rows[1]["hours"]);
  const nlohmann::json tight = plan({"training.micro_batch_size=256", "device.memory=4GiB"})[0];
  CHECK(tight["wanted_micro_batch_size"] == 256);
  CHECK(tight["micro_batch_size"] < 256);
  CHECK(tight["fits"] == true);
  CHECK(tight["peak_bytes"] <= tight["available_bytes"]);
  const nlohmann::json none = plan({"training.micro_batch_size=2", "device.memory=64MiB"})[0];
  CHECK(none["fits"] == false);
  CHECK_FALSE(none.contains("hours"));
}

}  // namespace trainer

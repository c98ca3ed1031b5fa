// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/report/run_report.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {
namespace {

class Run {
 public:
  explicit Run(const std::string& name) : path_(directory_.path() / name) {
    std::filesystem::create_directory(path_);
  }

  Run& write(const std::string& name, const std::string& text) {
    std::ofstream(path_ / name) << text;
    return *this;
  }
  std::string report(const Settings& settings = {}, const std::vector<ChangedSetting>& changed = {}) const {
    return run_report(reported(settings, changed));
  }
  ReportedRun reported(const Settings& settings = {}, const std::vector<ChangedSetting>& changed = {}) const {
    return {look_at_run(path_).value(), settings, changed};
  }

 private:
  test::ScratchDirectory directory_;
  std::filesystem::path path_;
};

const std::string kMetrics =
    R"({"step":10,"updates":10,"epoch":1,"split":"train","loss":2.5,"lr":0.1,"samples_per_s":100,"data_wait_ms":1,"forward_ms":2,"backward_ms":3,"update_ms":4,"memory_bytes":1048576})"
    "\n"
    R"({"step":10,"updates":10,"epoch":1,"split":"validation","loss":2.25,"top1":0.5})"
    "\n"
    R"({"step":20,"updates":19,"epoch":2,"split":"train","loss":null,"lr":0.05})"
    "\n"
    R"({"step":20,"updates":19,"epoch":2,"split":"guard","loss":null,"event":"skip","reason":"loss","in_a_row":1})"
    "\n"
    R"({"step":20,"updates":19,"epoch":2,"split":"validation","loss":2.125,"top1":0.625})"
    "\n";

size_t occurrences(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

/// Every element that is opened is closed, in order.
void check_nesting(const std::string& html) {
  std::vector<std::string> open;
  const std::set<std::string> empty = {"meta", "br"};
  const std::regex tag("<(/?)([a-z0-9]+)([^>]*)>");
  for (auto at = std::sregex_iterator(html.begin(), html.end(), tag); at != std::sregex_iterator(); ++at) {
    const std::string name = (*at)[2], rest = (*at)[3];
    if (empty.contains(name) || rest.ends_with("/")) continue;
    if ((*at)[1].length() == 0) {
      open.push_back(name);
    } else {
      REQUIRE(!open.empty());
      REQUIRE(open.back() == name);
      open.pop_back();
    }
  }
  CHECK(open.empty());
}

}  // namespace

TEST_CASE("a report has the curves, the numbers, the decisions and the recipe of a run") {
  Run run("a");
  const std::string html = run.write("metrics.jsonl", kMetrics)
                               .write("recipe.yaml", "version: 1\noptimizer: {lr: 0.1}\n")
                               .write("summary.json", R"({"finished": true})")
                               .report();
  for (const char* title : {"loss", "top1", "learning rate", "throughput", "wait for data", "memory"})
    CHECK(occurrences(html, std::string("aria-label=\"") + title + "\"") == 1);
  CHECK(html.find("<td class=\"n\">0.625</td>") != std::string::npos);
  CHECK(html.find("<td class=\"n\">2.125</td>") != std::string::npos);
  CHECK(html.find("<td>skip</td><td>loss</td><td class=\"n\">1</td>") != std::string::npos);
  CHECK(html.find("optimizer: {lr: 0.1}") != std::string::npos);
  CHECK(html.find("loss: 1 of 4 values are not finite and are not drawn.") != std::string::npos);
  check_nesting(html);
}

TEST_CASE("a report draws what the device told, and nothing that it did not") {
  std::string lines;
  for (int step = 1; step <= 9; ++step)
    lines += fmt::format(
        R"({{"step":{0},"updates":{0},"epoch":1,"split":"train","loss":1,"device_utilization":0.5,"device_power_w":{0}00}})"
        "\n",
        step);
  const std::string html = Run("a").write("metrics.jsonl", lines).report();
  CHECK(occurrences(html, "aria-label=\"utilisation\"") == 1);
  CHECK(occurrences(html, "aria-label=\"power\"") == 1);
  CHECK(occurrences(html, "aria-label=\"temperature\"") == 0);
  check_nesting(html);
}

TEST_CASE("a report of very many metrics takes time linear in their number, and draws the first ones") {
  // Searching for each among all others would take half an hour.
  constexpr int kMetricsOfRecord = 100'000;
  std::string line = R"({"step":10,"updates":10,"epoch":1,"split":"validation","loss":2.25)";
  for (int i = 0; i < kMetricsOfRecord; ++i) line += fmt::format(",\"m{}\":{}", i, i % 7);
  const std::string html = Run("a").write("metrics.jsonl", line + "}\n").report();
  CHECK(occurrences(html, "<circle ") == 41);
  CHECK(html.find("40 of 100000 metrics are drawn; metrics.jsonl has all.") != std::string::npos);
  CHECK(html.find("40 of 100003 columns are shown.") != std::string::npos);
  CHECK(html.size() < 200'000);
}

TEST_CASE("the figures on top say how a run went, and a failed one's error stands in a box") {
  const Settings settings = {{"run.name", "<mlp>"},
                             {"data.format", "image_folder"},
                             {"data.train", "/data/cats/train"},
                             {"loss.name", "cross_entropy"},
                             {"model.layers[0].linear.out_features", "100"},
                             {"model.layers[12].linear.out_features", "7"}};
  Run run("a");
  run.write("metrics.jsonl", kMetrics)
      .write("summary.json",
             R"({"finished":true,"training":{"seconds":125},"memory":{"peak_bytes":40684748}})");
  const std::string html = run.report(settings, {{"optimizer.lr", "0.5<", "0.1"}});
  for (const char* part :
       {"<h1>&lt;mlp&gt;</h1>", "<b>62.5 %</b><span>best top1, at step 20 (epoch 2)</span>", "<b>2:05</b>",
        "<b>100/s</b>", "<b>7 classes</b><span>data cats/train (image_folder)</span>", "<b>38.8 MiB</b>",
        "title=\"default: 0.1\">optimizer.lr <b>0.5&lt;</b>"}) {
    INFO(part);
    CHECK(html.find(part) != std::string::npos);
  }
  CHECK(html.find("class=\"error\"") == std::string::npos);
  run.write("status.json",
            R"({"status":"failed","step":20,"steps":40,"pid":1,"host":"h","updated":1,"exit_code":70,)"
            R"("message":"step 20: the loss is NaN <b>"})");
  const std::string failed = run.report();
  CHECK(failed.find("<b>failed with exit code 70</b><pre>step 20: the loss is NaN &lt;b&gt;</pre>") !=
        std::string::npos);
  check_nesting(failed);
}

TEST_CASE("resumes, drops of the learning rate, an early stop and the best step are lines in the curves") {
  std::string metrics;
  for (int i = 1; i <= 12; ++i)
    metrics +=
        fmt::format(R"({{"step":{},"updates":1,"epoch":{},"split":"train","loss":1,"lr":{},"time":{}}})"
                    "\n",
                    i * 10, i * 0.5, i <= 6 ? 0.1 : 0.01, i <= 4 ? 100 + i : 9000 + i);
  Run run("a");
  const std::string html =
      run.write("metrics.jsonl",
                metrics + R"({"step":50,"updates":1,"epoch":2.5,"split":"validation","loss":2,"top1":0.5})"
                          "\n")
          .write("log.txt",
                 "2026-01-01T00:00:00Z resuming after step 40, from checkpoints/step-00000040\n"
                 "2026-01-01T00:00:00Z warning: resuming after step 30\nresuming after step 20\n")
          .write("summary.json", R"({"finished":true,"steps":120,"early_stop":{"stopped":true}})")
          .report();
  for (const char* name : {"resumed after step 40", "learning rate drops by step 70",
                           "early stop at step 120", "best top1 at step 50"}) {
    INFO(name);
    CHECK(occurrences(html, std::string("<title>") + name + "</title>") == 3);  // loss, top1, learning rate
  }
  CHECK(occurrences(html, "class=\"mark resume\"") == 4);
  CHECK(html.find("<b>10 s</b><span>training</span>") != std::string::npos);  // without the pause
}

TEST_CASE("a constant, a rising and a steadily falling learning rate have no drop") {
  for (const char* rates : {"0.1 0.1 0.1 0.1", "0.1 0.1 0.2 0.2", "0.5 0.4 0.3 0.2"}) {
    std::string metrics;
    std::istringstream all(rates);
    int step = 0;
    for (std::string rate; all >> rate;)
      metrics += fmt::format(R"({{"step":{},"updates":1,"epoch":1,"split":"train","loss":1,"lr":{}}})"
                             "\n",
                             ++step, rate);
    CHECK(Run("a").write("metrics.jsonl", metrics).report().find("mark drop") == std::string::npos);
  }
}

TEST_CASE("long names are cut in the title and upright above a matrix; a quoted one loses its quotes") {
  Run run("a");
  run.write("identity.json", "{}")
      .write("confusion.json", R"({"confusion":{"classes":["trousers","b"],"matrix":[[3,1],[0,5]]}})");
  CHECK(run.report({{"run.name", "\"5\""}}).find("<h1>5</h1>") != std::string::npos);
  CHECK(run.report({{"run.name", std::string(500, 'n')}}).find("<h1>" + std::string(100, 'n') + "…</h1>") !=
        std::string::npos);
  CHECK(occurrences(run.report(), "<th class=\"name above\"") == 2);
}

TEST_CASE("a run of 100,000 steps and a few hundred thousand records has a report of less than 1 MB") {
  std::string metrics;
  for (int i = 1; i <= 100'000; ++i) {
    metrics += fmt::format(
        R"({{"step":{0},"updates":1,"epoch":1,"split":"train","loss":{1},"lr":0.1,"grad_norm":{1},"samples_per_s":{1},"memory_bytes":{0}}})"
        "\n",
        i, 1.0 / i);
    if (i % 2 == 0)
      metrics += fmt::format(R"({{"step":{},"updates":1,"epoch":1,"split":"validation","loss":1,"top1":0.5}})"
                             "\n",
                             i);
  }
  const std::string html = Run("a").write("metrics.jsonl", metrics).report();
  CHECK(html.size() < 1'000'000);
  CHECK(html.find("Training (100000)") != std::string::npos);
}

TEST_CASE("one record, none, and none of validation make a page") {
  const std::string one = R"({"step":1,"updates":1,"epoch":0,"split":"train","loss":1})"
                          "\n";
  const std::string nothing = R"({"step":1,"updates":1,"epoch":0,"split":"train","loss":null})"
                              "\n";
  for (const std::string& metrics : {one, nothing, std::string(), one + "\n\xff\xfe\n"}) {
    const std::string html = Run("a").write("metrics.jsonl", metrics).report();
    check_nesting(html);
    CHECK(html.find("nan,") == std::string::npos);
  }
}

TEST_CASE("a table keeps the columns of all its records and highlights the best one") {
  const std::string html =
      Run("a")
          .write("metrics.jsonl",
                 R"({"step":1,"updates":1,"epoch":1,"split":"validation","loss":1,"top1":0.75,"top5":0.875})"
                 "\n"
                 R"({"step":2,"updates":2,"epoch":2,"split":"validation","loss":1,"top1":0.5})"
                 "\n")
          .report();
  CHECK(html.find("<th class=\"n\">top5</th>") != std::string::npos);
  CHECK(html.find("<tr class=\"best\"><td class=\"n\">1</td>") != std::string::npos);
}

TEST_CASE("names and files of others bring nothing into a report that a browser obeys") {
  const std::string bad = "<script>alert(1)</script>\"'&";
  Run run("<img src=x onerror=alert(1)>");
  const std::string html =
      run.write("metrics.jsonl",
                R"({"step":1,"updates":1,"epoch":1,"split":"validation","loss":1,"<b onclick='x'>":1})"
                "\n")
          .write("recipe.yaml", bad)
          .write("summary.json", bad)
          .write("status.json",
                 R"({"status":"failed","step":1,"steps":2,"pid":1,"host":"h","updated":1,"exit_code":70,)"
                 R"("message":"</style><script>x</script>"})")
          .write("confusion.json",
                 R"({"confusion":{"classes":["</table><script>","b"],"matrix":[[1,2],[3,4]]}})")
          .report();
  for (const char* part :
       {"<script", "<img", "onclick='", "onerror=alert(1)>", "http", "src=\"", "@import", "url(", "<link"}) {
    INFO(part);
    CHECK(html.find(part) == std::string::npos);
  }
  CHECK(html.find("&lt;/table&gt;&lt;script&gt;") != std::string::npos);
  check_nesting(html);
}

TEST_CASE("what a report cannot show is named in it") {
  Run run("a");
  const std::string without = run.write("identity.json", "{}").report();
  CHECK(without.find("metrics.jsonl has no records yet: no curves.") != std::string::npos);
  CHECK(without.find("recipe.yaml is not there") != std::string::npos);
  check_nesting(without);
  const std::string damaged = run.write("metrics.jsonl", "not a record\n" + kMetrics + "{}\n{\"step\":3")
                                  .write("confusion.json", "[1, 2]")
                                  .report();
  CHECK(damaged.find("2 of its lines hold no record and are left out: 1, 7") != std::string::npos);
  CHECK(damaged.find("confusion.json holds no matrix and is left out.") != std::string::npos);
}

TEST_CASE("a long run's report has the first and the last numbers, and says that it leaves some out") {
  Run run("a");
  std::string metrics;
  for (int i = 1; i <= 5000; ++i)
    metrics += R"({"step":)" + std::to_string(i) + R"(,"updates":1,"epoch":1,"split":"train","loss":)" +
               std::to_string(i) + ".5}\n";
  const std::string html = run.write("metrics.jsonl", metrics).report();
  CHECK(html.find("100 of 5000 records, evenly chosen; metrics.jsonl has all.") != std::string::npos);
  CHECK(html.find("<td class=\"n\">1.5</td>") != std::string::npos);
  CHECK(html.find("<td class=\"n\">5000.5</td>") != std::string::npos);
  CHECK(html.size() < 100000);
}

TEST_CASE("a confusion matrix has a cell for each pair, darker where more of a label's samples are") {
  Run run("a");
  const std::string html =
      run.write("identity.json", "{}")
          .write("confusion.json", R"({"confusion":{"classes":["cat","dog"],"matrix":[[3,1],[0,5]]}})")
          .report();
  CHECK(html.find(">cat</th><td style=\"background: rgba(var(--cell), 0.750); color: var(--page)\">3</td>") !=
        std::string::npos);
  CHECK(html.find(">dog</th><td style=\"background: rgba(var(--cell), 0.000)\">0</td>") != std::string::npos);
  CHECK(html.find("<td>75.0 %</td></tr>") != std::string::npos);
  CHECK(html.find(">predicted</th>") != std::string::npos);
  CHECK(html.find("<td>cat</td><td>dog</td><td class=\"n\">1</td><td class=\"n\">25.0 %</td>") !=
        std::string::npos);
  check_nesting(html);
}

TEST_CASE("thousands of classes are listed by their most frequent mistakes and lowest recalls") {
  constexpr int kClasses = 1000;
  std::string matrix;
  for (int i = 0; i < kClasses; ++i) {
    std::string row;
    for (int j = 0; j < kClasses; ++j)
      row += (j == 0 ? "" : ",") + std::to_string(i == j ? 10 : j == i + 1 ? i % 20 : 0);
    matrix += (i == 0 ? "[" : ",[") + row + "]";
  }
  const std::string html = Run("a")
                               .write("identity.json", "{}")
                               .write("confusion.json", R"({"confusion":{"matrix":[)" + matrix + "]}}")
                               .report();
  CHECK(html.find("1000 classes are too many to draw") != std::string::npos);
  CHECK(html.find("<td class=\"n\">19</td><td class=\"n\">20</td><td class=\"n\">19</td>") !=
        std::string::npos);
  CHECK(html.find("Lowest recall") != std::string::npos);
  CHECK(html.size() < 20'000);
}

TEST_CASE("matrices of sets have precision and recall of each class; damaged ones do no harm") {
  Run run("a");
  run.write("identity.json", "{}");
  const std::string html =
      run.write("confusion.json", R"({"confusion":{"matrix":[[[5,1],[2,3]],[[0,0],[0,0]]]}})").report();
  CHECK(html.find("<td class=\"n\">75.0 %</td><td class=\"n\">60.0 %</td>") != std::string::npos);
  for (const char* matrix :
       {"[[1],[2,3,4]]", "[1,2]", "[[1,\"x\"],[null,{}]]", "[]", "[[[1]],3]", "{}", "[[]]"}) {
    INFO(matrix);
    check_nesting(
        run.write("confusion.json", fmt::format(R"({{"confusion":{{"matrix":{}}}}})", matrix)).report());
  }
}

TEST_CASE("several runs are one page: results best first, keys that differ, curves over each other") {
  const auto validation = [](double top1) {
    return fmt::format(R"({{"step":10,"updates":10,"epoch":1,"split":"validation","loss":2,"top1":{}}})"
                       "\n",
                       top1);
  };
  Run slow("slow"), fast("fast"), empty("<empty>");
  slow.write("metrics.jsonl", kMetrics);
  fast.write("metrics.jsonl", validation(0.5) + validation(0.875));
  empty.write("identity.json", "{}");
  const auto page = [&](const std::vector<ReportedRun>& runs) {
    const std::string html = runs_report(runs);
    check_nesting(html);
    return html;
  };
  const std::string html =
      page({slow.reported({{"optimizer.lr", "0.1"}, {"data.augment[0]", "flip"}}),
            fast.reported({{"optimizer.lr", "0.3"}}, {{"optimizer.lr", "0.3", "0.1"}}), empty.reported()});
  CHECK(html.find("<h1>3 runs</h1>") != std::string::npos);
  CHECK(html.find("They differ in optimizer.lr, data.augment") != std::string::npos);
  CHECK(html.find("<b>87.5 %</b>") != std::string::npos);
  const size_t best = html.find("<tr class=\"best\">"), second = html.find("62.5 %");
  REQUIRE(best != std::string::npos);
  CHECK(html.find("87.5 %", best) < second);
  CHECK(html.find("&lt;empty&gt;") != std::string::npos);
  CHECK(html.find("aria-label=\"top1\"") != std::string::npos);
  CHECK(html.find("They differ in") > html.find("3 runs"));
  CHECK(page({empty.reported(), empty.reported()}).find("Their recipes do not differ.") != std::string::npos);
  std::vector<ReportedRun> many(600, slow.reported());
  const std::string large = page(many);
  CHECK(large.find("The best 24 of 600 runs are drawn.") != std::string::npos);
  CHECK(large.size() < 500'000);
}

}  // namespace trainer

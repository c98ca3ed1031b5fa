// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <regex>
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
  std::string report() const { return run_report(look_at_run(path_).value()); }

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
  const std::regex tag("<(/?)([a-z0-9]+)([^>]*)>");
  for (auto at = std::sregex_iterator(html.begin(), html.end(), tag); at != std::sregex_iterator(); ++at) {
    const std::string name = (*at)[2], rest = (*at)[3];
    if (name == "meta" || rest.ends_with("/")) continue;
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

TEST_CASE("a report of very many metrics takes time linear in their number") {
  // Searching for each among all others would take half an hour.
  constexpr int kMetricsOfRecord = 100'000;
  std::string line = R"({"step":10,"updates":10,"epoch":1,"split":"validation","loss":2.25)";
  for (int i = 0; i < kMetricsOfRecord; ++i) line += fmt::format(",\"m{}\":{}", i, i % 7);
  const std::string html = Run("a").write("metrics.jsonl", line + "}\n").report();
  CHECK(occurrences(html, "<circle ") == kMetricsOfRecord + 1);
  CHECK(html.find("aria-label=\"m99999\"") != std::string::npos);
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
  CHECK(html.find("<tr><th>cat</th><td style=\"background: rgba(0, 96, 168, 0.750); color: #fff\">3</td>") !=
        std::string::npos);
  CHECK(
      html.find("<tr><th>dog</th><td style=\"background: rgba(0, 96, 168, 0.000); color: #1a1a1a\">0</td>") !=
      std::string::npos);
}

}  // namespace trainer

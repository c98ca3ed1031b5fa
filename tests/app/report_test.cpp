// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

/// A run of two epochs in `run`; the page has to show its name.
void train(const Workspace& workspace) {
  workspace.write("small.yaml", kSmallRecipe);
  REQUIRE(run_trainer({"small.yaml", "run.output_dir=run", "training.max_duration=20ba"}, workspace.path())
              .code == 0);
}

/// Names, sizes and times of all files.
std::string files_of(const Workspace& workspace) {
  return run_shell("find run -printf '%p %s %T@\\n' | sort", workspace.path()).output;
}

}  // namespace

TEST_CASE("report writes one page about a run, and a browser draws it") {
  const Workspace workspace;
  train(workspace);
  const Outcome written = run_trainer({"report", "run"}, workspace.path());
  REQUIRE(written.code == 0);
  CHECK(written.output == "wrote run/report.html\n");
  const std::string page = workspace.read("run/report.html");
  CHECK(page.starts_with("<!DOCTYPE html>\n"));
  CHECK(page.ends_with("</body></html>\n"));
  CHECK(page.find("aria-label=\"top1\"") != std::string::npos);
  const Outcome elsewhere = run_trainer({"report", "run", "--output", "page.html"}, workspace.path());
  CHECK(elsewhere.code == 0);
  CHECK(workspace.read("page.html") == page);
  CHECK(run_trainer({"report", "run", "-o", "/dev/stdout"}, workspace.path()).output == page);

  const std::string browser = "$(command -v chromium || command -v google-chrome)";
  if (run_shell("test -n \"" + browser + "\"", workspace.path()).code != 0) {
    WARN("no Chromium is installed: what needs it is left out");
    return;
  }
  const Outcome drawn = run_shell("HOME=$PWD timeout 120 " + browser +
                                      " --headless --no-sandbox --disable-gpu --window-size=900,1600 "
                                      "--screenshot=page.png file://$PWD/page.html",
                                  workspace.path());
  INFO(drawn.errors);
  REQUIRE(drawn.code == 0);
  const std::string image = workspace.read("page.png");
  CHECK(image.substr(1, 3) == "PNG");
  CHECK(image.size() > 30000);  // an empty page has 5000 bytes
}

TEST_CASE("report of a directory of runs, or of several, draws them over each other") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  for (const std::string rate : {"0.1", "0.02"})
    REQUIRE(
        run_trainer({"small.yaml", "run.output_dir=runs/" + rate, "optimizer.lr=" + rate}, workspace.path())
            .code == 0);
  CHECK(run_trainer({"report", "runs"}, workspace.path()).output == "wrote runs/report.html\n");
  const std::string page = workspace.read("runs/report.html");
  CHECK(page.find("<h1>2 runs</h1>") != std::string::npos);
  CHECK(page.find("They differ in optimizer.lr<") != std::string::npos);
  CHECK(page.find("aria-label=\"top5\"") != std::string::npos);
  CHECK(run_trainer({"report", "runs/0.1", "runs/0.02"}, workspace.path()).output == "wrote report.html\n");
  CHECK(workspace.read("report.html").find("<h1>2 runs</h1>") != std::string::npos);
  // One run of a directory is reported like the run itself.
  CHECK(run_trainer({"report", "runs/0.1", "-o", "one.html"}, workspace.path()).code == 0);
  CHECK(workspace.read("one.html").find("optimizer.lr <b>0.1</b>") == std::string::npos);  // its default
  CHECK(workspace.read("one.html").find("optimizer.momentum <b>0.9</b>") != std::string::npos);
  workspace.write("empty/file", "");
  CHECK(run_trainer({"report", "runs", "empty"}, workspace.path()).code == 64);
}

TEST_CASE("report and watch of what is no run, or cannot be written") {
  const Workspace workspace;
  for (const char* command : {"report", "watch"}) {
    const Outcome absent = run_trainer({command, "run"}, workspace.path());
    CHECK(absent.code == 64);
    CHECK(absent.errors == "trainer: error: run: not a run's directory; `trainer runs` lists them\n");
  }
  workspace.write("run/identity.json", "{}");
  CHECK(run_trainer({"report", "run", "-o", "absent/page.html"}, workspace.path()).code == 74);
  CHECK(run_trainer({"report", "run", "-o", "run"}, workspace.path()).code == 64);
  CHECK(run_shell("\"$TRAINER\" report run -o /dev/full", workspace.path()).code == 74);
}

TEST_CASE("watch shows the device as the last line of training has it, and a slow run's rate") {
  const Workspace workspace;
  workspace.write("run/status.json", R"({"status": "saved", "step": 2, "steps": 9, "pid": 1, "host": "h",
                                         "updated": 1})");
  const std::string line =
      R"({"step":2,"updates":2,"epoch":1,"split":"train","loss":1.5,"samples_per_s":0.194,)"
      R"("flops_share":0.43,"device_utilization":0.97,"device_temperature_c":61,"device_power_w":null,)"
      R"("device_clock_mhz":1980,"time_computing":0.6,"time_data":0.4,"time":1})";
  workspace.write("run/metrics.jsonl", line + "\n");
  const Outcome once = run_trainer({"watch", "run"}, workspace.path());
  CHECK(once.code == 0);
  INFO(once.output);
  CHECK(once.output.find("\n0.19 samples/s, ") != std::string::npos);
  CHECK(once.output.find("\ndevice: used 97 %, 43 % of its arithmetic rate, 61 °C, 1.98 GHz\n") !=
        std::string::npos);
  CHECK(once.output.find("\ntime: 60 % computing, 40 % waiting for data\n") != std::string::npos);
}

TEST_CASE(
    "watch only reads; it prints once where nobody looks, and redraws a terminal until the run has ended") {
  const Workspace workspace;
  train(workspace);
  const std::string before = files_of(workspace);
  const Outcome once = run_trainer({"watch", "run"}, workspace.path());
  CHECK(once.code == 0);
  CHECK(once.output.find("run: finished, step 20/20 (100 %)") == 0);
  CHECK(once.output.find("\ntime: ") != std::string::npos);
  CHECK(once.output.find(" % computing") != std::string::npos);
  CHECK(once.output.find("\ntraining loss, and o: validation loss\n") != std::string::npos);
  CHECK(once.output.find("\nvalidation top1\n") != std::string::npos);
  CHECK(once.output.find("\nstep 20 epoch 2: validation loss ") != std::string::npos);
  CHECK(once.output.find('\x1b') == std::string::npos);
  const Outcome terminal =
      run_shell("TERM=xterm script -qec '\"$TRAINER\" watch run' /dev/null </dev/null", workspace.path());
  CHECK(terminal.code == 0);
  CHECK(terminal.output.find("\x1b[Hrun: finished") != std::string::npos);
  CHECK(terminal.output.ends_with("\x1b[J"));
  CHECK(files_of(workspace) == before);
}

}  // namespace trainer

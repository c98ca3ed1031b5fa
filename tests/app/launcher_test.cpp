// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <map>
#include <tuple>
#include "tests/catch.h"

#include "tests/app/command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

constexpr const char *kOpenMpi = "mpirun (Open MPI) 4.1.4", *kHydra = "HYDRA build details:";

/// Writes a launcher, which answers --version with this text and else runs the script.
void write_launcher(const Workspace& workspace, const std::string& version, const std::string& script) {
  workspace.write("bin/mpirun",
                  "#!/bin/sh\n[ \"$1\" != --version ] || { echo '" + version + "'; exit; }\n" + script);
  fs::permissions(workspace.path() / "bin/mpirun", fs::perms::owner_all);
}

/// Two ranks, started by this script in place of mpirun.
Outcome run_with_mpirun(const std::string& script, const Workspace& workspace, const std::string& words = "",
                        const std::string& version = kOpenMpi) {
  workspace.write("r.yaml", kSmallRecipe);
  write_launcher(workspace, version, script);
  return run_shell(
      "PATH=\"$PWD/bin:$PATH\" timeout 60 \"$TRAINER\" --config r.yaml device.type=cpu parallelism.data=2 "
      "parallelism.timeout=2s " +
          words,
      workspace.path());
}

}  // namespace

TEST_CASE("an mpirun that outlives its ranks, or lets one outlive another, is killed") {
  const auto [script, told] = GENERATE(
      std::pair{"sleep 0.3 &\nwait\nexec sleep 100\n",
                "the 2 ranks have ended, but mpirun has not, and is killed"},
      std::pair{"sleep 2 &\nsleep 100 &\necho $! >left.txt\nwait\n",
                "some of the 2 ranks have ended, but mpirun has not ended the others, and all are killed"});
  const Workspace workspace;
  const auto began = std::chrono::steady_clock::now();
  const Outcome ends = run_with_mpirun(script, workspace);
  CHECK(ends.code == 76);
  CHECK_THAT(ends.errors, ContainsSubstring(told));
  // A stopped rank that mpirun does not kill ends within 10 s after the others, which miss it after the
  // deadline.
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(16));
  // An ended process that has not been waited for counts as ended.
  CHECK(run_shell("test ! -e left.txt || ! ps -o stat= -p $(cat left.txt) | grep -v Z", workspace.path())
            .code == 0);
}

TEST_CASE("ranks whose mpirun does not end have told their exit codes") {
  const auto [script, code] =
      GENERATE(std::pair{"echo 0 >$TRAINER_RANKS_ENDED/1; echo 0 >$TRAINER_RANKS_ENDED/2", 0},
               std::pair{"echo 76 >$TRAINER_RANKS_ENDED/1; echo 65 >$TRAINER_RANKS_ENDED/2", 65},
               std::pair{"echo 70 >$TRAINER_RANKS_ENDED/7", 70},  // mpirun has killed the other
               std::pair{"echo 0 >$TRAINER_RANKS_ENDED/1", 76});
  const Workspace workspace;
  const Outcome ends =
      run_with_mpirun(script + std::string("\nsleep 0.3 &\nwait\nexec sleep 100\n"), workspace);
  CHECK(ends.code == code);
  CHECK((ends.errors.find("but mpirun has not, and is killed") != std::string::npos) == (code == 76));
}

TEST_CASE("an mpirun that fails before the ranks have met is 69, and its own words are there") {
  if (!has_mpi()) return;
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  // Each as Open MPI 4 and 5 name it: a component of mpirun's, one of its ranks', a file of hosts. mpirun 4.1
  // may lose messages of its ranks, and then logs that it does.
  const auto [variables, named, or_named] =
      GENERATE(std::tuple{"OMPI_MCA_ess=nonsense PRTE_MCA_ess=nonsense", "nonsense", "nonsense"},
               std::tuple{"OMPI_MCA_btl=nonsense", "MPI_Init", "ORTE_ERROR_LOG"},
               std::tuple{"OMPI_MCA_orte_default_hostfile=/nowhere/hosts "
                          "PRTE_MCA_prte_default_hostfile=/nowhere/hosts",
                          "/nowhere/hosts", "/nowhere/hosts"});
  const Outcome ends =
      run_ranks(std::string(variables) + " \"$TRAINER\" --config r.yaml device.type=cpu parallelism.data=2",
                workspace.path());
  INFO(ends.errors);
  CHECK(ends.code == 69);
  CHECK_THAT(ends.errors, ContainsSubstring(named) || ContainsSubstring(or_named));
  CHECK_THAT(ends.errors, ContainsSubstring("mpirun ended with exit code ") &&
                              ContainsSubstring("before the 2 ranks had met; correct what is named above"));
}

TEST_CASE("what an mpirun has ended with is said unless the ranks have said it") {
  const std::string row = std::string(74, '-') + "\n";
  const auto frame = [&](const std::string& text) { return row + text + "\n" + row; };
  const std::string one_failed =
      frame("Primary job  terminated normally, but 1 process returned\na non-zero exit code.");
  const std::string one_killed =
      frame("mpirun noticed that process rank 1 with PID 0 on node a exited on\nsignal 9 (Killed).");
  const auto print = [](const std::string& text) { return "cat >&2 <<'TEXT'\n" + text + "TEXT\n"; };
  const Workspace workspace;
  const auto run = [&](const std::string& script) {
    const Outcome ends = run_with_mpirun(script, workspace);
    INFO(ends.errors);
    return ends;
  };
  const Outcome of_mpich = run("echo 'unrecognized argument oversubscribe' >&2; exit 255\n");
  CHECK(of_mpich.code == 69);
  CHECK_THAT(of_mpich.errors, ContainsSubstring("unrecognized argument oversubscribe\n") &&
                                  ContainsSubstring("bin/mpirun ended with exit code 255 before the 2 ranks "
                                                    "had met; correct what is named above"));
  const Outcome silent = run("exit 1\n");
  CHECK(silent.code == 69);
  CHECK_THAT(silent.errors,
             ContainsSubstring("it gave no reason; try `") && ContainsSubstring("bin/mpirun -n 2 hostname`"));

  const Outcome failed = run(print("mpirun: Forwarding signal 10 to job\ntrainer: error: a reason\n" +
                                   frame("a warning") + one_failed) +
                             "exit 65\n");
  CHECK(failed.code == 65);
  CHECK(failed.errors == "trainer: error: a reason\n" + frame("a warning"));
  const Outcome unknown = run(print(one_failed) + "exit 3\n");
  CHECK(unknown.code == 69);
  CHECK_THAT(unknown.errors, ContainsSubstring("a non-zero exit code"));

  const Outcome killed = run(print(one_failed + one_killed) + "exit 137\n");
  CHECK(killed.code == 76);
  CHECK(killed.errors == one_killed +
                             "trainer: error: rank 1 was ended by signal 9 (Killed) before the 2 ranks had "
                             "met; start the same command again\n");
  const Outcome killed_late = run(print(one_killed) + "touch \"$TRAINER_RANKS_MET\"; exit 137\n");
  CHECK(killed_late.code == 76);
  CHECK(killed_late.errors == one_killed);
  const Outcome launcher = run("kill -9 $$\n");
  CHECK(launcher.code == 76);
  CHECK_THAT(launcher.errors,
             ContainsSubstring("mpirun was ended by signal 9 (Killed), and its ranks with it"));

  const std::string lost = frame("PRTE has lost communication with a remote daemon.");
  for (const char* code : {"0", "255", "76"}) {
    const Outcome lost_host = run(print(lost) + "exit " + code + "\n");
    CHECK(lost_host.code == 76);
    CHECK(lost_host.errors ==
          lost +
              "trainer: error: mpirun has lost a host, and the ranks there; start the same command again\n");
  }
  CHECK(run(print(lost) + "exit 65\n").code == 65);

  // A partial line is not held back, nor is text after an unfinished row.
  const Outcome slow =
      run("printf 'how far' >&2; sleep 0.5; echo; " + print(row + "on\n") +
          "for i in $(seq 100); do grep -q 'how far' .stderr && grep -q on .stderr && exit 65; "
          "sleep 0.1; done\n");
  CHECK(slow.code == 65);
  CHECK(slow.errors == "how far" + row + "on\n");
}

TEST_CASE("ranks on other hosts report by a line that they have joined, which is not forwarded") {
  const Workspace workspace;
  workspace.write("hosts", "node1\n");
  const auto run = [&](const std::string& script) {
    return run_with_mpirun(
        "echo \"$@\" $TRAINER_RANKS_MET by $SSH_ASKPASS $SSH_ASKPASS_REQUIRE >words.txt\n" + script +
            "exit 14\n",
        workspace, "parallelism.hosts=hosts");
  };
  CHECK(run("").code == 69);
  // A terminal is not asked for a password, and each host's cores are its own ranks'.
  CHECK_THAT(workspace.read("words.txt"), ContainsSubstring(" -x TRAINER_RANKS_MET ") &&
                                              ContainsSubstring(" stderr by /bin/false force\n") &&
                                              !ContainsSubstring("device.threads"));
  const Outcome joined = run("echo 'trainer: all ranks have joined' >&2; echo 'rank 1 is gone' >&2\n");
  CHECK(joined.code == 76);
  CHECK(joined.errors == "rank 1 is gone\n");
}

TEST_CASE("ranks that were lost start again as often as the recipe says, with pauses") {
  const Workspace workspace;
  const std::string script =
      "echo start >>starts.txt; touch \"$TRAINER_RANKS_MET\"; [ $(wc -l <starts.txt) -ge ";
  const auto run = [&](const std::string& good_start, const std::string& words, const std::string& code) {
    fs::remove(workspace.path() / "starts.txt");
    const Outcome ends = run_with_mpirun(script + good_start + " ] || exit " + code + "\n", workspace, words);
    return std::pair(ends, std::ssize(lines_of(workspace.read("starts.txt"))));
  };
  const auto [saved, starts] = run("3", "run.max_restarts=2", "76");
  CHECK(saved.code == 0);
  CHECK(starts == 3);
  CHECK_THAT(saved.errors,
             ContainsSubstring("warning: the ranks have ended with exit code 76; they start again in 1 s "
                               "(run.max_restarts: 1 of 2)") &&
                 ContainsSubstring("they start again in 2 s (run.max_restarts: 2 of 2)"));
  CHECK(run("3", "run.max_restarts=1", "76").first.code == 76);
  CHECK(run("3", "", "76").second == 1);
  CHECK(run("2", "run.max_restarts=3", "75").first.code == 0);
  CHECK(run("2", "run.max_restarts=3 run.max_wall_time=1h", "75").first.code == 75);
  for (const char* final : {"65", "70", "78"}) CHECK(run("2", "run.max_restarts=3", final).second == 1);
  CHECK(run("2", "run.max_restarts=3", "137").first.code == 0);
}

TEST_CASE("the launcher is the one that the recipe names, with its hosts") {
  const Workspace workspace;
  workspace.write("hosts", "localhost\n");
  for (const auto& [version, words] :
       std::map<std::string, std::string>{{"HYDRA build details:", "-f "},
                                          {"mpirun (Open MPI) 5.0", "--hostfile "},
                                          {"another", "-hostfile "}}) {
    workspace.write("r.yaml", kSmallRecipe);
    write_launcher(workspace, version, "echo \"$@\" >words.txt\n");
    const Outcome ends = run_shell(
        "\"$TRAINER\" --config r.yaml device.type=cpu parallelism.data=2 parallelism.launcher=bin/mpirun "
        "parallelism.hosts=hosts",
        workspace.path());
    INFO(ends.errors);
    CHECK(ends.code == 0);
    CHECK_THAT(workspace.read("words.txt"),
               ContainsSubstring(words + "hosts ") && ContainsSubstring(" -n 2 "));
  }
  const Outcome missing = run_shell(
      "\"$TRAINER\" --config r.yaml device.type=cpu parallelism.data=2 parallelism.launcher=/nowhere/mpirun",
      workspace.path());
  CHECK(missing.code == 69);
  CHECK_THAT(missing.errors,
             ContainsSubstring("parallelism.launcher: /nowhere/mpirun is no program that can be started"));
  const Outcome none = run_shell(
      "PATH=/nowhere \"$TRAINER\" --config r.yaml device.type=cpu parallelism.data=2", workspace.path());
  CHECK(none.code == 69);
  CHECK_THAT(none.errors, ContainsSubstring("want an mpirun or mpiexec, and neither is in PATH"));
}

TEST_CASE("ranks under Hydra: their own exit codes count, and a launcher's 0 only if all have ended so") {
  const Workspace workspace;
  const auto run = [&](const std::string& script) {
    return run_with_mpirun(script + "\n", workspace, "", kHydra);
  };
  const std::string met = "touch \"$TRAINER_RANKS_MET\"; cd \"$TRAINER_RANKS_ENDED\"; ";
  CHECK(run(met + "echo 78 >1; echo 76 >2; exit 76").code == 78);
  CHECK(run(met + "echo 75 >1; echo 75 >2; exit 0").code == 75);
  CHECK(run(met + "echo 0 >1; echo 0 >2; exit 0").code == 0);
  for (const char* code : {"75", "9"}) {  // of TERM to the others and of the signal, in the same bits or not
    const Outcome cut = run(met + "echo 75 >1; exit " + code);
    CHECK(cut.code == 76);
    CHECK_THAT(cut.errors,
               ContainsSubstring("a rank was ended by a signal, and mpirun has ended the others"));
  }
  // MPI fails in a rank that starts while another is killed; if it fails in all, that is no loss.
  const std::string ended = "cd \"$TRAINER_RANKS_ENDED\"; ";
  CHECK(run(ended + "echo 69 >1; exit 69").code == 76);
  CHECK(run(ended + "echo 69 >1; echo 69 >2; exit 69").code == 69);
  const Outcome silent = run(met + "echo 0 >1; exit 0");
  CHECK(silent.code == 76);
  CHECK_THAT(silent.errors, ContainsSubstring("1 of the 2 ranks have ended without a word"));
  const Outcome killed = run(met + "exit 9");
  CHECK(killed.code == 76);
  CHECK_THAT(killed.errors,
             ContainsSubstring("a rank was ended by signal 9 (Killed), and mpirun has ended the others"));
  const Outcome early = run("exit 11");
  CHECK(early.code == 76);
  CHECK_THAT(early.errors, ContainsSubstring("signal 11") && ContainsSubstring("before the 2 ranks had met"));
}

TEST_CASE("a rank that is stopped while it starts has told its exit code") {
  const Workspace workspace;
  // It waits for its recipe until TERM comes, which is sent once it has a handler.
  const Outcome ends = run_shell(
      "mkdir ended; mkfifo recipe.yaml\n"
      "TRAINER_RANKS_ENDED=ended \"$TRAINER\" --config recipe.yaml & process=$!\n"
      "until [ $((0x$(sed -n 's/^SigCgt:[^0-9a-f]*//p' /proc/$process/status) & 0x4000)) != 0 ]; do sleep "
      "0.05; done\n"
      "kill -TERM $process; wait $process",
      workspace.path());
  INFO(ends.errors);
  CHECK(ends.code == 75);
  CHECK(run_shell("cat ended/[0-9]*", workspace.path()).output == "75");
}

TEST_CASE("two ranks under MPICH train to the bits of two ranks under Open MPI") {
  if (!has_mpi() || run_shell("command -v mpiexec.mpich", ".").code != 0) return;
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  for (const auto& [launcher, output] :
       {std::pair{"auto", "open_mpi"}, std::pair{"$(command -v mpiexec.mpich)", "mpich"}}) {
    const Outcome ends = run_ranks(
        std::string("\"$TRAINER\" --config r.yaml device.type=cpu device.threads=1 parallelism.data=2 "
                    "parallelism.launcher=") +
            launcher + " run.output_dir=" + output,
        workspace.path());
    INFO(ends.errors);
    CHECK(ends.code == 0);
  }
  CHECK(workspace.read("mpich/model.safetensors") == workspace.read("open_mpi/model.safetensors"));
}

TEST_CASE("a folder for temporary files that is not there is named") {
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  const Outcome ends =
      run_shell("TMPDIR=/nowhere/tmp \"$TRAINER\" --config r.yaml device.type=cpu parallelism.data=2",
                workspace.path());
  CHECK(ends.code == 69);
  CHECK_THAT(ends.errors,
             ContainsSubstring("none can be made in /nowhere/tmp: ") && ContainsSubstring("set TMPDIR"));
  CHECK(run_shell("ls -d trainer-mpirun-*", workspace.path()).output.empty());
}

TEST_CASE("mpirun keeps its files in a folder of its own, which is gone afterwards") {
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  write_launcher(
      workspace, kOpenMpi,
      "touch \"$OMPI_MCA_orte_tmpdir_base/file\" && echo \"$OMPI_MCA_orte_tmpdir_base\" >>bases.txt\n");
  fs::create_directory(workspace.path() / "mine");
  for (const char* given : {"", "", "OMPI_MCA_orte_tmpdir_base=mine "}) {
    const Outcome ends = run_shell(std::string(given) +
                                       "PATH=\"$PWD/bin:$PATH\" \"$TRAINER\" --config r.yaml "
                                       "device.type=cpu parallelism.data=2",
                                   workspace.path());
    INFO(ends.errors);
    CHECK(ends.code == 0);
  }
  const std::vector<std::string> bases = lines_of(workspace.read("bases.txt"));
  REQUIRE(bases.size() == 3);
  CHECK(bases[0] != bases[1]);
  CHECK_FALSE(fs::exists(bases[0]));
  CHECK_FALSE(fs::exists(bases[1]));
  CHECK(bases[2] == "mine");
  CHECK(fs::exists(workspace.path() / "mine/file"));
}

}  // namespace trainer

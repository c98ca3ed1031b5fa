// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include "tests/catch.h"

#include "tests/app/images.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

}  // namespace

TEST_CASE("two ranks: unreadable samples of both count against one budget, and are in one list") {
  if (!has_mpi()) return;
  const Workspace workspace;
  workspace.write("r.yaml", kImageRecipe);
  fill_with_images(workspace, "train", 20);
  fill_with_images(workspace, "val", 5);
  for (const char* name :
       {"train/bright/103.png", "train/dark/111.png", "train/dark/115.png", "val/dark/104.png"})
    workspace.write(name, "");
  const auto train = [&](const std::string& more) {
    return run_ranks(
        "\"$TRAINER\" --config r.yaml parallelism.data=2 device.threads=1 parallelism.timeout=20s " + more,
        workspace.path());
  };
  const Outcome well = train("data.error_budget=10");
  INFO(well.errors);
  REQUIRE(well.code == 0);
  const std::vector<std::string> list = lines_of(workspace.read("run/bad_samples.txt"));
  CHECK(list.size() == 4);
  CHECK_THAT(workspace.read("run/bad_samples.txt"),
             ContainsSubstring("train/bright/103.png") && ContainsSubstring("train/dark/111.png") &&
                 ContainsSubstring("train/dark/115.png") && ContainsSubstring("val/dark/104.png") &&
                 ContainsSubstring(" (on rank 1)\n"));
  CHECK(nlohmann::json::parse(workspace.read("run/summary.json"))["data"]["unreadable_samples"] == 4);
  const auto state = nlohmann::json::parse(workspace.read("run/checkpoints/step-00000016/state.json"));
  CHECK(state["progress"]["unreadable"]["train"] == nlohmann::json::parse("[3, 31, 35]"));

  // Three of 40 are more than 5 %, whichever rank has found them.
  const Outcome ends = train("data.error_budget=5 validation.interval=0ep run.output_dir=strict");
  INFO(ends.errors);
  CHECK(ends.code == 65);
  CHECK_THAT(
      ends.errors,
      ContainsSubstring("data.train: 3 of 40 samples cannot be read, more than data.error_budget, 5 %; they "
                        "are listed in strict/bad_samples.txt"));
  CHECK_THAT(workspace.read("strict/bad_samples.txt"), ContainsSubstring("train/bright/103.png") &&
                                                           ContainsSubstring("train/dark/111.png") &&
                                                           ContainsSubstring("train/dark/115.png"));
}

TEST_CASE("two ranks: what rank 1 says is in a file of the run, and watch has a line for each") {
  if (!has_mpi()) return;
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  const Outcome outcome = run_ranks(
      "\"$TRAINER\" --config r.yaml device.type=cpu parallelism.data=2 device.threads=1 run.output_dir=run",
      workspace.path());
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(workspace.read("run/ranks/1.log"),
             Catch::Matchers::Matches("[0-9T:-]+Z device: cpu [^]*Z step [0-9]+ epoch [^]*"));
  const auto ranks = nlohmann::json::parse(workspace.read("run/status.json"))["ranks"];
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[1]["bytes"] > 1'000'000);
  const std::string view = run_trainer({"watch", "run"}, workspace.path()).output;
  CHECK_THAT(view, ContainsSubstring("rank  host") && ContainsSubstring("memory  GPU\n") &&
                       ContainsSubstring("\n   0  ") && ContainsSubstring("\n   1  "));
  CHECK(run_trainer({"runs", "."}, workspace.path()).code == 0);
}

TEST_CASE("two ranks: a rank with other samples than rank 0 is refused, whichever split has them") {
  if (!has_mpi()) return;
  const Workspace workspace;
  workspace.write("r.yaml", kImageRecipe);
  for (const char* host : {"one", "two"}) {
    for (const auto& [split, count] : {std::pair{"/train", 20}, std::pair{"/val", 5}})
      fill_with_images(workspace, host + std::string(split), count);
  }
  const std::string changed = GENERATE("train", "val");
  const std::string images = "two/" + changed;
  fs::copy_file(workspace.path() / images / "dark/101.png", workspace.path() / images / "bright/101.png",
                fs::copy_options::overwrite_existing);
  workspace.write("rank.sh", "[ $OMPI_COMM_WORLD_RANK = 0 ] && cd one || cd two\nexec \"$TRAINER\" \"$@\"\n");
  const Outcome ends = run_ranks(
      "mpirun --allow-run-as-root --oversubscribe -np 2 sh rank.sh --config ../r.yaml data.train=train "
      "data.val=val "
      "device.threads=1 parallelism.timeout=20s run.output_dir=run",
      workspace.path());
  INFO(ends.errors);
  CHECK(ends.code == 78);
  CHECK_THAT(ends.errors, ContainsSubstring("rank 1 on ") &&
                              ContainsSubstring("has other samples than rank 0: data." + changed + ": "));
  CHECK_FALSE(fs::exists(workspace.path() / "one/run/model.safetensors"));
}

TEST_CASE(
    "two ranks: a rank with another plan is refused, with its instructions and the first operation that "
    "differs") {
  if (!has_mpi()) return;
  const Workspace workspace;
  workspace.write(
      "rank.sh",
      "[ $OMPI_COMM_WORLD_RANK = 1 ] && export ONEDNN_MAX_CPU_ISA=SSE41\nexec \"$TRAINER\" \"$@\"\n");
  const Outcome ends = run_ranks(
      "mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 sh rank.sh --config '" + kConfigs +
          "fashion_mnist_cnn.yaml' 'data={format: synthetic}' device.type=cpu device.threads=1 "
          "parallelism.timeout=20s training.max_duration=2ba run.output_dir=run",
      workspace.path());
  INFO(ends.errors);
  CHECK(ends.code == 78);
  CHECK_THAT(ends.errors,
             ContainsSubstring("has another plan than rank 0; instructions is sse41 here and ") &&
                 ContainsSubstring(" there: 'conv2d ") &&
                 ContainsSubstring("# model.layers[0].conv2d' here and 'conv2d ") &&
                 ContainsSubstring("there; start the same program on hosts of one kind"));
  CHECK_FALSE(fs::exists(workspace.path() / "run/model.safetensors"));
}

TEST_CASE("ranks on unlike processors train with the instructions that both have") {
  if (!has_mpi()) return;
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  workspace.write(
      "rank.sh",
      "[ $OMPI_COMM_WORLD_RANK = 1 ] && export ONEDNN_MAX_CPU_ISA=AVX2\nexec \"$TRAINER\" \"$@\"\n");
  const auto train = [&](const std::string& words) {
    return run_ranks(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none -n "
        "2 sh "
        "rank.sh --config r.yaml device.type=cpu device.threads=1 parallelism.timeout=20s " +
            words,
        workspace.path());
  };
  const Outcome limited = train("run.output_dir=limited device.instructions=avx2");
  INFO(limited.errors);
  if (limited.code == 69) return;  // this processor has fewer
  CHECK(limited.code == 0);
  const Outcome unlike = train("run.output_dir=unlike");
  if (unlike.code == 0) return;  // this processor has no more
  CHECK(unlike.code == 78);
  CHECK_THAT(unlike.errors, ContainsSubstring("instructions is avx2 here and avx512") &&
                                ContainsSubstring("or set device.instructions to what all processors have"));
}

TEST_CASE("instructions are those that are asked for, or the processor's most are named") {
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  const auto train = [&](const std::string& before, const std::string& words) {
    return run_shell(before + "\"$TRAINER\" --config r.yaml device.type=cpu device.threads=1 " + words,
                     workspace.path());
  };
  REQUIRE(train("", "run.output_dir=key device.instructions=sse41").code == 0);
  REQUIRE(train("ONEDNN_MAX_CPU_ISA=SSE41 ", "run.output_dir=variable").code == 0);
  CHECK(workspace.read("key/model.safetensors").size() ==
        workspace.read("variable/model.safetensors").size());
  CHECK(losses_in(workspace.read("key/metrics.jsonl"), "train") ==
        losses_in(workspace.read("variable/metrics.jsonl"), "train"));
  const Outcome unknown = train("", "run.output_dir=unknown device.instructions=mmx");
  CHECK(unknown.code == 78);
  CHECK_THAT(unknown.errors, ContainsSubstring("device.instructions"));
  const Outcome most = train("", "run.output_dir=most device.instructions=avx512_bf16");
  if (most.code != 0)
    CHECK_THAT(most.errors, ContainsSubstring("device.instructions=avx512_bf16: this processor has "));
}

TEST_CASE("two ranks: a key that differs is named before anything begins, unless it is of one rank alone") {
  if (!has_mpi()) return;
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  workspace.write("rank.sh",
                  "[ $OMPI_COMM_WORLD_RANK = 1 ] && set -- \"$@\" $WORD\nexec \"$TRAINER\" \"$@\"\n");
  const auto train = [&](const std::string& word) {
    return run_ranks(
        "WORD=" + word +
            " mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 sh rank.sh --config "
            "r.yaml device.threads=1 parallelism.timeout=20s run.output_dir=run",
        workspace.path());
  };
  // scripts/ranks does so with every key.
  for (const char* word : {"validation.interval=3ba", "logging.interval=7ba", "parallelism.verify=5ba"}) {
    const Outcome ends = train(word);
    INFO(ends.errors);
    CHECK(ends.code == 78);
    CHECK_THAT(ends.errors, Catch::Matchers::ContainsSubstring("rank 1 on ") &&
                                ContainsSubstring(std::string(" has ") + word + " (command line:") &&
                                ContainsSubstring("but rank 0 on "));
    CHECK_FALSE(fs::exists(workspace.path() / "run"));
  }
  CHECK(train("device.memory=1GiB").code == 0);
}

#ifdef TRAINER_FAULTS
TEST_CASE(
    "two ranks: a bit that flips on one is in no checkpoint, and a resume prefers those that were verified") {
  if (!has_mpi()) return;
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  const auto train = [&](const std::string& words, const std::string& fault = "") {
    return run_ranks(
        "LD_PRELOAD=" TRAINER_FAULTS " FAULT_RANK=0 FAULT_CALLS=broadcast FAULT_PATH=mpi/1 " + fault +
            " \"$TRAINER\" --config r.yaml device.type=cpu device.threads=1 parallelism.timeout=20s "
            "checkpoint.interval=4ba checkpoint.keep_best=none run.allow_changes=[training.max_duration] " +
            words,
        workspace.path());
  };
  const auto verified_step = [&](const std::string& step) {
    const std::string state = workspace.read("run/checkpoints/step-000000" + step + "/state.json");
    return nlohmann::json::parse(state)["progress"]["verified_step"];
  };
  const std::string own = "run.output_dir=run training.max_duration=";
  REQUIRE(train(own + "8ba parallelism.data=2").code == 0);
  CHECK(verified_step("08") == 8);
  REQUIRE(train(own + "12ba").code == 0);
  CHECK(verified_step("12") == 8);  // one rank has no peer to compare with
  // At which call rank 0 sends the bias of fc2, 5 numbers, when a run continues.
  fs::copy(workspace.path() / "run", workspace.path() / "copy", fs::copy_options::recursive);
  REQUIRE(train("run.output_dir=copy training.max_duration=16ba parallelism.data=2", "FAULT_LOG=calls.txt")
              .code == 0);
  std::string call;
  for (const std::string& line : lines_of(workspace.read("calls.txt"))) {
    if (line.find("\t20\t") != std::string::npos && call.empty()) call = line.substr(0, line.find('\t'));
  }
  REQUIRE_FALSE(call.empty());

  const Outcome ends = train(own + "16ba parallelism.data=2", "FAULT_ACTION=flip FAULT_AT=" + call);
  INFO(ends.errors);
  CHECK(ends.code == 70);
  CHECK_THAT(ends.errors, ContainsSubstring("after step 16 the ranks' weights are not the same"));
  CHECK_FALSE(fs::exists(workspace.path() / "run/checkpoints/step-00000016"));
  const Outcome again = train(own + "16ba parallelism.data=2");
  INFO(again.errors);
  CHECK(again.code == 0);
  CHECK_THAT(again.errors, ContainsSubstring("skipping checkpoint step-00000012: ") &&
                               ContainsSubstring("resuming after step 8"));
  CHECK(verified_step("16") == 16);
}
#endif

TEST_CASE(
    "eight micro-batches on three and on five ranks, and a run that changes their number, have one rank's "
    "losses") {
  if (!has_mpi()) return;
  const Workspace workspace;
  workspace.write("r.yaml", R"(version: 1
run: {seed: 3}
model:
  input: [1, 12, 12]
  layers: [conv2d: {out_channels: 8, kernel_size: 3}, batch_norm, relu, flatten, linear: 5]
data: {format: synthetic, synthetic: {train_samples: 640, val_samples: 130}}
training: {max_duration: 2ep, global_batch_size: 64, micro_batch_size: 8}
optimizer: {name: sgd, lr: 0.002, momentum: 0.9, clip_norm: 5.0}
logging: {interval: 1ba}
device: {type: cpu, threads: 1}
)");
  const auto train = [&](const std::string& run, int ranks, const std::string& more = "") {
    const Outcome outcome =
        run_ranks("\"$TRAINER\" --config r.yaml parallelism.data=" + std::to_string(ranks) +
                      " run.output_dir=" + run + " " + more,
                  workspace.path());
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return outcome.errors;
  };
  train("one", 1);
  CHECK_THAT(train("three", 3), ContainsSubstring("(3 ranks, 3, 3, 2 x 8 on them)"));
  train("five", 5);
  train("changing", 3, "run.stop_after=7ba");
  train("changing", 8, "run.stop_after=12ba");
  train("changing", 5);
  const std::vector<double> expected = losses_in(workspace.read("one/metrics.jsonl"), "train");
  REQUIRE(expected.size() == 20);
  for (const char* run : {"three", "five", "changing"}) {
    INFO(run);
    const std::vector<double> found = losses_in(workspace.read(std::string(run) + "/metrics.jsonl"), "train");
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).epsilon(1e-5));
  }
  const auto refused = [&](const std::string& more) {
    const Outcome outcome = run_trainer({"--config", "r.yaml", more, "parallelism.data=9"}, workspace.path());
    CHECK(outcome.code == 78);
    return outcome.errors;
  };
  CHECK_THAT(refused("run.seed=1"), ContainsSubstring("9 ranks need a micro-batch each"));
  CHECK_THAT(
      refused("training.micro_batch_size=null"),
      ContainsSubstring("cannot be shared by 9 ranks evenly") && ContainsSubstring("micro_batch_size"));
  for (const char* key : {"sync_batch_norm", "shard_parameters"}) {
    const Outcome outcome =
        run_trainer({"--config", "r.yaml", "parallelism.data=3", "parallelism." + std::string(key) + "=true"},
                    workspace.path());
    CHECK(outcome.code == 78);
    CHECK_THAT(outcome.errors, ContainsSubstring(std::string("as parallelism.") + key + " needs"));
  }
}

TEST_CASE("a network that ranks cannot share is refused before any of them starts") {
  const Workspace workspace;
  workspace.write("r.yaml", R"(version: 1
device: {type: cpu}
model:
  input: [6]
  input_kind: tokens
  layers: [embedding: {vocab_size: 9, features: 8}, linear: 24, attention: {heads: 4}, linear: 9]
data: {format: synthetic, synthetic: {train_samples: 8, val_samples: 8}}
training: {max_duration: 1ba, global_batch_size: 4}
)");
  const Outcome outcome = run_trainer({"--config", "r.yaml", "parallelism.tensor=3"}, workspace.path());
  CHECK(outcome.code == 78);
  const std::string said = "3 ranks cannot share 4 heads: parallelism.tensor may be 2 or 4";
  CHECK_THAT(outcome.errors, ContainsSubstring(said) && !ContainsSubstring("rank 0 on"));
  CHECK(outcome.errors.find(said) == outcome.errors.rfind(said));
  CHECK_FALSE(fs::exists(workspace.path() / "runs"));
}

TEST_CASE("a rank that cannot join the others ends with the reason") {
  if (!has_mpi()) return;
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  const auto start = [&](const std::string& how) {
    return run_ranks(how + " --config r.yaml device.type=cpu", workspace.path());
  };
  const Outcome without_mpi =
      start("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 \"$TRAINER\"");
  CHECK(without_mpi.code == 69);
  CHECK_THAT(without_mpi.errors, ContainsSubstring("rank 0 on ") && ContainsSubstring(" sees rank 0 of 1"));
  CHECK_THAT(without_mpi.errors, ContainsSubstring("torchrun starts ranks on GPUs only"));
  const Outcome of_mpich = start("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 \"$TRAINER\"");
  CHECK(of_mpich.code == 69);
  CHECK_THAT(of_mpich.errors, ContainsSubstring("Hydra's mpiexec (MPI_LOCALRANKID)") ||
                                  ContainsSubstring("sees rank 0 of 1: it does not belong to that launcher"));
  fs::copy_file(TRAINER_BINARY, workspace.path() / "alone");
  const Outcome without_library =
      start("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 ./alone");
  CHECK(without_library.code == 69);
  CHECK_THAT(without_library.errors, ContainsSubstring("rank 1 on ") &&
                                         ContainsSubstring("libtrainer_mpi_openmpi.so") &&
                                         ContainsSubstring("scripts/build.sh"));
  // Only one rank has a secret.
  workspace.write("rank.sh",
                  "[ $OMPI_COMM_WORLD_RANK = 1 ] && export TRAINER_SECRET=00000000000000000000000000000001\n"
                  "exec \"$TRAINER\" \"$@\"\n");
  const Outcome stranger =
      start("mpirun --allow-run-as-root --oversubscribe -np 2 sh rank.sh parallelism.timeout=10s");
  CHECK(stranger.code == 69);
  CHECK_THAT(stranger.errors,
             ContainsSubstring("rank 1 on ") && ContainsSubstring("cannot join rank 0 at 127.0.0.1 port ") &&
                 ContainsSubstring("set the same TRAINER_SECRET for all ranks, or for none"));
}

TEST_CASE("a launcher's number of ranks is compared with the recipe's before the batch is shared") {
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  const auto start = [&](const std::string& rank) {
    return run_shell("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_RANK=" + rank +
                         " \"$TRAINER\" --config r.yaml parallelism.data=7",
                     workspace.path());
  };
  const Outcome other = start("0");
  CHECK(other.code == 78);
  CHECK_THAT(other.errors, ContainsSubstring("parallelism.data: is 7, but the launcher started 2 ranks"));
  CHECK(start("5").code == 64);  // its variables contradict each other, whatever the recipe says
}

TEST_CASE(
    "ranks that would meet in the directory of another run, or of a finished one, leave no file there") {
  const Workspace workspace;
  workspace.write("r.yaml", kSmallRecipe);
  const std::string words = " --config r.yaml parallelism.timeout=2s run.output_dir=";
  REQUIRE(run_shell("\"$TRAINER\"" + words + "finished device.type=cpu", workspace.path()).code == 0);
  workspace.write("foreign/notes.txt", "mine");
  for (const char* rank : {"0", "1"}) {
    const auto start = [&](const std::string& directory) {
      return run_shell(std::string("RANK=") + rank +
                           " WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29511 \"$TRAINER\"" +
                           words + directory + " device.type=cuda",
                       workspace.path());
    };
    const Outcome foreign = start("foreign"), finished = start("finished");
    CHECK(foreign.code == 78);
    CHECK_THAT(foreign.errors,
               ContainsSubstring("contains files that do not belong to a run (\"notes.txt\")"));
    CHECK(finished.code == 0);
    CHECK((finished.errors.find("this run is finished") != std::string::npos) == (rank == std::string("0")));
  }
  CHECK_FALSE(fs::exists(workspace.path() / "foreign/ranks.secret"));
  CHECK_FALSE(fs::exists(workspace.path() / "finished/ranks.secret"));
}

}  // namespace trainer

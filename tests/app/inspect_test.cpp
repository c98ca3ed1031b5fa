// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "core/storage/checkpoint.h"
#include "core/storage/safetensors.h"
#include "tests/app/command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::vector<StoredTensor> kTensors = {{.name = "conv.weight", .shape = {2, 1, 3, 3}},
                                            {.name = "count", .dtype = "I64"}};

void produce(size_t index, const ByteSink& sink) {
  sink(std::vector<std::byte>(index == 0 ? 72 : 8, std::byte{7}));
}

fs::path make_checkpoint(const fs::path& root, int64_t step) {
  CheckpointWriter writer(root, step);
  writer.add(kModelFile, [](const ByteSink& sink) {
    compose_safetensors(kTensors, {{"format", "pt"}}, produce, sink);
  });
  const std::string state = R"({"step":)" + std::to_string(step) +
                            R"(,"epoch":1.5,"recipe":"version: 1\nrun: {}\n","schedule":{"name":"cosine"}})";
  writer.add(kStateFile, [&](const ByteSink& sink) { sink(std::as_bytes(std::span(state))); });
  return writer.commit();
}

/// Changes one byte.
void damage(const Workspace& workspace, const std::string& name, size_t at) {
  std::string bytes = workspace.read(name);
  bytes.at(at) = static_cast<char>(bytes[at] ^ 1);
  workspace.write(name, bytes);
}

Outcome inspect(const Workspace& workspace, const std::string& path) {
  return run_trainer({"inspect", path}, workspace.path());
}

json inspect_json(const Workspace& workspace, const std::string& path, int code) {
  const Outcome outcome = run_trainer({"inspect", path, "--json"}, workspace.path());
  CHECK(outcome.code == code);
  CHECK(outcome.errors.empty());
  return json::parse(outcome.output);
}

}  // namespace

TEST_CASE("inspect shows the tensors of a safetensors file") {
  const Workspace workspace;
  write_safetensors(workspace.path() / "m.safetensors", kTensors, {{"format", "pt"}}, produce);
  const Outcome outcome = inspect(workspace, "m.safetensors");
  CHECK(outcome.code == 0);
  CHECK(outcome.output.starts_with("m.safetensors: safetensors, 2 tensors, 19 elements, "));
  CHECK(outcome.output.find(", intact\n  format: pt\n") != std::string::npos);
  CHECK(outcome.output.find("  conv.weight  F32      [2, 1, 3, 3]            72\n") != std::string::npos);
  CHECK(outcome.output.find("  count        I64      []                       8\n") != std::string::npos);
  const json report = inspect_json(workspace, "m.safetensors", 0);
  CHECK(report.at("kind") == "safetensors");
  CHECK(report.at("whole") == true);
  CHECK(report.at("bytes") == fs::file_size(workspace.path() / "m.safetensors"));
  CHECK(report.at("metadata") == json{{"format", "pt"}});
  CHECK(report.at("tensors") ==
        json::parse(R"([{"name":"conv.weight","dtype":"F32","shape":[2,1,3,3],"bytes":72},)"
                    R"({"name":"count","dtype":"I64","shape":[],"bytes":8}])"));
}

TEST_CASE("inspect says why a file is not whole") {
  const Workspace workspace;
  const fs::path file = workspace.path() / "m.safetensors";
  write_safetensors(file, kTensors, {}, produce);
  fs::resize_file(file, fs::file_size(file) - 1);
  const Outcome cut = inspect(workspace, "m.safetensors");
  CHECK(cut.code == 65);
  CHECK(cut.output.find("DAMAGED") != std::string::npos);
  CHECK(cut.errors.starts_with(
      "trainer: error: m.safetensors: not a valid safetensors file: tensor \"count\""));
  const json report = inspect_json(workspace, "m.safetensors", 65);
  CHECK(report.at("whole") == false);
  CHECK("trainer: error: " + report.at("problem").get<std::string>() + "\n" == cut.errors);
  CHECK(inspect(workspace, "none").code == 74);
  REQUIRE(::mkfifo((workspace.path() / "pipe").c_str(), 0600) == 0);
  CHECK(inspect(workspace, "pipe").code == 65);
}

TEST_CASE("inspect reads every byte of a checkpoint") {
  const Workspace workspace;
  make_checkpoint(workspace.path() / "c", 100);
  const std::string directory = "c/step-00000100";
  const Outcome outcome = inspect(workspace, directory);
  CHECK(outcome.code == 0);
  CHECK(outcome.output.starts_with(directory + ": checkpoint, step 100, 2 files, "));
  for (const char* line : {"    epoch: 1.5\n", "    schedule.name: cosine\n", "    recipe: (3 lines)\n"}) {
    INFO(outcome.output);
    CHECK(outcome.output.find(line) != std::string::npos);
  }
  const json report = inspect_json(workspace, directory, 0);
  CHECK(report.at("whole") == true);
  CHECK(report.at("step") == 100);
  CHECK(report.at("state").at("epoch") == 1.5);
  CHECK(report.at("files").size() == 2);
  CHECK(report.at("files")[0].at("name") == kModelFile);
  CHECK(report.at("files")[0].at("xxh3").get<std::string>().size() == 16);
}

TEST_CASE("inspect names what is damaged in a checkpoint, and where a file of it is inspected alone") {
  const Workspace workspace;
  make_checkpoint(workspace.path() / "c", 100);
  const std::string directory = "c/step-00000100", model = directory + "/" + kModelFile;
  // In a tensor's data, for which the format itself has no checksum.
  damage(workspace, model, workspace.read(model).size() - 1);
  const Outcome outcome = inspect(workspace, directory);
  CHECK(outcome.code == 65);
  CHECK(outcome.errors.starts_with("trainer: error: " + model + ": is damaged"));
  const json report = inspect_json(workspace, directory, 65);
  CHECK(report.at("files")[0].at("whole") == false);
  CHECK(report.at("files")[1].at("whole") == true);
  CHECK(report.contains("state"));
  CHECK(inspect(workspace, model).errors == outcome.errors);
  fs::remove(workspace.path() / model);
  CHECK(inspect(workspace, directory).errors == "trainer: error: " + model + ": is missing\n");
  damage(workspace, directory + "/" + kStateFile, 3);
  CHECK_FALSE(inspect_json(workspace, directory, 65).contains("state"));
  damage(workspace, directory + "/" + kManifestFile, 30);
  CHECK(inspect(workspace, directory).code == 65);
  CHECK(inspect(workspace, directory).errors.find(kManifestFile) != std::string::npos);
}

TEST_CASE("inspect lists the checkpoints of a run, the newest first") {
  const Workspace workspace;
  workspace.write("r/identity.json", "{}");
  for (int64_t step : {100, 200, 300}) make_checkpoint(workspace.path() / "r/checkpoints", step);
  write_safetensors(workspace.path() / "r/model.safetensors", kTensors, {}, produce);
  for (const char* path : {"r", "r/checkpoints"}) {
    const json report = inspect_json(workspace, path, 0);
    CHECK(report.at("kind") == "run");
    REQUIRE(report.at("checkpoints").size() == 3);
    CHECK(report.at("checkpoints")[0].at("step") == 300);
    CHECK(report.at("checkpoints")[2].at("step") == 100);
  }
  CHECK(inspect_json(workspace, "r", 0).at("weights").size() == 1);
  damage(workspace, "r/checkpoints/step-00000200/state.json", 0);
  const Outcome outcome = inspect(workspace, "r");
  CHECK(outcome.code == 65);
  CHECK(outcome.output.find("step-00000200") != std::string::npos);
  CHECK(outcome.errors.starts_with("trainer: error: r/checkpoints/step-00000200/state.json: is damaged"));
  fs::rename(workspace.path() / "r/checkpoints/step-00000300",
             workspace.path() / "r/checkpoints/step-00000400");
  CHECK(inspect_json(workspace, "r/checkpoints/step-00000400", 65)
            .at("problem")
            .get<std::string>()
            .find("belongs to step 300") != std::string::npos);
}

TEST_CASE("inspect says what it takes where it is given something else") {
  const Workspace workspace;
  workspace.write("d/file", "");
  const Outcome outcome = inspect(workspace, "d");
  CHECK(outcome.code == 65);
  CHECK(outcome.errors ==
        "trainer: error: d: neither a checkpoint (no manifest.txt) nor a run's directory; name one of them, "
        "or a safetensors file\n");
}

}  // namespace trainer

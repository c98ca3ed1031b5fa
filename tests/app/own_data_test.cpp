// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "core/storage/checkpoint.h"
#include "core/storage/safetensors.h"
#include "tests/app/images.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

/// The recipe of images, 20 of each class to train on and 5 to validate.
class Images {
 public:
  Images() {
    workspace.write("r.yaml", kImageRecipe);
    fill_with_images(workspace, "train", 20);
    fill_with_images(workspace, "val", 5);
  }

  Outcome run(const std::string& more = "", const std::string& command = "train") const {
    return run_shell("\"$TRAINER\" " + command + " --config r.yaml " + more, workspace.path());
  }
  Outcome run_well(const std::string& more = "", const std::string& command = "train") const {
    Outcome outcome = run(more, command);
    INFO(command << " " << more << ": " << outcome.errors);
    REQUIRE(outcome.code == 0);
    return outcome;
  }
  void refuse(const std::string& more, int code, const std::string& message,
              const std::string& command = "train") const {
    const Outcome outcome = run(more, command);
    INFO(command << " " << more);
    CHECK(outcome.code == code);
    CHECK_THAT(outcome.errors, ContainsSubstring(message));
  }
  fs::path path(const std::string& name) const { return workspace.path() / name; }

  Workspace workspace;
};

/// The bytes of an IDX file.
std::string idx(char kind, const std::vector<int>& sizes, const std::string& bytes) {
  std::string text{0, 0, 8, kind};
  for (const int size : sizes) text += {0, 0, 0, static_cast<char>(size)};
  return text + bytes;
}

void make_socket(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.string().size() < sizeof address.sun_path);
  std::strcpy(address.sun_path, path.c_str());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  ::close(fd);
}

const std::string kMore = " training.max_duration=8ep 'run.allow_changes=[training.max_duration]'";

}  // namespace

TEST_CASE("own data: a network with more outputs than classes is refused, with both numbers and the key") {
  const Images images;
  const std::string layers = "'model.layers=[flatten, linear: 1000]'";
  const std::string head = "error: model.layers[1].linear: the network has 1000 outputs, data.train (train, ";
  for (const char* command : {"train", "plan"})
    images.refuse(layers, 78, head + "r.yaml:6:3) has 2 classes; set out_features to 2", command);
  images.refuse(layers + " data.val=null data.val_fraction=0.2", 78, head);
  images.refuse("'model.layers=[flatten, linear: 1]'", 78,
                "the network has 1 output, data.train (train, r.yaml:6:3) has 2 classes");
  images.run_well("data.val_fraction=0.2 data.val=null training.max_duration=1ep");
  images.refuse(layers, 78, "the network has 1000 outputs, data.val (val, r.yaml:7:3) has 2 classes", "eval");
  // The weights of a trained network cannot stay.
  const std::string elsewhere = " run.output_dir=elsewhere";
  images.refuse(
      "'model.layers=[flatten, linear: {name: head, out_features: 9}]' model.initial_weights=run" + elsewhere,
      78, "set out_features to 2 and list \"head.*\" in model.replace");
  for (const char* split : {"train", "val"})
    images.run_well(std::string("--split ") + split + " --out " + split + ".rec", "data pack");
  images.refuse(layers + " data.format=record data.train=train.rec data.val=val.rec" + elsewhere, 78,
                "the network has 1000 outputs, data.train (train.rec, ");
}

TEST_CASE("own data: where only labels tell the classes, outputs that none uses are named in a warning") {
  const Images images;
  images.workspace.write("set-images-idx3-ubyte", idx(3, {6, 2, 2}, std::string(24, 'x')));
  images.workspace.write("set-labels-idx1-ubyte", idx(1, {6}, std::string("\0\1\2\0\1\2", 6)));
  const std::string set =
      "data.format=idx data.train=set data.val=null data.augment=[] data.eval_transform=[] "
      "'model.input=[1,2,2]' "
      "training.global_batch_size=6 training.max_duration=1ba ";
  const Outcome wide = images.run_well(set + "'model.layers=[flatten, linear: 1000]' run.output_dir=wide");
  CHECK_THAT(wide.errors,
             ContainsSubstring("warning: command line:") &&
                 ContainsSubstring("model.layers[1].linear: the network has 1000 outputs, but the highest "
                                   "label of data.train is 2;") &&
                 ContainsSubstring("set out_features to 3"));
  CHECK_THAT(images.workspace.read("wide/log.txt"),
             ContainsSubstring("the highest label of data.train is 2"));
  const Outcome exact = images.run_well(set + "'model.layers=[flatten, linear: 3]' run.output_dir=exact");
  CHECK_THAT(exact.errors, !ContainsSubstring("warning"));
}

TEST_CASE("own data: labels that the loss ignores need not be classes") {
  const Images images;
  images.workspace.write("set-images-idx3-ubyte", idx(3, {6, 2, 2}, std::string(24, 'x')));
  images.workspace.write("set-labels-idx1-ubyte", idx(1, {6}, std::string("\0\1\377\0\1\377", 6)));
  const std::string set =
      "data.format=idx data.train=set data.val=set data.augment=[] data.eval_transform=[] "
      "'model.input=[1,2,2]' 'model.layers=[flatten, linear: 2]' training.global_batch_size=6 ";
  images.refuse(set, 65, "a label below 2, the network's number of classes, for sample 2, found 255");
  const Outcome done = images.run_well(set + "'loss={name: cross_entropy, ignore_index: 255}'");
  CHECK_THAT(done.errors, ContainsSubstring("validation loss 0."));
  images.refuse(set + "'loss={name: cross_entropy, ignore_index: 254}' run.output_dir=other", 65,
                "or 254, loss.ignore_index, for sample 2, found 255");
}

TEST_CASE("own data: other training samples are noticed at a resume, and taken where that is allowed") {
  const Images images;
  images.run_well();
  const fs::path train = images.path("train"), kept = images.path("kept");
  // A copy has other times and inodes, but is the same data.
  fs::rename(train, kept);
  fs::copy(kept, train, fs::copy_options::recursive);
  fs::copy(images.path("run"), images.path("copy"), fs::copy_options::recursive);
  const Outcome same = images.run_well(kMore + " run.output_dir=copy");
  CHECK_THAT(same.errors, ContainsSubstring("resuming after step 16") && !ContainsSubstring("warning"));

  std::string difference;
  SECTION("fewer") {
    fs::remove(train / "dark/107.png");
    difference = "40 samples there and 39 here";
  }
  SECTION("more") {
    fs::copy(train / "dark/107.png", train / "dark/207.png");
    difference = "40 samples there and 41 here";
  }
  SECTION("renamed") {
    fs::rename(train / "dark/107.png", train / "dark/307.png");
    difference = "other file names";
  }
  SECTION("swapped") {
    fs::rename(train / "dark", train / "other");
    fs::rename(train / "bright", train / "dark");
    fs::rename(train / "other", train / "bright");
    difference = "other contents";
  }
  SECTION("other bytes") {
    images.workspace.write("train/dark/107.png", image(false));
    difference = "other contents";
  }
  SECTION("other classes") {
    for (const char* split : {"train", "val"})
      fs::rename(images.path(split) / "dark", images.path(split) / "night");
    difference = "other class names, other file names";
  }
  images.refuse(kMore, 78, "error: data.train: the training samples are not those of ");
  images.refuse(kMore, 78, difference + "; restore them, or list data in run.allow_changes");
  // The run can still continue as it was.
  const Outcome allowed =
      images.run_well("training.max_duration=8ep 'run.allow_changes=[training.max_duration, data]'");
  CHECK_THAT(allowed.errors,
             ContainsSubstring("warning: data.train: the training samples are not those of ") &&
                 ContainsSubstring(difference));
  CHECK_THAT(images.workspace.read("run/log.txt"), ContainsSubstring(difference));
  // From there on the new samples are the run's own.
  images.run_well("training.max_duration=9ep 'run.allow_changes=[training.max_duration]'");
}

TEST_CASE("own data: packed or under another name the same samples are taken as the same") {
  const Images images;
  images.run_well();
  for (const char* split : {"train", "val"})
    images.run_well(std::string("--split ") + split + " --out " + split + ".rec", "data pack");
  const Outcome packed = images.run_well(
      "training.max_duration=8ep data.format=record data.train=train.rec data.val=val.rec "
      "'run.allow_changes=[training.max_duration, data.format, data.train, data.val]'");
  CHECK_THAT(packed.errors,
             ContainsSubstring("resuming after step 16") && !ContainsSubstring("warning: data.train"));
}

TEST_CASE("own data: classes and transforms are kept with the weights, and predict needs no training image") {
  const Images images;
  images.run_well("'data.eval_transform=[resize: 6, center_crop: 4, normalize: {mean: [0.25], std: [0.5]}]'");
  for (const fs::path& file : {images.path("run/model.safetensors"),
                               images.path("run/checkpoints/step-00000016/model.safetensors")}) {
    const StoredMetadata about = SafetensorsFile(file).metadata();
    CHECK(about.at("classes") == R"(["bright","dark"])");
    CHECK(about.at("input") == "[3,4,4]");
    const auto transforms = nlohmann::json::parse(about.at("eval_transform"));
    CHECK(transforms[0]["resize"]["size"] == 6);
    CHECK(transforms[2]["normalize"] == nlohmann::json{{"mean", {0.25}}, {"std", {0.5}}});
  }
  fs::rename(images.path("val/dark/101.png"), images.path("one.png"));
  for (const char* folder : {"train", "val"}) fs::remove_all(images.path(folder));
  const Outcome named = images.run_well("one.png run.resume=run --as-trained", "predict");
  CHECK(nlohmann::json::parse(named.output)["name"] == "dark");
}

TEST_CASE("own data: weights of other transforms or classes are refused, unless an option decides") {
  const Images images;
  const std::string normalize = ", normalize: {mean: [0.25], std: [0.5]}";
  const std::string with = "'data.eval_transform=[resize: 6, center_crop: 4" + normalize + "]' ";
  const std::string without = "'data.eval_transform=[resize: 6, center_crop: 4]' ";
  images.run_well(with);
  const std::string right = images.run_well(with, "eval").output;
  for (const std::string command : {"eval", "predict"}) {
    images.refuse(without + " run.output_dir=run --weights run", 78,
                  "error: data.eval_transform: run/model.safetensors was trained with [", command);
    images.refuse(without + " --weights run", 78,
                  R"({"normalize":{"mean":[0.25],"std":[0.5]}}], the recipe has [)", command);
    images.refuse(without + " --weights run", 78, "--as-trained", command);
  }
  CHECK(images.run_well(without + "--weights run --as-trained", "eval").output == right);
  const Outcome written = images.run_well(without + "--weights run --as-written", "eval");
  CHECK(written.output != right);
  CHECK_THAT(written.errors,
             ContainsSubstring("warning: data.eval_transform: run/model.safetensors was trained"));
  // Neither training's transforms nor other places of the same files matter.
  fs::rename(images.path("val"), images.path("moved"));
  images.run_well(
      with + "data.val=moved 'data.augment=[random_resized_crop: 4]' data.workers=1 --weights run", "eval");
  fs::rename(images.path("moved"), images.path("val"));

  for (const char* split : {"train", "val"})
    fs::rename(images.path(split) / "dark", images.path(split) / "night");
  images.refuse(
      with + "--weights run", 78,
      R"(run/model.safetensors was trained with ["bright","dark"], the recipe has ["bright","night"])",
      "eval");
  images.refuse(with + "--weights run", 78, R"(["bright","night"])", "predict");
  images.run_well(with + "--weights run --as-written", "eval");
  CHECK_THAT(images.run_well(with + "--weights run val/night/101.png", "predict").output,
             ContainsSubstring("\"dark\""));

  // Weights of other programs, or whose metadata is of another kind, are not compared.
  const SafetensorsFile file(images.path("run/model.safetensors"));
  for (const StoredMetadata& about :
       {StoredMetadata{}, StoredMetadata{{"eval_transform", "resize"}, {"input", "{}"}, {"classes", "3"}}}) {
    write_safetensors(images.path("other.safetensors"), file.tensors(), about,
                      [&](size_t i, const ByteSink& sink) { file.copy_bytes(file.tensors()[i], sink); });
    CHECK(images.run_well(without + "--weights other.safetensors", "eval").errors.empty());
  }
  write_safetensors(images.path("newer.safetensors"), file.tensors(),
                    {{"eval_transform", R"([{"sharpen": {}}])"}},
                    [&](size_t i, const ByteSink& sink) { file.copy_bytes(file.tensors()[i], sink); });
  for (const char* decision : {"", "--as-trained"})
    images.refuse(without + "--weights newer.safetensors " + decision, 78, "sharpen", "eval");
  images.run_well(without + "--weights newer.safetensors --as-written", "eval");
}

TEST_CASE("fine-tuning says what was loaded, replaced, frozen and left, and how many parameters train") {
  const Workspace workspace;
  workspace.write("small.yaml", kSmallRecipe);
  const std::string start = "\"$TRAINER\" --config small.yaml training.max_duration=1ba ";
  const Outcome base = run_shell(start + "run.output_dir=base", workspace.path());
  REQUIRE(base.code == 0);
  CHECK_THAT(base.errors, !ContainsSubstring("parameters train"));
  const Outcome tuned = run_shell(
      start +
          "run.output_dir=tuned model.initial_weights=base 'model.layers[7].linear={out_features: 4, name: "
          "head}' 'validation.metrics=[top1]' 'model.replace=[\"head.*\", \"fc2.*\"]' "
          "'model.freeze=[\"conv1.*\"]'",
      workspace.path());
  INFO(tuned.errors);
  REQUIRE(tuned.code == 0);
  for (const std::string& text : {tuned.errors, workspace.read("tuned/log.txt")}) {
    CHECK_THAT(text,
               ContainsSubstring("loaded 4 of 6 tensors from base/model.safetensors\n") &&
                   ContainsSubstring("re-initialised (model.replace) 2 tensors: head.weight, head.bias\n") &&
                   ContainsSubstring("left in the file 2 tensors: fc2.weight, fc2.bias\n") &&
                   ContainsSubstring("frozen (model.freeze) 2 tensors: conv1.weight, conv1.bias\n") &&
                   ContainsSubstring("6564 of 6644 parameters train\n"));
  }
}

TEST_CASE("own data: the folder that lacks a class of training is the one that is named") {
  const Images images;
  images.run_well();
  fs::rename(images.path("val/dark"), images.path("val/night"));
  for (const char* command : {"train", "eval", "plan"})
    images.refuse("", 65, "val (data.val): expected the classes of train (data.train), found no class 'dark'",
                  command);
}

TEST_CASE("own data: a socket, a pipe or a device among images is one unreadable sample") {
  const Images images;
  make_socket(images.path("train/dark/socket.png"));
  REQUIRE(::mkfifo(images.path("train/dark/pipe.png").c_str(), 0600) == 0);
  fs::create_symlink("/dev/tty", images.path("train/bright/tty.png"));
  fs::create_symlink("/dev/zero", images.path("train/bright/zero.png"));
  const Outcome outcome = images.run_well("data.error_budget=10");
  CHECK_THAT(outcome.errors, ContainsSubstring("train/dark/socket.png: a socket, not a file") &&
                                 ContainsSubstring("train/dark/pipe.png: a pipe, not a file") &&
                                 ContainsSubstring("train/bright/tty.png: a device, not a file") &&
                                 ContainsSubstring("train/bright/zero.png: a device, not a file"));
  images.refuse("run.output_dir=strict data.error_budget=5", 65, "3 of 44 samples cannot be read");
}

TEST_CASE("own data: data.val null means no validation, also of made-up samples") {
  const Images images;
  images.run_well("data.val=null 'data.eval_transform=[normalize: {mean: [0.5], std: [0.5]}]'");
  const auto summary = nlohmann::json::parse(images.workspace.read("run/summary.json"));
  CHECK_FALSE(summary.contains("validation"));
  // Only training fixes the size of images; an image of that size can be classified.
  const std::string normalized =
      "data.val=null 'model.input=[3, 1, 1]' 'data.augment=[random_resized_crop: 1]' run.output_dir=exact "
      "'data.eval_transform=[normalize: {mean: [0.5], std: [0.5]}]' ";
  images.run_well(normalized);
  const Outcome told = images.run_well(normalized + "val/dark/101.png", "predict");
  CHECK(nlohmann::json::parse(told.output)["name"] == "dark");

  images.run_well("data.format=synthetic data.val=null run.output_dir=made_up training.max_duration=2ba");
  CHECK_THAT(images.workspace.read("made_up/metrics.jsonl"), !ContainsSubstring("\"validation\""));
  images.refuse("data.format=synthetic data.val=null", 78, "names no samples to evaluate on", "eval");
}

TEST_CASE("own data: the budget of unreadable samples is one for all parts of a run") {
  const Images images;
  for (const char* name : {"bright/103.png", "dark/111.png"})
    images.workspace.write(std::string("train/") + name, "");
  const std::string budget = "data.error_budget=5 data.workers=0 checkpoint.interval=1ba ";
  images.run_well(budget);
  const auto state = nlohmann::json::parse(images.workspace.read("run/checkpoints/step-00000016/state.json"));
  CHECK(state["progress"]["unreadable"] == nlohmann::json::parse(R"({"train": [3, 31]})"));
  // One more batch alone has at most one of them.
  const std::string longer = "training.max_duration=17ba 'run.allow_changes=[training.max_duration]' ";
  images.refuse(longer + "data.error_budget=4 data.workers=0", 65,
                "data.train: 2 of 40 samples cannot be read, more than data.error_budget, 4 %");
  images.run_well(longer + budget);
  CHECK(nlohmann::json::parse(
            images.workspace.read("run/checkpoints/step-00000017/state.json"))["progress"]["unreadable"] ==
        state["progress"]["unreadable"]);
}

}  // namespace trainer

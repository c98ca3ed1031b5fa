// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "tests/app/images.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

/// Dark and bright pixels with two labels of their own: `bright` and, of every second image, `even`.
class LabelSets {
 public:
  LabelSets() {
    workspace.write("r.yaml", kImageRecipe);
    fill_with_images(workspace, "train", 20);
    fill_with_images(workspace, "val", 5);
    for (const char* split : {"train", "val"}) write_labels(split, "file,bright,dark,always,never");
  }

  void write_labels(const std::string& split, const std::string& header) const {
    std::string csv = header + "\r\n";
    for (const char* name : {"bright", "dark"}) {
      for (const auto& file : std::filesystem::directory_iterator(workspace.path() / split / name)) {
        csv += std::string(name) + "/" + file.path().filename().string() +
               (name == std::string("bright") ? ",1,0" : ",0,1") + ",1,0\r\n";
      }
    }
    workspace.write(split + "/labels.csv", csv);
  }

  Outcome run(const std::string& command, const std::string& more = "") const {
    return run_shell(
        "\"$TRAINER\" " + command +
            " --config r.yaml data.labels=labels.csv "
            "'model.layers=[flatten, linear: 4]' loss=binary_cross_entropy "
            "'validation.metrics=[accuracy, exact_match, micro_f1, macro_f1]' optimizer.lr=0.5 " +
            more,
        workspace.path());
  }
  std::string run_well(const std::string& command, const std::string& more = "") const {
    const Outcome outcome = run(command, more);
    INFO(command << " " << more << ": " << outcome.errors);
    REQUIRE(outcome.code == 0);
    return outcome.output;
  }
  void refuse(const std::string& command, const std::string& more, int code,
              const std::string& message) const {
    const Outcome outcome = run(command, more);
    INFO(command << " " << more);
    CHECK(outcome.code == code);
    CHECK_THAT(outcome.errors, ContainsSubstring(message));
  }

  Workspace workspace;
};

}  // namespace

TEST_CASE("several labels: a network trains, is evaluated, and predicts labels above one half") {
  const LabelSets sets;
  sets.run_well("train", "training.max_duration=30ep");
  const json report = json::parse(sets.run_well("eval", "training.max_duration=30ep --json"));
  CHECK(report.at("accuracy") == 1);
  CHECK(report.at("exact_match") == 1);
  CHECK(report.at("micro_f1") == 1);
  CHECK(report.at("macro_f1") == 0.75);  // nothing has the last class
  CHECK(report.at("confusion").at("classes") == json({"bright", "dark", "always", "never"}));
  CHECK(report.at("confusion").at("matrix").at(3) == json({{10, 0}, {0, 0}}));
  CHECK(report.at("confusion").at("support") == json({5, 5, 10, 0}));
  CHECK_THAT(sets.run_well("eval", "training.max_duration=30ep"), ContainsSubstring("micro mean"));
  for (const std::string& line : lines_of(sets.run_well("predict", "training.max_duration=30ep"))) {
    const json sample = json::parse(line);
    CHECK(sample.at("labels") == sample.at("classes"));
    CHECK(sample.at("names") ==
          (sample.at("labels").at(0) == 0 ? json({"bright", "always"}) : json({"dark", "always"})));
    CHECK(sample.at("probabilities").size() == 4);
  }
  const json image =
      json::parse(sets.run_well("predict", "training.max_duration=30ep --top 2 val/dark/100.png"));
  CHECK(image.at("names") == json({"dark", "always"}));
  CHECK(image.at("probabilities").size() == 2);
  CHECK(!image.contains("labels"));
  for (const char* split : {"train", "val"})
    sets.workspace.write(std::string(split) + "/labels.csv",
                         "file,label\nbright/100.png,x\ndark/100.png,y\n");
  sets.refuse("predict", "training.max_duration=30ep", 78,
              "binary_cross_entropy needs a CSV file with the header file,CLASS");
  for (const char* split : {"train", "val"}) sets.write_labels(split, "file,bright,dark,always,never");
  for (const char* command : {"report run", "runs run", "watch run"}) {
    CHECK(run_shell("\"$TRAINER\" " + std::string(command), sets.workspace.path()).code == 0);
  }
  CHECK_THAT(
      run_shell("\"$TRAINER\" data stats --config r.yaml data.labels=labels.csv loss=binary_cross_entropy "
                "'model.layers=[flatten, linear: 4]' 'validation.metrics=[]'",
                sets.workspace.path())
          .output,
      ContainsSubstring("always         40"));
}

TEST_CASE("several labels: a share of each for validation, and earlier runs keep their split") {
  const LabelSets sets;
  const std::string half = "data.val=null data.val_fraction=0.5 training.max_duration=1ep ";
  for (int i = 102; i < 120; ++i)  // two dark ones are left
    std::filesystem::remove(sets.workspace.path() / ("train/dark/" + std::to_string(i) + ".png"));
  sets.write_labels("train", "file,bright,dark,always,never");
  const json report = json::parse(sets.run_well("data stats", half + "--json"));
  CHECK(report.at("train").at("samples") == 11);
  for (const char* split : {"train", "val"}) {
    const json& classes = report.at(split).at("classes");
    CHECK(classes.at(0).at("samples") == 10);
    CHECK(classes.at(1).at("samples") == 1);
  }
  CHECK(report.at("classes_without_validation") == json::array());
  const json without =
      json::parse(sets.run_well("data stats", "data.val=null 'validation.metrics=[]' --json"));
  CHECK(!without.contains("val"));
  CHECK(without.at("train").at("classes").at(3) == json({{"name", "never"}, {"samples", 0}}));
  CHECK(without.at("classes_without_validation") == json({"bright", "dark", "always"}));
  const std::string batch = "training.global_batch_size=2 ";
  sets.run_well("train", half + batch + "data.stratify=false");
  sets.refuse("train", half + batch, 78, "takes its share of each class now, but the run in run was begun");
  sets.run_well("train", half + batch + "run.output_dir=other");
  CHECK(json::parse(sets.run_well("eval", half + batch + "run.output_dir=other --json"))
            .at("confusion")
            .at("support") == json({10, 1, 11, 0}));
}

TEST_CASE("several labels: another file of labels is noticed at a resume, and other names of classes too") {
  const LabelSets sets;
  sets.run_well("train", "training.max_duration=1ep");
  const std::string more = "training.max_duration=2ep 'run.allow_changes=[training.max_duration]'";
  sets.write_labels("train", "file,bright,dark,ever,never");
  sets.write_labels("val", "file,bright,dark,ever,never");
  sets.refuse("train", more, 78, "other class names");
  sets.write_labels("train", "file,bright,dark,always,never");
  sets.write_labels("val", "file,bright,dark,always,never");
  std::string csv = sets.workspace.read("train/labels.csv");
  csv.replace(csv.find(",0,1,1,0"), 8, ",0,1,1,1");
  sets.workspace.write("train/labels.csv", csv);
  sets.refuse("train", more, 78, "other labels");
}

TEST_CASE("several labels: data and loss must suit each other, with the place of what to change") {
  const LabelSets sets;
  const std::string line = "command line:";
  sets.refuse("train", "loss=cross_entropy 'validation.metrics=[top1]'", 78,
              "loss.name: cross_entropy takes one label for each image, and the file of data.labels in "
              "data.train (train, ");
  sets.refuse(
      "train", "'model.layers=[flatten, linear: 5]'", 78,
      "the network has 5 outputs, data.train (train, r.yaml:6:3) has 4 classes; set out_features to 4");
  sets.refuse("train", "'loss={name: binary_cross_entropy, pos_weight: [1, 2]}'", 78,
              "loss.pos_weight: needs 4 numbers, one for each class of the network's output, got 2");
  sets.refuse("train", "'loss={name: binary_cross_entropy, pos_weight: [0, 0, 0, 0]}'", 78,
              "loss.pos_weight: are all 0");
  sets.refuse("train", "'validation.metrics=[top1]'", 78,
              "top1 is not measured in multi_label (loss.name: binary_cross_entropy); set validation.metrics "
              "to some of: accuracy,");
  sets.refuse("plan", "data.labels=null", 78, "data.format: image_folder has one label for each sample");
  sets.refuse("plan", "data.format=record data.labels=null", 78,
              "data.format: record has one label for each sample");
  sets.workspace.write("train/labels.csv", "file,label\nbright/100.png,x\ndark/100.png,y\n");
  sets.workspace.write("val/labels.csv", "file,label\nbright/100.png,x\ndark/100.png,y\n");
  sets.refuse("train", "", 78,
              "loss.name: binary_cross_entropy needs a CSV file with the header file,CLASS,...");
}

TEST_CASE("several labels: a network of single labels predicts no split that has sets of them") {
  const LabelSets sets;
  const std::string single =
      "loss=cross_entropy 'validation.metrics=[top1]' 'model.layers=[flatten, linear: 4]'";
  for (const char* split : {"train", "val"})
    sets.workspace.write(std::string(split) + "/labels.csv",
                         "file,label\nbright/100.png,bright\nbright/101.png,never\ndark/100.png,dark\n"
                         "dark/101.png,always\n");
  sets.run_well("train", "training.max_duration=1ep training.global_batch_size=2 " + single);
  sets.write_labels("val", "file,always,bright,dark,never");
  sets.refuse(
      "predict", "training.max_duration=1ep training.global_batch_size=2 " + single, 78,
      "loss.name: cross_entropy takes one label for each image, and the file of data.labels in data.val");
}

TEST_CASE("several labels: mixing, micro-batches, averages and packed samples") {
  const LabelSets sets;
  const auto losses = [&](const std::string& more) {
    sets.run_well("train", "training.max_duration=3ep logging.interval=1ba run.output_dir=r " + more);
    const std::vector<double> all = losses_in(sets.workspace.read("r/metrics.jsonl"), "train");
    std::filesystem::remove_all(sets.workspace.path() / "r");
    return all;
  };
  const std::vector<double> whole = losses(""), parts = losses("training.micro_batch_size=1");
  REQUIRE(whole.size() == parts.size());
  for (size_t i = 0; i < whole.size(); ++i) CHECK(parts[i] == Approx(whole[i]).epsilon(1e-5));
  CHECK(losses("'data.mix={mixup: 0.5}'") != whole);
  CHECK(losses("'training.ema={decay: 0.9}'") == whole);
  sets.refuse("data pack", "--out x.rec", 78,
              "data.labels: gives several labels for each image, and a packed sample has one");
}

TEST_CASE(
    "an autoencoder on images without regard to labels: trains, is evaluated, and gives errors and images") {
  const LabelSets sets;
  const std::string words =
      "data.labels=null loss=mse 'validation.metrics=[]' 'data.augment=[]' 'data.eval_transform=[]' "
      "data.format=synthetic 'model.input=[3, 4, 4]' "
      "'model.layers=[conv2d: {out_channels: 8, kernel_size: 4, name: c}, conv_transpose2d: {out_channels: "
      "3, "
      "kernel_size: 4}]' training.max_duration=3ep ";
  sets.run_well("train", words);
  const std::vector<double> losses = losses_in(sets.workspace.read("run/metrics.jsonl"), "validation");
  REQUIRE(losses.size() == 3);
  CHECK(losses[2] < losses[0]);
  CHECK(json::parse(sets.run_well("eval", words + "--json")).at("loss").get<double>() ==
        Approx(losses[2]).epsilon(1e-6));
  double mse = 0;
  const auto lines =
      lines_of(sets.run_well("predict", words + "--images drawn --gallery page.html --format jsonl"));
  for (const std::string& line : lines) {
    const json sample = json::parse(line);
    CHECK(sample.size() == 3);
    mse += sample.at("mse").get<double>() / static_cast<double>(lines.size());
    CHECK(sample.at("image") == "drawn/sample-" + sample.at("sample").dump() + ".png");
    CHECK(sets.workspace.read(sample.at("image")).substr(1, 3) == "PNG");
  }
  CHECK(mse == Approx(losses[2]).epsilon(1e-6));
  const std::string page = sets.workspace.read("page.html");
  CHECK_THAT(page, ContainsSubstring("prediction for sample 0") && ContainsSubstring("mse "));
  // Parts of a job array share a folder, and name their files as all samples together do.
  std::string joined;
  for (const char* part : {"2/2", "1/2"}) {
    const std::string of_part = sets.run_well("predict", words + "--images parts --part " + part);
    joined.insert(0, of_part);
  }
  std::vector<std::string> of_parts = lines_of(joined);
  REQUIRE(of_parts.size() == lines.size());
  for (const std::string& line : of_parts) {
    const std::string image = json::parse(line).at("image");
    CHECK(sets.workspace.read(image) == sets.workspace.read("drawn" + image.substr(image.find('/'))));
  }
  sets.refuse("predict", words + "--images parts --part 1/2", 64, "expected no file sample-0.png");
  // The reconstruction of one that was drawn is another image of the same size.
  const json again = json::parse(sets.run_well("predict", words + "--images twice drawn/sample-3.png"));
  CHECK(again.at("image") == "twice/sample-3.png");
  // Names count over all images, so that no part takes the name of another's.
  const json second = json::parse(
      sets.run_well("predict", words + "--images both --part 2/2 drawn/sample-3.png twice/sample-3.png"));
  CHECK(second.at("image") == "both/sample-3-2.png");
  sets.refuse("predict", words + "--images drawn", 64, "--images drawn: expected a new or an empty folder");
  sets.refuse("predict", words + "--images run/log.txt", 64, "expected a new or an empty folder");
  sets.refuse("predict", words + "--tta flip", 64,
              "--tta flip averages probabilities, and reconstruction has none");
  sets.refuse("predict", words + "--errors-only", 64, "--errors-only needs labels of whole images");
  const std::string other = words + "run.output_dir=other ";
  sets.refuse("train", other + "data.mix.mixup=0.5", 78, "data.mix: mixes labels");
  sets.refuse("train", other + "'model.layers=[flatten, linear: 9]'", 78,
              "with loss.name: mse the network's output must have the shape of its input, 3x4x4, got 9");
  // A denoising one is measured with the same noise each time, and restores the images that it is given.
  const std::string noisy = words + "'data.corruption=[gaussian_noise: 0.3]' run.output_dir=noisy ";
  sets.run_well("train", noisy);
  const std::vector<double> denoised = losses_in(sets.workspace.read("noisy/metrics.jsonl"), "validation");
  REQUIRE(denoised.size() == 3);
  CHECK(denoised[2] > losses[2]);
  CHECK(json::parse(sets.run_well("eval", noisy + "--json")).at("loss").get<double>() ==
        Approx(denoised[2]).epsilon(1e-6));
  const json without = json::parse(
      sets.run_well("eval", words + "run.resume=noisy/model.safetensors run.output_dir=noisy --json"));
  double given = 0;
  const auto restored = lines_of(sets.run_well("predict", noisy + "--format jsonl"));
  for (const std::string& line : restored)
    given += json::parse(line).at("mse").get<double>() / static_cast<double>(restored.size());
  CHECK(given == Approx(without.at("loss").get<double>()).epsilon(1e-6));
  sets.refuse("train", noisy + "data.cache=device", 78,
              "data.cache: device does not support data.corruption");
  sets.refuse(
      "train", words + "'validation.metrics=[top1]'", 78,
      "top1 is not measured in reconstruction (loss.name: mse); set validation.metrics to some of: psnr");
}

}  // namespace trainer

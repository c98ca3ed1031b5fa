// SPDX-License-Identifier: Apache-2.0
// From images and masks to an overlay; what is wrong with masks is named.
#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include "tests/catch.h"

#include "core/data/images/decode.h"
#include "core/data/images/decode_png.h"
#include "core/data/images/encode_png.h"
#include "core/data/images/pixel_classes.h"
#include "tests/app/command.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

/// A disc (class 1) left of a square (class 2) on a dark ground, at places and sizes of their own.
struct Scene {
  explicit Scene(int number) {
    int64_t state = number * 2654435761 % 1000003;
    const auto next = [&](int64_t below) { return (state = state * 48271 % 2147483647) % below; };
    height = 30 + next(10), width = 44 + next(8);
    const int64_t y = 10 + next(10), x = 9 + next(6), top = 4 + next(8), left = 25 + next(5),
                  side = 8 + next(6);
    image.resize(3, height, width);
    for (int64_t v = 0; v < height; ++v) {
      for (int64_t u = 0; u < width; ++u) {
        const bool is_disc = (v - y) * (v - y) + (u - x) * (u - x) <= 49;
        const bool is_square = v >= top && v < top + side && u >= left && u < left + side;
        mask.push_back(static_cast<uint8_t>(is_disc ? 1 : is_square ? 2 : 0));
        for (int64_t c = 0; c < 3; ++c) {
          const int64_t colour = is_disc ? 200 - 40 * c : is_square ? 60 + 70 * c : 40;
          image.pixels[static_cast<size_t>((c * height + v) * width + u)] =
              static_cast<uint8_t>(colour + next(30));
        }
      }
    }
  }

  std::string image_png() const { return encode_png(image.pixels, {3, height, width}); }
  std::string mask_png() const { return mask_png(mask); }
  std::string mask_png(const std::vector<uint8_t>& other) const {
    return encode_png(other, {1, height, width}, class_palette());
  }

  int64_t height, width;
  Image image;
  std::vector<uint8_t> mask;
};

/// Scenes `set/images/00.png`, … with masks of the same names in `set/masks`; values below 128 stand for
/// themselves.
void draw_scenes(const Workspace& workspace, int count) {
  for (const char* folder : {"set/images", "set/masks"}) fs::create_directories(workspace.path() / folder);
  for (int i = 0; i < count; ++i) {
    const Scene scene(i);
    const std::string name = std::string(i < 10 ? "0" : "") + std::to_string(i) + ".png";
    workspace.write("set/images/" + name, scene.image_png());
    workspace.write("set/masks/" + name, scene.mask_png());
  }
}

Outcome run_here(const Workspace& workspace, const std::vector<std::string>& words, int expected = 0) {
  Outcome outcome = run_trainer(words, workspace.path());
  INFO(outcome.errors);
  REQUIRE(outcome.code == expected);
  return outcome;
}

std::vector<uint8_t> bytes_of(const Workspace& workspace, const std::string& name) {
  const std::string text = workspace.read(name);
  return {text.begin(), text.end()};
}

std::vector<double> values_of(const std::string& metrics, const std::string& name) {
  std::vector<double> found;
  for (const std::string& line : lines_of(metrics)) {
    const json record = json::parse(line);
    if (record["split"] == "validation") found.push_back(record.at(name));
  }
  return found;
}

/// Changes the mask of scene 03 and expects training to refuse it, or to go on without it.
void check_refused(const Workspace& workspace, const std::string& mask, const std::string& reason) {
  const std::string good = workspace.read("set/masks/03.png");
  if (mask == "missing") {
    fs::remove(workspace.path() / "set/masks/03.png");
  } else {
    workspace.write("set/masks/03.png", mask);
  }
  INFO(reason);
  const std::vector<std::string> train = {"--config",
                                          "set.yaml",
                                          "training.max_duration=1ep",
                                          "data.val_fraction=0",
                                          "validation.metrics=[]",
                                          "run.output_dir=refused"};
  const Outcome ends = run_here(workspace, train, 65);
  CHECK_THAT(ends.errors, ContainsSubstring("set/masks/03.png: the mask of set/images/03.png: " + reason) &&
                              ContainsSubstring("more than data.error_budget"));
  CHECK_THAT(workspace.read("refused/bad_samples.txt"),
             ContainsSubstring("set/masks/03.png: ") && ContainsSubstring(reason));
  if (mask.empty()) {  // all are the same to what follows
    std::vector<std::string> tolerant = train;
    tolerant.back() = "run.output_dir=tolerant";
    tolerant.emplace_back("data.error_budget=10");
    CHECK_THAT(run_here(workspace, tolerant).errors,
               ContainsSubstring(reason + "; using the next readable sample instead"));
  }
  for (const char* run : {"refused", "tolerant"}) fs::remove_all(workspace.path() / run);
  workspace.write("set/masks/03.png", good);
}

}  // namespace

TEST_CASE("from a folder of images and masks to an overlay") {
  const Workspace workspace;
  draw_scenes(workspace, 40);
  const Outcome made = run_here(workspace, {"init", "set"});
  CHECK_THAT(made.output,
             ContainsSubstring("set: image_folder with masks, 40 training samples of 3 classes"));
  CHECK_THAT(workspace.read("set.yaml"), ContainsSubstring("out_channels: 3,") &&
                                             ContainsSubstring("train: set/images\n") &&
                                             ContainsSubstring("dir: set/masks\n"));
  run_here(workspace, {"--config", "set.yaml", "training.max_duration=6ep", "lr_scheduler.warmup=0ep",
                       "run.output_dir=run"});
  for (const char* metric : {"mean_iou", "dice"}) {
    const std::vector<double> values = values_of(workspace.read("run/metrics.jsonl"), metric);
    INFO(metric << " from " << values.front() << " to " << values.back());
    CHECK(values.size() == 6);
    CHECK(values.back() > values.front() + 0.1);
    CHECK(values.back() > 0.75);
  }
  CHECK_THAT(run_here(workspace, {"eval", "--config", "set.yaml", "run.output_dir=run"}).output,
             ContainsSubstring("mean_iou 0.") && ContainsSubstring("f1       iou   support"));

  // Other scenes, not those of training.
  fs::create_directories(workspace.path() / "new/deep");
  const Scene first(1000), second(1001);
  workspace.write("new/a.png", first.image_png());
  workspace.write("new/deep/b.png", second.image_png());
  const Outcome found = run_here(
      workspace, {"predict", "--config", "set.yaml", "run.output_dir=run", "--images", "out", "new"});
  const json line = json::parse(lines_of(found.output).at(1));
  CHECK(line["file"] == "new/deep/b.png");
  CHECK(line["classes"][0] == 0);
  CHECK(line["mask"] == "out/deep/b_mask.png");
  CHECK(line["overlay"] == "out/deep/b_overlay.png");
  for (const auto& [name, scene] : {std::pair{"out/a", &first}, std::pair{"out/deep/b", &second}}) {
    std::vector<uint8_t> mask;
    decode_png_values(bytes_of(workspace, std::string(name) + "_mask.png"), scene->height, scene->width,
                      mask);
    int64_t right = 0;
    for (size_t i = 0; i < mask.size(); ++i) right += mask[i] == scene->mask[i];
    CHECK(static_cast<double>(right) / static_cast<double>(mask.size()) > 0.9);
    Image overlay;
    decode_image(bytes_of(workspace, std::string(name) + "_overlay.png"), WholeView(), kMaxPixels, overlay);
    CHECK(overlay.height == scene->height);
    for (size_t i = 0; i < overlay.pixels.size(); ++i) {
      const uint8_t own = mask[i % mask.size()];
      const int colour = class_palette()[own][i / mask.size()], pixel = scene->image.pixels[i];
      REQUIRE(overlay.pixels[i] == (own == 0 ? pixel : (pixel + colour) / 2));
    }
  }

  const Outcome table =
      run_here(workspace, {"predict", "--config", "set.yaml", "run.output_dir=run", "--images", "more",
                           "--gallery", "page.html", "--tta", "flip", "--format", "csv", "new"});
  const std::vector<std::string> rows = lines_of(table.output);
  REQUIRE(rows.size() == 3);
  CHECK_THAT(rows[0],
             ContainsSubstring("file,classes,") && ContainsSubstring("fractions,mask,overlay,error"));
  CHECK_THAT(rows[2], ContainsSubstring("new/deep/b.png,0;") &&
                          ContainsSubstring(",more/deep/b_mask.png,more/deep/b_overlay.png,"));
  CHECK_THAT(workspace.read("page.html"), ContainsSubstring("<b>0 0."));

  // The name of a folder may begin with that of another one.
  fs::create_directories(workspace.path() / "new2");
  fs::copy_file(workspace.path() / "new/a.png", workspace.path() / "new2/c.png");
  run_here(workspace,
           {"predict", "--config", "set.yaml", "run.output_dir=run", "--images", "both", "new", "new2"});
  CHECK(fs::exists(workspace.path() / "both/a_mask.png"));
  CHECK(fs::exists(workspace.path() / "both/c_mask.png"));
  CHECK_FALSE(fs::exists(workspace.path() / "new2/c_mask.png"));

  const auto refused = [&](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"predict",  "--config", "set.yaml", "run.output_dir=run",
                                      "--images", folder};
    words.insert(words.end(), more.begin(), more.end());
    return run_here(workspace, words, 64).errors;
  };
  CHECK_THAT(refused("new/out", {"new"}),
             ContainsSubstring("--images new/out: is within new, which has images or masks"));
  CHECK_THAT(refused("set/images", {"new/a.png"}), ContainsSubstring("which has images"));
  CHECK_THAT(refused("set/masks/deep", {"new/a.png"}), ContainsSubstring("which has images"));
  CHECK_THAT(refused("new/.", {"new/a.png"}), ContainsSubstring("which has images"));
  CHECK_THAT(refused("out", {"new/a.png", "set/../new/a.png"}),
             ContainsSubstring("would have the same files there"));
}

TEST_CASE("masks that do not fit their images are refused with file and pixel, within the error budget") {
  const Workspace workspace;
  draw_scenes(workspace, 12);
  run_here(workspace, {"init", "set"});
  const Scene scene(3);
  const auto size = std::to_string(scene.width) + "x" + std::to_string(scene.height);
  std::vector<uint8_t> mask = scene.mask;
  mask[static_cast<size_t>(5 * scene.width + 7)] = 9;
  check_refused(workspace, scene.mask_png(mask),
                "the pixel at x 7, y 5 has the value 9, expected a label below 3, the network's number of "
                "classes, or 255, loss.ignore_index");
  check_refused(workspace, encode_png(std::vector<uint8_t>(6), {1, 2, 3}, class_palette()),
                "expected the image's size, " + size + " pixels, found 3x2");
  check_refused(workspace, "missing", "cannot be read: No such file or directory");
  check_refused(workspace, scene.image_png(),
                "a mask must be a grey or palette PNG of up to 8 bits, found RGB of 8 bits");
  check_refused(workspace, "", "the file is empty");
  check_refused(workspace, "GIF89a", "not a PNG by its first bytes");
  check_refused(workspace, workspace.read("set/masks/03.png").substr(0, 900),
                "the file ends within the image");
}

TEST_CASE(
    "a run with masks resumes with the same results, and not with another mask; data commands know masks") {
  const Workspace workspace;
  draw_scenes(workspace, 12);
  workspace.write("set/classes.txt", "ground\ndisc\nsquare\n");
  CHECK_THAT(run_here(workspace, {"init", "set"}).output, ContainsSubstring("(ground, disc, square)"));
  const auto train = [&](const std::string& run, const std::vector<std::string>& more, int expected = 0) {
    std::vector<std::string> words = {"--config", "set.yaml", "training.max_duration=4ba",
                                      "run.output_dir=" + run, "checkpoint.interval=2ba"};
    words.insert(words.end(), more.begin(), more.end());
    return run_here(workspace, words, expected);
  };
  train("whole", {});
  train("parts", {"run.resume=whole/checkpoints/step-00000002", "data.workers=3"});
  CHECK(workspace.read("parts/model.safetensors") == workspace.read("whole/model.safetensors"));
  const Scene other(3);
  workspace.write("set/masks/03.png", other.mask_png(std::vector<uint8_t>(other.mask.size())));
  CHECK_THAT(train("others", {"run.resume=whole/checkpoints/step-00000002"}, 78).errors,
             ContainsSubstring("other contents"));
  const Outcome stats = run_here(workspace, {"data", "stats", "--config", "set.yaml"});
  CHECK_THAT(stats.output,
             ContainsSubstring("pixels\n") && ContainsSubstring("square") && ContainsSubstring("(ignored)"));
  CHECK_THAT(run_here(workspace, {"data", "pack", "--config", "set.yaml", "--out", "x.rec"}, 78).errors,
             ContainsSubstring("data.masks: packed samples have no room for masks"));
}

TEST_CASE("two ranks: masks of different valid pixels give the losses and metrics of one rank") {
  if (!has_mpi()) return;
  const Workspace workspace;
  draw_scenes(workspace, 12);
  for (int i = 0; i < 12; i += 3) {  // from a fifth to most of every third mask is not counted
    const Scene scene(i);
    std::vector<uint8_t> mask = scene.mask;
    std::fill_n(mask.begin(), scene.width * (scene.height * (1 + i / 3) / 5), uint8_t{255});
    workspace.write("set/masks/" + std::string(i < 10 ? "0" : "") + std::to_string(i) + ".png",
                    scene.mask_png(mask));
  }
  run_here(workspace, {"init", "set"});
  const auto metrics_of = [&](const std::string& ranks) {
    const Outcome outcome = run_ranks(
        "\"$TRAINER\" --config set.yaml training.max_duration=4ba training.global_batch_size=4 "
        "'optimizer={name: sgd, lr: 0.1, momentum: 0.9}' parallelism.sync_batch_norm=true device.type=cpu "
        "device.threads=1 logging.interval=1ba validation.interval=2ba parallelism.timeout=20s "
        "run.output_dir=run-" +
            ranks + " parallelism.data=" + ranks,
        workspace.path());
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return workspace.read("run-" + ranks + "/metrics.jsonl");
  };
  const std::string alone = metrics_of("1"), shared = metrics_of("2");
  for (const char* split : {"train", "validation"}) {
    const std::vector<double> expected = losses_in(alone, split), found = losses_in(shared, split);
    REQUIRE(expected.size() == (split[0] == 't' ? 4 : 2));
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).epsilon(1e-5));
  }
  for (const char* metric : {"mean_iou", "dice"}) {
    const std::vector<double> expected = values_of(alone, metric), found = values_of(shared, metric);
    REQUIRE(found.size() == expected.size());
    // A pixel between two classes may change sides by a rounding.
    for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(1e-3));
  }
}

}  // namespace trainer

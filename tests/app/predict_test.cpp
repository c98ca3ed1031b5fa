// SPDX-License-Identifier: Apache-2.0
// What `predict` prints and draws of images.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/app/images.h"
#include "tests/catch.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using Strings = std::vector<std::string>;

/// A network that distinguishes `bright` from `dark` images, and folders of these: `shown` has a dark image
/// in the folder of bright ones.
class Shown {
 public:
  Shown() {
    workspace.write("r.yaml", kImageRecipe);
    fill_with_images(workspace, "train", 20);
    fill_with_images(workspace, "val", 5);
    fill_with_images(workspace, "shown", 2);
    workspace.write("shown/bright/" + kOddName, image(true));
    const Outcome trained = run_trainer({"--config", "r.yaml"}, workspace.path());
    INFO(trained.errors);
    REQUIRE(trained.code == 0);
  }

  Outcome predict(Strings words) const {
    words.insert(words.begin(), {"predict", "run"});
    return run_trainer(words, workspace.path());
  }
  std::string predict_well(const Strings& words) const {
    const Outcome outcome = predict(words);
    INFO(outcome.errors);
    REQUIRE(outcome.code == 0);
    return outcome.output;
  }
  void refuse(const Strings& words, const std::string& message) const {
    const Outcome outcome = predict(words);
    CHECK(outcome.code == 64);
    CHECK(outcome.output.empty());
    CHECK_THAT(outcome.errors, ContainsSubstring(message));
  }

  const std::string kOddName = "a \"b\",\n<script>é.png";
  Workspace workspace;
};

/// The values of a CSV file, as RFC 4180 has them.
std::vector<Strings> csv_rows(const std::string& text) {
  std::vector<Strings> rows(1, Strings(1));
  bool is_quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && is_quoted && text.substr(i + 1, 1) == "\"") {
      rows.back().back() += text[i++];
    } else if (text[i] == '"') {
      is_quoted = !is_quoted;
    } else if (text[i] == ',' && !is_quoted) {
      rows.back().emplace_back();
    } else if (text[i] == '\n' && !is_quoted) {
      rows.emplace_back(1);
    } else {
      rows.back().back() += text[i];
    }
  }
  rows.pop_back();  // after the last line break
  return rows;
}

/// A BMP of 4x4 pixels, brighter from column to column or, `mirrored`, the reverse.
std::string stripes(bool mirrored) {
  std::string file = {'B', 'M', 102, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0, 40,
                      0,   0,   0,   4, 0, 0, 0, 4, 0, 0, 0,  1, 0, 24};
  file.resize(54);
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 4; ++x) file += std::string(3, static_cast<char>(20 + 50 * (mirrored ? 3 - x : x)));
  return file;
}

}  // namespace

TEST_CASE("predict: folders named by classes are labels, and the same predictions come in each form") {
  const Shown shown;
  std::vector<json> lines;
  for (const std::string& line : lines_of(shown.predict_well({"shown", "--top", "2"})))
    lines.push_back(json::parse(line));
  REQUIRE(lines.size() == 5);
  for (const json& line : lines) {
    const std::string file = line["file"];
    CHECK(line["label"] == (file.starts_with("shown/bright/") ? 0 : 1));
    CHECK((line["class"] == line["label"]) != (file == "shown/bright/" + shown.kOddName));
  }
  for (const Strings& words : {Strings{"shown/bright/"}, Strings{"shown/../shown/bright"},
                               Strings{"shown/bright/100.png", "shown/dark"}})
    CHECK(json::parse(lines_of(shown.predict_well(words))[0])["label"] == 0);
  shown.workspace.write("new.png", image(true));
  CHECK_FALSE(json::parse(lines_of(shown.predict_well({"shown", "new.png"}))[0]).contains("label"));

  const auto rows = csv_rows(shown.predict_well({"shown", "--format", "csv", "--top", "2"}));
  REQUIRE(rows.size() == 6);
  CHECK(rows[0] == Strings{"file", "label", "label_name", "class", "name", "probability_1", "class_2",
                           "probability_2", "error"});
  for (size_t i = 0; i < lines.size(); ++i) {
    const Strings& row = rows[i + 1];
    REQUIRE(row.size() == rows[0].size());
    CHECK(row[0] == lines[i]["file"]);
    CHECK(row[1] == lines[i]["label"].dump());
    CHECK(row[2] == (row[1] == "0" ? "bright" : "dark"));
    CHECK(row[4] == lines[i]["name"]);
    CHECK(std::stod(row[5]) == lines[i]["probabilities"][0][1].get<double>());
    CHECK(row[6] == lines[i]["probabilities"][1][0].dump());
  }
  CHECK(csv_rows(shown.predict_well({"shown", "--format", "csv"}))[0] ==
        Strings{"file", "label", "label_name", "class", "name", "probability", "error"});
  CHECK(csv_rows(shown.predict_well({"new.png", "--format", "csv", "--all"}))[0] ==
        Strings{"file", "class", "name", "probability_bright", "probability_dark", "error"});

  shown.workspace.write(std::string(150, 'n') + ".png", image(false));
  const auto table = lines_of(shown.predict_well({"shown", "--format", "table"}));
  REQUIRE(table.size() == 6);
  CHECK_THAT(table[0],
             Catch::Matchers::StartsWith("file ") && Catch::Matchers::EndsWith("label   prediction"));
  int wrong = 0;
  for (const std::string& line : table)
    wrong += line.find("  bright  wrong: dark 0.") != std::string::npos ? 1 : 0;
  CHECK(wrong == 1);
  for (const std::string& line :
       lines_of(shown.predict_well({std::string(150, 'n') + ".png", "--format", "table"})))
    CHECK(line.size() <= 100);
}

TEST_CASE("predict: only the errors are printed, or what to do where labels are missing") {
  const Shown shown;
  const Outcome errors = shown.predict({"shown", "--errors-only"});
  CHECK(errors.code == 0);
  CHECK_THAT(errors.errors, ContainsSubstring("1 of 5 samples are predicted wrongly"));
  REQUIRE(lines_of(errors.output).size() == 1);
  CHECK(json::parse(errors.output)["file"] == "shown/bright/" + shown.kOddName);
  // Of the recipe's labels there is none; with swapped folders all are wrong.
  CHECK(shown.predict_well({"--errors-only"}).empty());
  fs::rename(shown.workspace.path() / "shown/dark", shown.workspace.path() / "shown/other");
  fs::rename(shown.workspace.path() / "shown/bright", shown.workspace.path() / "shown/dark");
  shown.refuse({"shown", "--errors-only"},
               "--errors-only needs labels, and shown/other/100.png is in no folder "
               "named by a class (bright, dark)");
  fs::rename(shown.workspace.path() / "shown/other", shown.workspace.path() / "shown/bright");
  const auto swapped = lines_of(shown.predict_well({"shown", "--errors-only", "--format", "csv"}));
  REQUIRE(swapped.size() == 5);
  double before = 1;
  for (size_t i = 1; i < swapped.size(); ++i) {
    const Strings row = csv_rows(swapped[i] + "\n")[0];
    CHECK(row[1] != row[3]);
    CHECK(std::stod(row[5]) <= before);
    before = std::stod(row[5]);
  }
}

TEST_CASE("predict: samples that cannot be read are named, in each form, and the others are predicted") {
  const Shown shown;
  shown.workspace.write("shown/dark/damaged.png", image(true).substr(0, 30));
  for (const Strings& form :
       {Strings{}, Strings{"--format", "csv"}, Strings{"--format", "table"}, Strings{"--tta", "flip"}}) {
    Strings words = {"shown", "gone\x1b.png", "--output", "out"};
    words.insert(words.end(), form.begin(), form.end());
    const Outcome outcome = shown.predict(words);
    CHECK(outcome.code == 65);
    CHECK_THAT(outcome.errors,
               ContainsSubstring("warning: shown/dark/damaged.png: the file ends within the image\n") &&
                   ContainsSubstring("warning: gone\\x1b.png: ") &&
                   ContainsSubstring("error: 2 of 7 samples could not be read\n"));
    CHECK_THAT(shown.workspace.read("out"), ContainsSubstring("the file ends within the image"));
  }
  const auto rows = csv_rows(shown.predict({"shown", "--format", "csv"}).output);
  CHECK(std::ranges::all_of(rows, [&](const Strings& row) { return row.size() == rows[0].size(); }));
  CHECK(shown.predict({"shown", "--errors-only"}).code == 65);
}

TEST_CASE("predict: a gallery draws the errors first, and nothing of a file's name acts in it") {
  const Shown shown;
  const Outcome outcome = shown.predict({"shown", "--gallery", "page.html"});
  CHECK(outcome.code == 0);
  CHECK(outcome.output == "wrote page.html\n");
  const std::string page = shown.workspace.read("page.html");
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("http") == std::string::npos);
  CHECK_THAT(page, ContainsSubstring("a &quot;b&quot;,\n&lt;script&gt;é.png") &&
                       ContainsSubstring("<i>label: bright</i>"));
  CHECK(page.find("figure class=\"wrong\"") < page.find("figure class=\"right\""));
  size_t images = 0;
  for (size_t at = 0; (at = page.find("src=\"data:image/png;base64,iVBOR", at)) != std::string::npos; ++at)
    ++images;
  CHECK(images == 5);
  // Lines that are asked for come as well.
  CHECK(lines_of(shown.predict_well({"shown", "--gallery", "page.html", "--format", "jsonl"})).size() == 5);
  CHECK(shown.workspace.read("page.html") == page);
  const std::string unlabelled = shown.predict_well({"shown/bright/100.png", "--gallery", "/dev/stdout"});
  CHECK_THAT(unlabelled, ContainsSubstring("<h2>Right</h2>"));
  shown.refuse({"shown", "--gallery", "shown/bright/100.png"}, "shown/bright/100.png");
  shown.refuse({"shown", "--gallery", "page.html", "-o", "page.html"}, "name one file");
  shown.refuse({"shown", "--gallery", "page.html", "-o", "shown/../page.html"}, "name one file");
  shown.refuse({""}, "the name of an image is empty");
}

TEST_CASE("predict: with flips the probabilities are the means of an image and its mirror image") {
  const Shown shown;
  shown.workspace.write("left.bmp", stripes(false));
  shown.workspace.write("right.bmp", stripes(true));
  const auto probabilities = [&](const Strings& more) {
    Strings words = {"left.bmp", "right.bmp", "--all", "data.eval_transform=[resize: 4, center_crop: 4]",
                     "--as-written"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<std::vector<double>> found;
    for (const std::string& line : lines_of(shown.predict_well(words)))
      found.push_back(json::parse(line)["probabilities"].get<std::vector<double>>());
    return found;
  };
  const auto plain = probabilities({}), averaged = probabilities({"--tta", "flip"});
  REQUIRE(plain.size() == 2);
  CHECK(plain[0] != plain[1]);
  for (size_t c = 0; c < 2; ++c) {
    CHECK(averaged[0][c] == Approx((plain[0][c] + plain[1][c]) / 2).epsilon(1e-5));
    CHECK(averaged[0][c] == Approx(averaged[1][c]).epsilon(1e-6));
  }
  shown.refuse({"left.bmp", "--tta", "rotate"}, "--tta");
  shown.refuse({"left.bmp", "--format", "xml"}, "--format");
  shown.refuse({"left.bmp", "--images", "new"}, "--images writes the reconstructions of an autoencoder");
}

TEST_CASE("eval and predict on several ranks give the bytes of one") {
  if (!has_mpi()) return;
  const Shown shown;
  shown.workspace.write("shown/dark/empty.png", "");
  for (const auto& [ranks, words] : std::vector<std::pair<int, std::string>>{
           {2, "eval run --json"},
           {3, "eval run"},
           {3, "predict run --split train"},
           {2, "predict run shown --top 1"},
           {7, "predict run shown --format csv"}}) {  // more than there are images
    const Outcome one = run_shell("\"$TRAINER\" " + words, shown.workspace.path());
    const Outcome several = run_ranks(under_mpirun(ranks, words), shown.workspace.path());
    INFO(words << " on " << ranks << " ranks: " << several.errors);
    CHECK(several.code == one.code);
    CHECK(several.output == one.output);
    if (one.code != 0) CHECK_THAT(several.errors, ContainsSubstring("1 of 6 samples could not be read"));
  }
}

TEST_CASE("predict on several ranks: a file and images are written, and what one process does is refused") {
  if (!has_mpi()) return;
  const Shown shown;
  REQUIRE(shown.predict({"shown", "--output", "one.jsonl"}).code == 0);
  const Outcome several =
      run_ranks(under_mpirun(2, "predict run shown --output two.jsonl"), shown.workspace.path());
  INFO(several.errors);
  CHECK(several.code == 0);
  CHECK(several.output.empty());
  CHECK(shown.workspace.read("two.jsonl") == shown.workspace.read("one.jsonl"));
  for (const char* option : {"--gallery g.html", "--errors-only", "--part 1/2"}) {
    const Outcome refused =
        run_ranks(under_mpirun(2, std::string("predict run shown ") + option), shown.workspace.path());
    CHECK(refused.code == 64);
    CHECK_THAT(refused.errors, ContainsSubstring("is done by one process, but the launcher started 2"));
  }
  const Outcome full =
      run_ranks(under_mpirun(2, "predict run shown --output /dev/full"), shown.workspace.path());
  CHECK(full.code == 74);
  CHECK_THAT(full.errors, ContainsSubstring("No space left on device"));
}

}  // namespace trainer

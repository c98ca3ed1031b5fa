// SPDX-License-Identifier: Apache-2.0
#include "core/data/exclude.h"

#include <filesystem>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/data/formats.h"
#include "tests/data/images/images.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Numbers = std::vector<int64_t>;

/// Eight images of one grey each in two classes, and four more for validation.
class TwoFolders {
 public:
  TwoFolders() {
    for (int i = 0; i < 8; ++i) put("train", i);
    for (int i = 0; i < 4; ++i) put("val", i);
  }
  DataSection section(const std::string& more) const {
    DataSection section = read_section("{format: image_folder" + more + "}");
    section.train = folder_.path("train");
    section.val = FilePath(folder_.path("val"));
    return section;
  }
  DataSection excluding(const std::string& lines, const std::string& more = "") const {
    write_file(folder_.path("x.txt"), lines);
    return section(", exclude: " + folder_.path("x.txt") + more);
  }

 private:
  void put(const std::string& split, int i) const {
    const std::filesystem::path file = std::filesystem::path(folder_.path(split)) /
                                       (i % 2 == 0 ? "even" : "odd") / (std::to_string(i) + " x.png");
    std::filesystem::create_directories(file.parent_path());
    write_file(file.string(), png(draw(4, 4, 1, [i](int, int, int) { return 10 * i; })));
  }
  TemporaryFolder folder_;
};

SourceRequest request_of(Split split) {
  return {.split = split,
          .network_shape = {3, 4, 4},
          .network_classes = 2,
          .stratifies = true,
          .wants_labels = true,
          .seed = 3};
}

std::vector<std::string> names_in(const DataSection& section, Split split) {
  const auto source = open_stored(section, request_of(split));
  std::vector<std::string> names;
  for (int64_t i = 0; i < source->size(); ++i) names.push_back(as_images(*source).exclude_name(i));
  const auto info = peek_source(section, request_of(split));
  CHECK(info->size == source->size());
  CHECK(static_cast<int64_t>(info->labels.size()) == source->size());
  for (size_t i = 0; i < info->labels.size(); ++i)
    CHECK(info->labels[i] == as_images(*source).label_of(static_cast<int64_t>(i)));
  const auto loaded = open_source(section, request_of(split));
  CHECK(loaded->size() == source->size());
  CHECK(info->resident_bytes == loaded->resident_bytes());
  return names;
}

}  // namespace

TEST_CASE(
    "lines of an exclude file are samples of a split by name or number, whatever else is between them") {
  const StoredSamples numbered{.split = Split::train, .size = 5};
  CHECK(parse_excluded("", "x", numbered).empty());
  CHECK(parse_excluded("# why\n\ntrain 4\r\nval 77\ntrain 0", "x", numbered) == Numbers{0, 4});
  StoredSamples named{
      .split = Split::val, .size = 3, .name = [](int64_t i) { return "a b/" + std::to_string(i); }};
  CHECK(parse_excluded("val a b/2\ntrain a b/9\nval a b/0\n", "x", named) == Numbers{0, 2});
  CHECK(left_of({1, 2, 4, 6}, {2, 3, 6}, "x.txt", Split::train) == Numbers{1, 4});
  CHECK(parse_excluded(exclude_line(Split::val, "a b/1"), "x", named) == Numbers{1});
  CHECK_THAT(data_error([&] { exclude_line(Split::val, "a\nb"); }),
             ContainsSubstring("cannot be named in a line"));
  const auto refuses = [](const std::string& text, const StoredSamples& samples, const std::string& message) {
    INFO(text);
    CHECK_THAT(data_error([&] { parse_excluded(text, "x.txt", samples); }), ContainsSubstring(message));
  };
  for (const char* bad : {"5", "-1", "1.0", "0x1", " 1", "99999999999999999999", "a"})
    refuses(std::string("train 1\ntrain ") + bad + "\n", numbered, "x.txt:2: there is no sample '");
  refuses("train 5\n", numbered, "expected a number from 0 to 4");
  refuses("val a b/3\n", named,
          "there is no sample 'a b/3' in data.val: expected the path of an image below");
  refuses("train 1\n\ntrain 1\n", numbered, "x.txt:3: '1' is named in line 1 already");
  for (const char* bad : {"1", "train", "train ", "Train 1", "test 1", " train 1", "train\t1"})
    refuses(bad, numbered, "x.txt:1: expected train or val, a space, and a sample's name or number, found '");
  refuses("val 1\n", {.split = Split::train, .size = 5, .has_val_file = false},
          "x.txt:1: with data.val_fraction");
}

TEST_CASE("excluded samples are left out of both splits, of planning and of the fingerprint") {
  const TwoFolders folders;
  const DataSection all = folders.section("");
  CHECK(names_in(all, Split::train).size() == 8);
  const DataSection fewer = folders.excluding("train even/4 x.png\nval odd/1 x.png\ntrain odd/1 x.png\n");
  CHECK(names_in(fewer, Split::train) == std::vector<std::string>{"even/0 x.png", "even/2 x.png",
                                                                  "even/6 x.png", "odd/3 x.png",
                                                                  "odd/5 x.png", "odd/7 x.png"});
  CHECK(names_in(fewer, Split::val) ==
        std::vector<std::string>{"even/0 x.png", "even/2 x.png", "odd/3 x.png"});
  const Fingerprint before = open_source(all, request_of(Split::train))->fingerprint(),
                    after = open_source(fewer, request_of(Split::train))->fingerprint();
  CHECK(fingerprint_difference(before, after) == "8 samples there and 6 here");
  const DataSection others = folders.excluding("train even/4 x.png\ntrain odd/3 x.png\n");
  CHECK(fingerprint_difference(after, open_source(others, request_of(Split::train))->fingerprint()) ==
        "other excluded samples (data.exclude)");
  CHECK(fingerprint_difference(
            before, open_source(folders.excluding("# none\n"), request_of(Split::train))->fingerprint()) ==
        std::nullopt);
}

TEST_CASE("with val_fraction all other samples stay on their side, and keep their weights") {
  const TwoFolders folders;
  const std::string fraction = ", val_fraction: 0.25";
  const DataSection whole = folders.section(fraction);
  for (const Split split : {Split::train, Split::val}) {
    std::vector<std::string> expected = names_in(whole, split);
    const std::string out = expected.front();
    expected.erase(expected.begin());
    const DataSection fewer = folders.excluding("train " + out + "\n", fraction);
    CHECK(names_in(fewer, split) == expected);
    const Split other = split == Split::train ? Split::val : Split::train;
    CHECK(names_in(fewer, other) == names_in(whole, other));
  }
  const DataSection balanced =
      folders.excluding("train even/0 x.png\ntrain even/2 x.png\n", ", sample_weights: balanced");
  const auto source = open_source(balanced, request_of(Split::train));
  CHECK(std::vector<double>(source->sample_weights().begin(), source->sample_weights().end()) ==
        std::vector<double>{0.5, 0.5, 0.25, 0.25, 0.25, 0.25});
}

TEST_CASE("an exclude file that is missing, names unknown samples or leaves none is refused") {
  const TwoFolders folders;
  const auto error = [&](const DataSection& section, Split split) {
    const std::string planned = data_error([&] { peek_source(section, request_of(split)); });
    CHECK(planned == data_error([&] { open_source(section, request_of(split)); }));
    return planned;
  };
  CHECK_THAT(error(folders.section(", exclude: nowhere.txt"), Split::train),
             ContainsSubstring("data.exclude: there is no file nowhere.txt"));
  CHECK_THAT(error(folders.excluding("train even/0 x.png\nval even/9 x.png\n"), Split::val),
             ContainsSubstring("x.txt:2: there is no sample 'even/9 x.png' in data.val"));
  std::string every;
  for (int i = 0; i < 4; ++i)
    every += "val " + std::string(i % 2 == 0 ? "even/" : "odd/") + std::to_string(i) + " x.png\n";
  CHECK_THAT(error(folders.excluding(every), Split::val),
             ContainsSubstring("(data.exclude) leaves no sample for validation"));
}

}  // namespace trainer

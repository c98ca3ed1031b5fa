// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <set>
#include "tests/catch.h"

#include "core/base/error.h"
#include "core/data/fingerprint.h"
#include "core/data/formats.h"
#include "core/data/images/decode.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/record.h"
#include "core/data/images/sample_weights.h"
#include "core/data/subset.h"
#include "tests/data/images/damage.h"
#include "tests/data/images/images.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

/// Images of one grey each, and a CSV file beside them.
class LabelledFolder {
 public:
  explicit LabelledFolder(const std::string& name = "set") : name_(name) {
    put("1.png", 10), put("2.png", 20), put("deep/er/3.png", 30), put("a, \"b\".png", 40), put("5.png", 50);
  }

  std::unique_ptr<ImageSource> open(const std::string& csv) const {
    write_file(root() + "/labels.csv", csv);
    return open_image_folder({root(), kMaxPixels, root() + "/labels.csv"});
  }
  std::string error(const std::string& csv) const {
    return data_error([&] { open(csv); });
  }
  std::string root() const { return folder_.path(name_); }
  std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  void put(const std::string& name, int grey) const {
    const std::filesystem::path file = std::filesystem::path(root()) / name;
    std::filesystem::create_directories(file.parent_path());
    write_file(file.string(), png(draw(4, 4, 1, [grey](int, int, int) { return grey; })));
  }

  TemporaryFolder folder_;
  std::string name_;
};

/// Label and first pixel of each sample.
std::vector<std::pair<int, int>> labelled_contents(const ImageSource& source) {
  std::vector<std::pair<int, int>> all;
  Image image;
  for (int64_t i = 0; i < source.size(); ++i) {
    source.read(i, image);
    CHECK(source.label_of(i) == image.label);
    all.emplace_back(image.label, image.pixels[0]);
  }
  return all;
}

const std::string kRows =
    "file,label\r\n2.png,dog\r\ndeep/er/3.png,\"ant, red\"\r\n\"a, \"\"b\"\".png\",dog\r\n./1.png,ant\r\n";

TEST_CASE("labels.csv: samples in its order, classes sorted, images without a row left out") {
  const LabelledFolder folder;
  for (const std::string mark : {"", "\xEF\xBB\xBF"}) {
    const auto source = folder.open(mark + kRows);
    CHECK(source->class_names() == std::vector<std::string>{"ant", "ant, red", "dog"});
    CHECK(labelled_contents(*source) == std::vector<std::pair<int, int>>{{2, 20}, {1, 30}, {2, 40}, {0, 10}});
    CHECK(source->sample_name(1) == "deep/er/3.png");
    CHECK(source->sample_file(0) == folder.root() + "/2.png");
    CHECK_THAT(data_error([&] { source->check_labels({2}); }),
               EndsWith("at most 2 labels, the network's number of "
                        "classes, found 3"));
  }
  const auto info = peek_image_folder({folder.root(), kMaxPixels, folder.root() + "/labels.csv"});
  CHECK((info.size == 4 && info.classes == 3));
}

TEST_CASE("labels.csv is packed, and is part of the samples' fingerprint") {
  const LabelledFolder folder;
  const auto source = folder.open(kRows);
  write_file(folder.path("set.record"), packed(*source));
  const auto record = open_record(folder.path("set.record"), kMaxPixels);
  CHECK(record->class_names() == source->class_names());
  CHECK(labelled_contents(*record) == labelled_contents(*source));

  const Fingerprint before = source->fingerprint();
  CHECK(folder.open(kRows)->fingerprint() == before);
  const auto other_label =
      folder.open("file,label\n2.png,ant\ndeep/er/3.png,\"ant, red\"\n\"a, \"\"b\"\".png\",dog\n1.png,ant");
  CHECK_THAT(fingerprint_difference(before, other_label->fingerprint()).value(), ContainsSubstring("labels"));
  const auto other_file =
      folder.open("file,label\n5.png,dog\ndeep/er/3.png,\"ant, red\"\n\"a, \"\"b\"\".png\",dog\n1.png,ant");
  CHECK_THAT(fingerprint_difference(before, other_file->fingerprint()).value(),
             ContainsSubstring("file names"));
}

TEST_CASE("groups of data.split_by are part of the samples' fingerprint, and each sample has one") {
  const LabelledFolder folder;
  const auto opened = [&](const std::string& patients) {
    write_file(folder.path("p.csv"), "file,label,patient\n1.png,a," + patients.substr(0, 1) + "\n2.png,b," +
                                         patients.substr(1, 1) + "\n");
    return open_image_folder({folder.root(), kMaxPixels, folder.path("p.csv"), "patient"});
  };
  const auto source = opened("xx");
  CHECK((source->group_of(0) == 0 && source->group_of(1) == 0));
  CHECK(fingerprint_difference(source->fingerprint(), opened("xy")->fingerprint()) ==
        "other groups (data.split_by)");
  CHECK(!fingerprint_difference(source->fingerprint(), opened("yy")->fingerprint()));
  CHECK_THAT(data_error([&] { opened("x"); }),
             EndsWith("p.csv:3: the field of column 'patient' (data.split_by) is empty"));
  const ImageFolders of_files{folder.root(), kMaxPixels, folder.path("p.csv"), "file"};
  CHECK_THAT(data_error([&] { open_image_folder(of_files); }),
             ContainsSubstring("names the column of the files"));
}

TEST_CASE("labels.csv: what is wrong is refused with file and line") {
  const LabelledFolder folder;
  const std::string file = folder.root() + "/labels.csv:";
  const auto refuses = [&](const std::string& csv, const std::string& message) {
    INFO(csv);
    CHECK_THAT(folder.error(csv), StartsWith(file + message));
  };
  const std::string columns =
      "1: expected a column of the images' files and one of labels, such as file,label, or one of 0 and 1 "
      "for each class; ";
  refuses("", "1: expected a column of the images' files and one of labels, found an empty file");
  refuses("file\n", columns + "there is no other column than that of the files; the columns are 'file'");
  refuses("a,b\nc,d\n", columns + "no field of the first two lines names an image in " + folder.root() +
                            "; the columns are 'a', 'b'");
  refuses("file name,sex,age\n1.png,f,60\n",
          columns + "none is called label, class or target; the columns are 'file name', 'sex', 'age'");
  refuses("1.png,a,60\n", "1: expected a file and a label in a table without a header, found 3 fields");
  refuses("1.png\n", "1: expected a file and a label in a table without a header, found 1 field;");
  refuses("file,label\n", "2: expected a row for each image, found none");
  refuses("file,label\n1.png,a\n2.png\n", "3: expected 2 fields as in the header, found 1");
  refuses("file,label\n1.png,a,b\n", "2: expected 2 fields as in the header, found 3");
  refuses("file,label\n1.png,a\n\n2.png,a\n", "3: an empty line; remove it");
  refuses("file,label\n1.png,\n", "2: the label of '1.png' is empty");
  refuses("file,label\n,a\n", "2: the name of the file is empty");
  refuses("file,label\n1.png,a\nno.png,a\n", "3: there is no image 'no.png' in " + folder.root());
  refuses("file,label\nlabels.csv,a\n", "2: there is no image 'labels.csv'");
  refuses("file,label\n../set/1.png,a\n", "2: there is no image '../set/1.png'");
  refuses("1.png;a\n2.png;\"b\" \n", "2: expected a semicolon or the end of the line");
  refuses("file,label\n1.png,\"a\nb\"\n2.png,c\n./1.png,d\n",
          "5: './1.png' is named in line 2 already; keep one of the rows");
  refuses("file,label\n1.png,\"a\n", "2: a quoted field that does not end");
  const std::string absent = data_error([&] {
    open_image_folder({folder.root(), kMaxPixels, folder.root() + "/no.csv"});
  });
  CHECK_THAT(absent, StartsWith(folder.root() + "/no.csv (data.labels): cannot be read: No such file"));
}

TEST_CASE("labels of other people: any header or none, commas, semicolons or tabs, names without endings") {
  const LabelledFolder folder;
  const auto expected = std::vector<std::pair<int, int>>{{1, 20}, {0, 30}};
  for (const std::string csv :
       {"filename,label\n2.png,dog\ndeep/er/3.png,ant\n", "image;class\n2.png;dog\ndeep/er/3.png;ant\n",
        "Image ID\tBreed\r\n2.png\tdog\r\ndeep/er/3.png\tant\r\n", "breed,img\ndog,2.png\nant,3.png\n",
        "2.png,dog\n3.png,ant\n", "dog;2.png\nant;deep/er/3.png", "id,breed\n2,dog\n3,ant\n",
        "2,dog\ndeep/er/3,ant\n", "image,age,label\n2.png,0,dog\n3.png,1,ant\n",
        "file,diagnosis\n2.png,4\n3.png,0\n", "file,label\n2.png,1\n3.png,0\n",
        "image,malignant\n2.png,1\n3.png,0\n", "\"image;1\",label\n2.png,1\n3.png,0\n",
        "label,scan\n2,2.png\n1,3.png\n", "1,2.png\n0,3.png\n",
        "id,path,label\n1,2.png,dog\n2,3.png,ant\n"}) {
    INFO(csv);
    const auto source = folder.open(csv);
    CHECK(!source->has_label_sets());
    CHECK(labelled_contents(*source) == expected);
  }
  const auto sets =
      folder.open("image,age,dog\n2.png,1,0\n3.png,0,0\n1.png,1,1\n5.png,0,0\n\"a, \"\"b\"\"\",0,0\n");
  CHECK(sets->class_names() == std::vector<std::string>{"age", "dog"});
}

TEST_CASE("labels in a table outside of the folder: paths from there, rows of other folders are counted") {
  const LabelledFolder folder;
  std::filesystem::create_directories(folder.path("set/deep"));
  std::filesystem::create_directories(folder.path("tables"));
  const std::string table = folder.path("tables/t.tsv");
  write_file(table, "path\tclass\n../set/2.png\tdog\n../other/9.png\tbee\nset/3\tx\n5.png\tant\n");
  const ImageFolders folders{folder.root(), kMaxPixels, table};
  const auto source = open_image_folder(folders);
  // The classes are those of the whole table, so that each folder numbers them alike.
  CHECK(source->class_names() == std::vector<std::string>{"ant", "bee", "dog", "x"});
  CHECK(labelled_contents(*source) == std::vector<std::pair<int, int>>{{2, 20}, {0, 50}});
  CHECK(peek_image_folder(folders).skipped.text() ==
        "5 skipped: 3 images without a label, 2 rows of images elsewhere");
  write_file(table, "path\tclass\nno.png\tdog\n");
  CHECK_THAT(data_error([&] { open_image_folder(folders); }),
             ContainsSubstring("t.tsv:2: none of the 1 rows names an image in " + folder.root()));
}

TEST_CASE("a name that several images have is refused with two of them") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("s/a"));
  std::filesystem::create_directories(folder.path("s/b"));
  for (const char* name : {"s/a/1.png", "s/b/1.png"}) write_file(folder.path(name), "");
  write_file(folder.path("s/l.csv"), "id,label\n1,dog\n");
  CHECK_THAT(data_error([&] {
               open_image_folder({folder.path("s"), kMaxPixels, folder.path("s/l.csv")});
             }),
             ContainsSubstring("l.csv:2: '1' names 2 images in ") &&
                 ContainsSubstring("such as a/1.png and b/1.png; write their paths"));
}

/// Rows for all images of a LabelledFolder.
const std::string kSetRows =
    "file,dog,\"ant, red\",cat\r\n2.png,1,0,1\r\ndeep/er/3.png,0,0,0\r\n\"a, \"\"b\"\".png\",0,1,0\r\n"
    "./1.png,1,1,1\r\n5.png,\"0\",0,1";

std::vector<std::vector<int32_t>> sets_of(const ImageSource& source) {
  std::vector<std::vector<int32_t>> sets;
  Image image;
  for (int64_t i = 0; i < source.size(); ++i) {
    source.read(i, image);
    const auto set = source.label_set(image);
    sets.emplace_back(set.begin(), set.end());
  }
  return sets;
}

TEST_CASE("labels.csv with a column for each class: sets of labels, classes in the header's order") {
  const LabelledFolder folder;
  for (const std::string mark : {"", "\xEF\xBB\xBF"}) {
    const auto source = folder.open(mark + kSetRows);
    CHECK(source->has_label_sets());
    CHECK(source->classes() == 3);
    CHECK(source->class_names() == std::vector<std::string>{"dog", "ant, red", "cat"});
    CHECK(sets_of(*source) == std::vector<std::vector<int32_t>>{{0, 2}, {}, {1}, {0, 1, 2}, {2}});
    CHECK(source->sample_name(1) == "deep/er/3.png");
  }
  const auto one_class =
      folder.open("file,only\n2.png,1\n1.png,0\ndeep/er/3.png,0\n5.png,1\n\"a, \"\"b\"\".png\",0\n");
  CHECK(sets_of(*one_class) == std::vector<std::vector<int32_t>>{{0}, {}, {}, {0}, {}});
  const auto info = peek_image_folder({folder.root(), kMaxPixels, folder.root() + "/labels.csv"});
  CHECK((info.size == 5 && info.classes == 1 && info.has_label_sets));
  CHECK(!folder.open(kRows)->has_label_sets());
}

TEST_CASE(
    "labels.csv with a column for each class: its fingerprint tells every 0 and 1, names and their order") {
  const LabelledFolder folder;
  const Fingerprint before = folder.open(kSetRows)->fingerprint();
  CHECK(folder.open(kSetRows)->fingerprint() == before);
  const auto difference = [&](const std::string& from, const std::string& to) {
    std::string csv = kSetRows;
    csv.replace(csv.find(from), from.size(), to);
    return fingerprint_difference(before, folder.open(csv)->fingerprint()).value();
  };
  CHECK(difference("3.png,0,0,0", "3.png,0,1,0") == "other labels");
  CHECK(difference("2.png,1,0,1", "2.png,0,1,1") == "other labels");
  CHECK(difference("dog,\"ant, red\"", "\"ant, red\",dog") == "other class names");
}

TEST_CASE("labels.csv with a column for each class: what is wrong is refused with file and line") {
  const LabelledFolder folder;
  const auto refuses = [&](const std::string& csv, const std::string& message) {
    INFO(csv);
    CHECK_THAT(folder.error(csv), StartsWith(folder.root() + "/labels.csv:" + message));
  };
  refuses("file,a,b\n1.png,1\n", "2: expected 3 fields as in the header, found 2");
  refuses("file,a,b\n1.png,1,0,0\n", "2: expected 3 fields as in the header, found 4");
  refuses("file,a,b\n1.png,1,0\n\n", "3: an empty line; remove it");
  refuses("file,a, b\n1.png,1,0\n", "1: the class ' b' begins or ends with a blank; remove the blank");
  refuses("file,a,b\n1.png,1," + std::string(300, 'x') + "\n",
          "2: expected 0 or 1 for class 'b', found '" + std::string(40, 'x') + "'; a file with one");
  refuses("file,a,b\n1.png,1,2\n", "2: expected 0 or 1 for class 'b', found '2'");
  refuses("file,a,b\n1.png,1,\n", "2: expected 0 or 1 for class 'b', found ''");
  refuses("file,a,b\n1.png, 1,0\n", "2: expected 0 or 1 for class 'a', found ' 1'");
  refuses("file,kind,split\n1.png,cat,train\n",
          "2: expected 0 or 1 for class 'kind', found 'cat'; a file with one label for each image has a "
          "column that is called label");
  refuses("file,a,a\n", "1: the class 'a' has two columns; rename or remove one");
  refuses("file,a,\n", "1: the name of class 2 is empty; name it, or remove the comma");
  refuses("file,a,b\n", "2: expected a row for each image, found none");
  refuses("file,a\nno.png,1\n", "2: there is no image 'no.png' in ");
  refuses("file,a\n,1\n", "2: the name of the file is empty");
  refuses("file,a\n1.png,1\n./1.png,0\n", "3: './1.png' is named in line 2 already; keep one of the rows");
  refuses("file,a\n1.png,1\n2.png,0\n", "3: the rows end without one for '5.png' and 2 more; each image in ");
}

TEST_CASE("labels.csv with a column for each class: a packed file is refused, a part keeps its sets") {
  const LabelledFolder folder;
  const auto source = folder.open(kSetRows);
  CHECK_THAT(data_error([&] { packed(*source); }), ContainsSubstring("several labels"));
  DataSection section = read_section("{format: image_folder, labels: labels.csv, val_fraction: 0.4}");
  section.train = folder.root();
  const SourceRequest request{.split = Split::val, .network_shape = {3, 4, 4}, .network_classes = 3};
  const auto part = open_source(section, request);
  REQUIRE(part->size() == 2);
  std::set<std::vector<int32_t>> whole;
  for (const auto& set : sets_of(*source)) whole.insert(set);
  for (const auto& set : sets_of(as_images(*part))) CHECK(whole.contains(set));
}

TEST_CASE("labels.csv with a column for each class: validation has the same classes in the same order") {
  const LabelledFolder train("train"), val("val");
  DataSection section = read_section("{format: image_folder, labels: labels.csv}");
  section.train = train.root();
  section.val = val.root();
  const auto with_header = [](const std::string& header) {
    return header + "\n1.png,1,0\n2.png,0,0\n5.png,0,1\ndeep/er/3.png,0,0\n\"a, \"\"b\"\".png\",1,1\n";
  };
  train.open(with_header("file,b,a"));
  const SourceRequest request{.split = Split::val, .network_shape = {3, 4, 4}, .network_classes = 2};
  val.open(with_header("file,b,a"));
  CHECK(open_source(section, request)->size() == 5);
  val.open(with_header("file,a,b"));
  CHECK_THAT(data_error([&] { open_source(section, request); }),
             EndsWith("in the same order, found 'a' in the place of 'b'"));
  val.open(with_header("file,b,c"));
  CHECK_THAT(data_error([&] { open_source(section, request); }), EndsWith("found no class 'a'"));
}

TEST_CASE("labels.csv: training and validation have files of their own, with the same classes") {
  const LabelledFolder train("train"), val("val");
  DataSection section = read_section("{format: image_folder, labels: labels.csv}");
  section.train = train.root();
  section.val = val.root();
  train.open("file,label\n1.png,a\n2.png,b\n"), val.open("file,label\n5.png,b\n1.png,a\n");
  SourceRequest request{.split = Split::val, .network_shape = {3, 4, 4}, .network_classes = 2};
  CHECK(open_source(section, request)->size() == 2);
  CHECK(known_class_names(section) == std::vector<std::string>{"a", "b"});
  CHECK(sample_files(section) ==
        std::vector<std::string>{train.root() + "/labels.csv", val.root() + "/labels.csv"});
  val.open("file,label\n5.png,c\n1.png,a\n");
  CHECK_THAT(data_error([&] { open_source(section, request); }), EndsWith("found no class 'b'"));
}

TEST_CASE("sample weights: by name or by line, and what is wrong is refused with file and line") {
  const LabelledFolder folder;
  const auto source = folder.open("file,label\n2.png,dog\n1.png,ant\ndeep/er/3.png,dog\n");
  using Weights = std::vector<double>;
  for (const char* text : {"0.5\n0\n1e3\n", "weight\r\n0.5\r\n0\r\n1e3",
                           "file,weight\n1.png,0\n2.png,0.5\n"
                           "deep/er/3.png,1000\n",
                           "1.png;0\n./2.png;0.5\ndeep/er/3.png;1000", "weight,x,name\n",
                           "weight\tname\n0\t1.png\n0.5\t2.png\n1000\tdeep/er/3.png\n"}) {
    INFO(text);
    if (std::string(text) == "weight,x,name\n") {
      CHECK_THAT(data_error([&] { parse_sample_weights(text, "w.csv", *source); }),
                 StartsWith("w.csv:1: the rows end without one for '2.png'"));
      continue;
    }
    CHECK(parse_sample_weights(text, "w.csv", *source) == Weights{0.5, 0, 1000});
  }
  const auto refuses = [&](const std::string& text, const std::string& message) {
    INFO(text);
    CHECK_THAT(data_error([&] { parse_sample_weights(text, "w.csv", *source); }),
               StartsWith("w.csv:" + message));
  };
  refuses("", "1: expected 3 weights, one for each sample of data.train before any is set aside");
  refuses("1\n2\n", "2: expected 3 weights");
  refuses("1\n2\n3\n4\n5\n",
          "4: expected 3 weights, one for each sample of data.train before any is set aside "
          "for validation, found more");
  for (const char* bad : {"-1", "nan", "inf", "-inf", "1e999", "0x1", "", " 1", "1,5x"})
    CHECK_THAT(
        data_error([&] { parse_sample_weights(std::string("1\n") + bad + "\n3\n", "w.csv", *source); }),
        StartsWith("w.csv:2: expected a weight"));
  refuses("1.png,1\n2.png,2\n", "2: the rows end without one for 'deep/er/3.png'");
  refuses("1.png,1\n1.png,2\n", "2: '1.png' is named in line 1 already");
  refuses("1.png,1\n5.png,2\n", "2: there is no sample '5.png' in data.train");
  refuses("1.png,1\n2.png\n", "2: expected 2 fields, found 1");
  refuses("1.png,1\n2.png,-2\n", "2: expected a weight, a finite number of at least 0, found '-2'");
  const CountingSource unnamed(3, {1, 1, 1});
  CHECK(parse_sample_weights("1\n2\n3\n", "w.csv", unnamed) == Weights{1, 2, 3});
  CHECK_THAT(data_error([&] { parse_sample_weights("a,1\n", "w.csv", unnamed); }),
             ContainsSubstring("have no names"));
  CHECK(balancing_weights({5, 5, 0, 5, 5}) == Weights{0.25, 0.25, 1, 0.25, 0.25});
}

TEST_CASE(
    "sample weights are a part of the training samples, by their place before the split, and not of others") {
  const LabelledFolder folder;
  write_file(folder.root() + "/labels.csv", "1.png,a\n2.png,a\n5.png,b\ndeep/er/3.png,b\n");
  write_file(folder.path("w.txt"), "1\n2\n3\n4\n");
  const auto section_of = [&](const std::string& more) {
    DataSection section = read_section("{format: image_folder, labels: labels.csv" + more + "}");
    section.train = folder.root();
    return section;
  };
  const SourceRequest train{
      .split = Split::train, .network_shape = {3, 4, 4}, .network_classes = 2, .seed = 1};
  const auto plain = section_of("");
  const Fingerprint before = open_source(plain, train)->fingerprint();
  CHECK(open_source(plain, train)->sample_weights().empty());
  const auto weighted = section_of(", sample_weights: " + folder.path("w.txt"));
  const auto source = open_source(weighted, train);
  CHECK(std::vector<double>(source->sample_weights().begin(), source->sample_weights().end()) ==
        std::vector<double>{1, 2, 3, 4});
  CHECK(!fingerprint_difference(before, source->fingerprint()));
  write_file(folder.path("w.txt"), "1\n2\n3\n5\n");
  CHECK(fingerprint_difference(source->fingerprint(), open_source(weighted, train)->fingerprint()) ==
        "other weights");
  CHECK(peek_source(weighted, train)->resident_bytes == peek_source(plain, train)->resident_bytes + 64);
  const auto split = section_of(", val_fraction: 0.25, sample_weights: " + folder.path("w.txt"));
  const auto part = open_source(split, train);
  const std::vector<int64_t> kept = split_samples(4, {Split::train, 0.25, 1});
  REQUIRE(part->sample_weights().size() == 3);
  const std::vector<double> all = {1, 2, 3, 5};
  for (size_t i = 0; i < 3; ++i) CHECK(part->sample_weights()[i] == all[static_cast<size_t>(kept[i])]);
  CHECK(open_source(split, {.split = Split::val, .network_shape = {3, 4, 4}, .network_classes = 2, .seed = 1})
            ->sample_weights()
            .empty());
  const auto balanced = open_source(section_of(", sample_weights: balanced"), train);
  CHECK(balanced->sample_weights()[0] == 0.5);
  write_file(folder.path("w.txt"), "");
  CHECK_THAT(data_error([&] { open_source(section_of(", sample_weights: nowhere.txt"), train); }),
             ContainsSubstring("data.sample_weights: there is no file nowhere.txt"));
}

TEST_CASE("data.labels is a path, from the recipe's folder if no folder of images has the file") {
  const LabelledFolder folder;
  write_file(folder.path("mine.csv"), "1.png,a\n2.png,b\n");
  for (const std::string& written : {std::string("../t/mine.csv"), folder.path("mine.csv")}) {
    DataSection section = read_section("{format: image_folder, labels: " + written + "}");
    section.train = folder.root();
    if (written.front() != '/') {
      CHECK_THAT(data_error([&] { open_stored(section, {}); }),
                 ContainsSubstring("data.labels: there is no file ../t/mine.csv in " + folder.root()));
      continue;
    }
    CHECK(open_stored(section, {})->size() == 2);
    CHECK(sample_files(section) == std::vector<std::string>{written});
  }
}

}  // namespace
}  // namespace trainer

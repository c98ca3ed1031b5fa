// SPDX-License-Identifier: Apache-2.0
#include "core/data/skipped_files.h"

#include <string>
#include "tests/catch.h"

namespace trainer {
namespace {

SkippedFiles skipped(const std::string& ending, int count, SkippedFiles into = {}) {
  for (int i = 0; i < count; ++i) into.add_file("folder/" + std::to_string(i) + ending);
  return into;
}

TEST_CASE("skipped files are counted by type, the most frequent first") {
  CHECK(SkippedFiles().text().empty());
  const SkippedFiles found = skipped(".Tif", 11, skipped(".gif", 10, skipped(".tif", 9)));
  CHECK(found.text() == "30 skipped: 20 .tif, 10 .gif");
  CHECK(found.by_type().at(".tif") == 20);
}

TEST_CASE("skipped DICOM files name the command that converts them") {
  CHECK(skipped(".DCM", 2).text() ==
        "2 skipped: 2 .dcm; convert DICOM files: dcmj2pnm --write-png FILE.dcm FILE.png (package dcmtk)");
}

TEST_CASE("skipped HEIC files name the command that converts them, once") {
  CHECK(skipped(".heif", 1, skipped(".HEIC", 2)).text() ==
        "3 skipped: 2 .heic, 1 .heif; convert HEIC files: heif-convert FILE.heic FILE.png (package "
        "libheif-examples)");
}

TEST_CASE("files that belong to a folder of images are not skipped ones") {
  SkippedFiles found;
  for (const char* name : {"Thumbs.db", "DESKTOP.INI", ".DS_Store", ".x.tif", "labels.csv", "labels.TSV"})
    found.add_file(name);
  CHECK(found.total() == 0);
  found.add_file("README");
  found.add_file("ends.");
  CHECK(found.text() == "2 skipped: 2 without an ending");
}

TEST_CASE("names of skipped files neither fill memory nor reach a terminal as they are") {
  SkippedFiles many;
  for (int i = 0; i < 5000; ++i) many.add_file("a." + std::to_string(i));
  many.add_file("a." + std::string(200, 'x'));
  CHECK(many.total() == 5001);
  CHECK(many.by_type().size() <= 101);
  CHECK(many.text().size() < 200);
  SkippedFiles odd;
  odd.add_file("a.\x1b[31m");
  CHECK(odd.text() == "1 skipped: 1 .\\x1b[31m");
}

}  // namespace
}  // namespace trainer

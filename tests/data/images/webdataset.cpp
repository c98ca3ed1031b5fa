// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/webdataset.h"

#include "tests/catch.h"

#include "tests/data/images/shards.h"
#include "tests/data/images/tar_files.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

std::vector<ShardSample> find_samples(const std::string& archive, const std::string& json_label = "label") {
  const std::string path = "x.tar";
  return webdataset_layout(json_label)->find_samples({path, std::as_bytes(std::span(archive))});
}

std::string webdataset_error(const std::string& members) {
  return data_error([&] { find_samples(members + tar_end()); });
}

TEST_CASE("a name is divided at the first dot after its folders") {
  const auto check = [](const std::string& name, const std::string& key, const std::string& ending) {
    INFO(name);
    CHECK(shard_key_of(name).key == key);
    CHECK(shard_key_of(name).ending == ending);
  };
  check("a.jpg", "a", "jpg");
  check("a.b/c.seg.PNG", "a.b/c", "seg.png");
  check("./000.cls", "./000", "cls");
  check("README", "", "");
  check(".hidden", "", "");
  check("a/._c.jpg", "", "");
  check("a.", "a", "");
}

TEST_CASE("a sample's members in any order; others are passed over") {
  const std::string archive = tar_member("__meta__", "x") + tar_member("README", "x") +
                              tar_member("a.cls", " 7\n") + tar_member("a.json", "{\"label\": 5}") +
                              tar_member("a.jpg", "image") + tar_member("a.seg.png", "mask") +
                              tar_member("b.json", "{\"id\": 5, \"label\": 4}") + tar_member("b.webp", "") +
                              tar_member("c.bmp", "x") + tar_end();
  const std::vector<ShardSample> found = find_samples(archive);
  REQUIRE(found.size() == 3);
  CHECK(found[0].label == 7);
  CHECK(found[0].start == 2048);
  CHECK(archive.substr(static_cast<size_t>(found[0].offset), found[0].bytes) == "image");
  CHECK(found[1].label == 4);
  CHECK(found[1].bytes == 0);
  CHECK(found[2].label == kNoShardLabel);
  CHECK(find_samples(archive, "id")[1].label == 5);
  CHECK(find_samples(archive, "x")[1].label == kNoShardLabel);
}

TEST_CASE("samples that are not complete, or not alone, are refused with file and offset") {
  const std::string a = tar_member("a.jpg", "x"), b = tar_member("b.jpg", "x");
  CHECK_THAT(webdataset_error(tar_member("a.cls", "1") + b),
             ContainsSubstring("x.tar: offset 0: expected an image (") &&
                 ContainsSubstring("in sample 'a', found none"));
  CHECK_THAT(webdataset_error(b + tar_member("a.cls", "1")),
             ContainsSubstring("offset 1024: expected an image"));
  CHECK_THAT(webdataset_error(a + tar_member("a.png", "x")),
             ContainsSubstring("offset 1024: expected one image in sample 'a', found another"));
  CHECK_THAT(webdataset_error(a + tar_member("a.JPG", "x")),
             ContainsSubstring("offset 1024: expected each member of sample 'a' once, found .jpg again"));
  CHECK_THAT(webdataset_error(a + b + a),
             ContainsSubstring(
                 "offset 2048: expected members of a sample next to each other, and each key once, found "
                 "key 'a' again"));
  for (const std::string text : {"cat", "", "-1", "1.5", "2147483647", "99999999999999999999", "1 2"}) {
    INFO(text);
    CHECK_THAT(webdataset_error(a + tar_member("a.cls", text)),
               ContainsSubstring("offset 1536: expected the number of a class in a.cls, found"));
  }
  CHECK_THAT(webdataset_error(a + tar_member("a.json", "{")),
             ContainsSubstring("offset 1536: expected JSON in a.json"));
  for (const std::string json :
       {"[]", "7", "{}", R"({"label": "cat"})", R"({"label": -1})", R"({"label": 1.5})"})
    CHECK(find_samples(a + tar_member("a.json", json) + tar_end())[0].label == kNoShardLabel);
}

}  // namespace
}  // namespace trainer

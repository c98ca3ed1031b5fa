// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/tar.h"

#include <vector>
#include "tests/catch.h"

#include "tests/data/images/tar_files.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;

std::vector<std::string> members_of(const std::string& archive) {
  TarReader reader("x.tar", std::as_bytes(std::span(archive)));
  std::vector<std::string> all;
  while (const auto member = reader.next()) {
    const std::string contents =
        archive.substr(static_cast<size_t>(member->offset), static_cast<size_t>(member->bytes));
    all.push_back(fmt::format("{}@{}={}", member->name, member->start, contents));
  }
  return all;
}

std::string tar_error(const std::string& archive) {
  const std::string text = data_error([&] { members_of(archive); });
  CHECK_THAT(text, ContainsSubstring("x.tar: offset "));
  return text;
}

std::string pax(const std::string& records) {
  return tar_member("pax", records, 'x');
}

TEST_CASE("members of an archive, with the offset of their first header") {
  const std::string two = tar_member("a/1.txt", "abc") + tar_member("a/", "", '5') + tar_member("b", "");
  CHECK(members_of(two + tar_end()) == std::vector<std::string>{"a/1.txt@0=abc", "b@1536="});
  CHECK(members_of(tar_end()).empty());
  CHECK(members_of(tar_member("a", "x", '\0') + tar_member("b", "y", '7') + tar_end() + tar_end()) ==
        std::vector<std::string>{"a@0=x", "b@1024=y"});
  CHECK(members_of(tar_member("long", std::string("name/of/a", 9) + '\0', 'L') + tar_member("short", "1") +
                   tar_member("next", "2") + tar_end()) ==
        std::vector<std::string>{"name/of/a@0=1", "next@2048=2"});
  CHECK(members_of(tar_member("g", "11 path=no\n", 'g') + pax("22 mtime=1700000000.5\n14 path=a/b=c\n") +
                   tar_member("short", "1") + tar_member("next", "2") + tar_end()) ==
        std::vector<std::string>{"a/b=c@1024=1", "next@3072=2"});
}

TEST_CASE("sizes may be in a pax header, or in bytes in place of digits") {
  std::string large = tar_member("a", "abcd");
  large.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\4", 12));
  seal_header(large);
  CHECK(members_of(large + tar_end()) == std::vector<std::string>{"a@0=abcd"});
  CHECK(members_of(pax("9 size=2\n") + tar_member("a", "abcd") + tar_end()) ==
        std::vector<std::string>{"a@0=ab"});
}

TEST_CASE("a name may have a prefix in ustar's header; sums may be of bytes with a sign") {
  std::string member = tar_member("b.png", "1");
  member.replace(345, 6, "folder");
  seal_header(member);
  CHECK(members_of(member + tar_end()) == std::vector<std::string>{"folder/b.png@0=1"});
  std::string umlaut = tar_member("\xc3\xbc", "1");
  const int64_t sum = std::stoll(umlaut.substr(148, 6), nullptr, 8) - 512;
  umlaut.replace(148, 6, fmt::format("{:06o}", sum));
  CHECK(members_of(umlaut + tar_end()) == std::vector<std::string>{"\xc3\xbc@0=1"});
}

TEST_CASE("what is no plain, whole archive of files is refused with its offset") {
  const std::string first = tar_member("a", "abc");
  CHECK_THAT(tar_error(""), ContainsSubstring("offset 0: expected a tar archive, found an empty file"));
  CHECK_THAT(tar_error(std::string(600, 'x')), ContainsSubstring("found another file"));
  CHECK_THAT(tar_error(gzip(first + tar_end())),
             ContainsSubstring("found compressed data; unpack it with gunzip"));
  CHECK_THAT(tar_error(first),
             ContainsSubstring("offset 1024: ") && ContainsSubstring("the archive is truncated"));
  CHECK_THAT(tar_error(first + tar_member("b", std::string(700, 'x')).substr(0, 600)),
             ContainsSubstring(
                 "offset 1148: expected a member of at most 88 bytes, found 700; the archive is truncated"));
  CHECK_THAT(tar_error(first + std::string(100, 'x')),
             ContainsSubstring("offset 1024: ") && ContainsSubstring("truncated"));
  CHECK_THAT(tar_error(first + tar_end() + first),
             ContainsSubstring("offset 2048: expected zeros after the end of the archive"));
  std::string damaged = first + tar_member("b", "") + tar_end();
  damaged[1024] = 'c';
  CHECK_THAT(tar_error(damaged), ContainsSubstring("offset 1024: expected a member's header with checksum"));
  for (const auto& [type, name] : {std::pair{'1', "a hard link"},
                                   {'2', "a symbolic link"},
                                   {'3', "a device"},
                                   {'6', "a pipe"},
                                   {'S', "a sparse file"},
                                   {'M', "the rest of a file"},
                                   {'Q', "a member of type 'Q'"}})
    CHECK_THAT(tar_error(first + tar_member("link.png", "", type) + tar_end()),
               ContainsSubstring(fmt::format("offset 1024: expected files with samples, found {}", name)) &&
                   ContainsSubstring("'link.png'"));
}

TEST_CASE("damaged numbers and extended headers are refused") {
  for (const std::string size :
       {"0000000009x", "77777777777", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    std::string member = tar_member("a", "abc");
    member.replace(124, 11, size);
    seal_header(member);
    tar_error(member + tar_end());
  }
  std::string huge = tar_member("a", "abc");
  huge.replace(124, 12, std::string("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12));
  seal_header(huge);
  tar_error(huge + tar_end());
  for (const std::string records :
       {"9 size=2", "99 size=2\n", "0 size=2\n", "size=2\n", "9 size=x\n", "10 size=-2\n", "6 abc\n",
        "22 GNU.sparse.major=1\n", " \n", "2 ", "2\n"}) {
    INFO(records);
    tar_error(pax(records) + tar_member("a", "abc") + tar_end());
  }
  CHECK_THAT(tar_error(tar_member("x", std::string((1 << 20) + 1, 'x'), 'L') + tar_end()),
             ContainsSubstring("an extended header of at most 1048576 bytes"));
  tar_error(pax("9 size=2\n") + tar_end().substr(0, 512));
}

}  // namespace
}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/import/renames.h"

#include "core/base/error.h"
#include "core/import/tensor_name.h"
#include "tests/catch.h"

namespace trainer {
namespace {

std::string renamed(const std::vector<std::string>& texts) {
  std::vector<StoredTensor> tensors = {
      {.name = "body.fc.weight"}, {.name = "body.fc.bias"}, {.name = "head"}};
  std::vector<Rename> renames;
  try {
    for (const std::string& text : texts) renames.push_back(parse_rename(text));
    rename_tensors(tensors, renames);
    require_different_names("w.pth", tensors);
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
  }
  return tensors[0].name + " " + tensors[1].name + " " + tensors[2].name;
}

}  // namespace

TEST_CASE("import: a name or a prefix is replaced, in the order given") {
  CHECK(renamed({"head=tail"}) == "body.fc.weight body.fc.bias tail");
  CHECK(renamed({"body.="}) == "fc.weight fc.bias head");
  CHECK(renamed({"body.=", "fc.=a.b.", "head=fc.weight"}) == "a.b.weight a.b.bias fc.weight");
}

TEST_CASE("import: a * stands for the same text in the new name, in whole names and in prefixes") {
  CHECK(renamed({"body.*.weight=b.*.w"}) == "b.fc.w body.fc.bias head");
  CHECK(renamed({"b*.fc.=x.*."}) == "x.ody.weight x.ody.bias head");
  CHECK(renamed({"body.*=*"}) == "fc.weight fc.bias head");
  CHECK(renamed({"body.*.=*."}) == "fc.weight fc.bias head");
  CHECK(renamed({"*d=*t"}) == "body.fc.weight body.fc.bias heat");
  CHECK(renamed({"h*ad=all"}) == "body.fc.weight body.fc.bias all");
}

TEST_CASE("import: a name that nothing has is refused with the nearest, and two equal names are refused") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(renamed({"haed=x"}),
             ContainsSubstring("64 --rename haed=x: no tensor is named 'haed'; did you mean 'head'?"));
  CHECK_THAT(renamed({"bdy.="}), ContainsSubstring("did you mean 'body.'?"));
  CHECK_THAT(renamed({"head=body.fc.bias"}),
             ContainsSubstring("65 w.pth: two tensors would be named 'body.fc.bias'"));
  for (const char* text : {"head", "=x", "head=", "head=x.", "body.=x", "head=__metadata__", "head=x*",
                           "*e*=x", "h*=*x*", "he*ead=x"})
    CHECK_THAT(renamed({text}), ContainsSubstring("64 --rename"));
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/data/foreign_content.h"

#include <string_view>

namespace trainer {

std::string foreign_content(std::span<const std::byte> bytes) {
  struct Kind {
    std::string_view begin;
    const char* remedy;
  };
  using namespace std::string_view_literals;
  static constexpr Kind kKinds[] = {{"\x1f\x8b"sv, "compressed data; unpack it with gunzip"},
                                    {"\x28\xb5\x2f\xfd"sv, "compressed data; unpack it with unzstd"},
                                    {"\xfd\x37zXZ\0"sv, "compressed data; unpack it with unxz"},
                                    {"PK\x03\x04"sv, "an archive; unpack it with unzip"},
                                    {"PAR1"sv, "a Parquet file; write its texts to a plain file"},
                                    {"%PDF-"sv, "a PDF; pdftotext writes its text to a plain file"}};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Kind& kind : kKinds) {
    if (text.starts_with(kind.begin)) return kind.remedy;
  }
  const bool is_bzip2 = text.starts_with("BZh") && text.substr(0, 10).ends_with("1AY&SY");
  return is_bzip2 ? "compressed data; unpack it with bunzip2" : "";
}

}  // namespace trainer

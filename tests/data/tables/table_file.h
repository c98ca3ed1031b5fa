// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/data/tables/table.h"
#include "tests/catch.h"
#include "tests/storage/scratch_directory.h"

namespace trainer {

inline TableRequest request_for(std::vector<std::string> target, TargetUse use) {
  TableRequest request{.targets = use, .origin_of = [](const std::string& key) { return Origin{{}, key}; }};
  request.keys.target = std::move(target);
  return request;
}

/// A folder with one table.
struct TableFile {
  explicit TableFile(const std::string& text, const std::string& name = "t.csv")
      : path((directory.path() / name).string()) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::shared_ptr<const Table> read(const TableRequest& request, int64_t threads = 1) const {
    return read_table({path}, request, threads);
  }
  std::string error(const TableRequest& request, ExitCode code = ExitCode::data) const {
    try {
      read(request);
    } catch (const Error& error) {
      CHECK(error.code() == code);
      const std::string text = error.what();
      return text.starts_with(directory.path().string() + "/")
                 ? text.substr(directory.path().string().size() + 1)
                 : text;
    }
    return "";
  }

  test::ScratchDirectory directory;
  std::string path;
};

}  // namespace trainer

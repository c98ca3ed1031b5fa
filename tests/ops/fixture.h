// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/storage/safetensors.h"

namespace trainer {

/// One file of tests/fixtures, written by scripts/fixtures/make_fixtures.py.
class Fixture {
 public:
  explicit Fixture(const std::string& name)
      : file_(std::string(TRAINER_SOURCE_DIR) + "/tests/fixtures/" + name + ".safetensors") {}

  bool has(const std::string& tensor) const { return file_.find(tensor) != nullptr; }
  const Shape& shape(const std::string& tensor) const { return at(tensor).shape; }
  std::vector<float> values(const std::string& tensor) const { return file_.read_floats(at(tensor)); }
  std::vector<double> doubles(const std::string& tensor) const {
    const std::vector<float> narrow = values(tensor);
    return {narrow.begin(), narrow.end()};
  }

 private:
  const StoredTensor& at(const std::string& tensor) const {
    const StoredTensor* found = file_.find(tensor);
    if (found == nullptr) throw std::logic_error("no tensor " + tensor);
    return *found;
  }

  SafetensorsFile file_;
};

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/engine/backend.h"
#include "core/engine/executable.h"

namespace trainer {

/// A program on one backend, with memory for its inputs and every persistent tensor at its first value.
/// Values go in and out by name, row-major.
class Session {
 public:
  Session(const Program& program, const Backend& backend, uint64_t seed = 1);

  Executable& executable() { return executable_; }
  TensorId id(const std::string& name) const;
  /// An input or a persistent tensor.
  void set(const std::string& name, const std::vector<float>& values);
  void set(const std::map<std::string, std::vector<float>>& values);

  /// Fills the scratch memory with NaN first, so that reads of unwritten memory show.
  void run(const std::string& entry);

  /// An output of the last run, in full precision.
  std::vector<double> output(const std::string& entry, const std::string& name) const;
  /// A persistent tensor, in full precision.
  std::vector<double> persistent(const std::string& name) const;
  /// The bytes that an input is bound to.
  std::vector<std::byte> input_bytes(const std::string& name) const;

 private:
  Executable executable_;
  std::map<TensorId, Buffer> inputs_;
};

/// ‖a - b‖ / ‖b‖, 2-norms; infinite if the sizes differ or a value is NaN.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace trainer

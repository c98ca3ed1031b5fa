// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cuda/cudnn/engines.h"

namespace trainer::cuda::cudnn {

/// The library's answer about one graph: its choices or, if it has none, the reason.
struct Answer {
  std::vector<EngineChoice> choices;
  std::string refusal;
};

/// Queries cuDNN about a described device, in a process of its own: some queries crash inside the library,
/// and its answers without a driver need a stand-in that no other code should see.
class Oracle {
 public:
  /// `json`: cuDNN's description of the device.
  explicit Oracle(std::string json);
  ~Oracle();
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;

  Answer ask(const Graph& graph);
  /// The process that answers, for tests.
  int process() const { return process_; }

  /// Whether the library can answer about engines that it compiles at run time: libcuda.so.1, or the
  /// toolkit's stub of it, exists.
  static bool knows_compiled_engines();

 private:
  void start();
  void stop();
  /// Why the process is gone.
  std::string obituary();

  std::string json_;
  int process_ = -1, socket_ = -1;
};

}  // namespace trainer::cuda::cudnn

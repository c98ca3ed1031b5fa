// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trainer::emulation {

/// A kernel's mistake: "race", "bounds", "uninitialised", "alignment", "deadlock", "divergence", "warp",
/// "launch", "early", "output" or "plan", and its place.
struct Fault {
  std::string kind, text;
};

/// Everything found since the last call.
std::vector<Fault> take_faults();

/// Reports a fault of the running kernel, each kind once per launch and instruction; `pc` is the address
/// after the instruction, or nullptr.
void report(const std::string& kind, const std::string& text, const void* pc = nullptr);
/// A new launch: its faults are reported again.
void begin_launch(const void* kernel);

/// "batch_norm.cu:41", the line of the instruction before this address.
std::string source_line(const void* pc);

}  // namespace trainer::emulation

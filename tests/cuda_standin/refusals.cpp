// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_standin/refusals.h"

#include <cstdio>
#include <cstdlib>

namespace trainer::standin {
namespace {

struct Refusals {
  std::string last;
  bool broken = false;
  std::FILE* log = nullptr;

  Refusals() {
    const char* path = std::getenv("TRAINER_STANDIN_LOG");
    if (path != nullptr) log = std::fopen(path, "a");
  }
  ~Refusals() {
    if (log != nullptr) std::fclose(log);
  }
};

Refusals& refusals() {
  static Refusals only;
  return only;
}

}  // namespace

void log_call(const std::string& text) {
  if (refusals().log != nullptr) std::fprintf(refusals().log, "%s\n", text.c_str());
}

void refuse(const std::string& reason) {
  refusals().last = reason;
  log_call("refused: " + reason);
}

const std::string& last_refusal() {
  return refusals().last;
}

void forget_refusal() {
  refusals().last.clear();
  refusals().broken = false;
}

void break_device(const std::string& reason) {
  refuse(reason);
  refusals().broken = true;
}

bool is_broken() {
  return refusals().broken;
}

}  // namespace trainer::standin

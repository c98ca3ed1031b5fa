// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "core/train/metrics.h"
#include "core/train/status.h"

namespace trainer {
namespace {

/// A line of metrics that is taken must come back from what is written of it.
void try_record(std::string_view text) {
  const std::optional<MetricsRecord> record = parse_record(text);
  if (!record) return;
  const std::string line = to_json(*record);
  const std::optional<MetricsRecord> again = parse_record(line);
  if (!again || to_json(*again) != line) std::abort();
  numbers_of(*record);
}

}  // namespace
}  // namespace trainer

/// What is read of a run's directory when it goes on or is looked at.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  trainer::try_record(text);
  trainer::parse_status(text);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trainer {

/// A key of metrics.jsonl or summary.json. `key` may hold a part in capitals, "rankN_compute_ms", and unit
/// may be empty.
struct ResultKey {
  std::string key, unit, meaning;
};

/// All that a line of metrics.jsonl may have, and those of summary.json, dotted.
std::vector<ResultKey> metrics_keys();
std::vector<ResultKey> summary_keys();

/// Both as tables in Markdown: docs/metrics-reference.md.
std::string metrics_reference();

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/config/fields.h"
#include "core/graph/names.h"

namespace trainer {

/// The section `data.table.window`: samples are windows of rows that follow each other in time.
struct WindowKeys {
  std::optional<std::string> time;  ///< name of a column
  std::vector<std::string> by;      ///< columns whose texts name a row's series
  std::optional<int64_t> length;    ///< rows that the network reads
  int64_t horizon = 1;              ///< rows from the last one that it reads to the target's
  int64_t stride = 1;               ///< rows from the beginning of a window to that of the next

  bool any() const { return *this != WindowKeys(); }
  bool operator==(const WindowKeys&) const = default;
  void declare(Fields& fields);
};

/// The recipe's section `data.table`.
struct TableKeys {
  std::vector<std::string> target, ignore;  ///< names of columns
  std::vector<std::string> categorical = {kAuto};
  std::string missing = "mean";        ///< or median, previous, error
  std::string scale = "standard";      ///< or min_max, none
  std::optional<std::string> text;     ///< name of a column
  double clip = 0;                     ///< share of the values at each end
  std::string empty_target = "error";  ///< or drop

  WindowKeys window;

  static constexpr const char* kAuto = "auto";
  static constexpr const char* kPrevious = "previous";

  void declare(Fields& fields);
  /// Reports keys that do not fit each other, or what the network reads.
  void check(InputKind kind, const std::function<Origin(const std::string& key)>& origin_of,
             Diagnostics& diagnostics) const;
};

}  // namespace trainer

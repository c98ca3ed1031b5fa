// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/config/fields.h"

namespace trainer {

/// The recipe's section `data.table`.
struct TableKeys {
  std::vector<std::string> target, ignore;  ///< names of columns
  std::vector<std::string> categorical = {kAuto};
  std::string missing = "mean";        ///< or median, error
  std::string scale = "standard";      ///< or min_max, none
  double clip = 0;                     ///< share of the values at each end
  std::string empty_target = "error";  ///< or drop

  static constexpr const char* kAuto = "auto";

  void declare(Fields& fields);
};

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// The path of a key, or the end of one, and the text of its value.
struct Leaf {
  std::string path, value;
};

// Recipes with the old name of a key are refused. The identity of a run keeps old names and values, so that a
// run begun with them is found and resumed. Leaves without another name are returned unchanged.
Leaf under_new_name(Leaf old);
Leaf as_in_identities(Leaf present);

}  // namespace trainer

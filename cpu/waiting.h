// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// Makes threads of OpenMP, oneDNN's included, that wait for others spin briefly, then sleep. What the user
/// has set (OMP_WAIT_POLICY, GOMP_SPINCOUNT) stays. GCC's OpenMP reads these variables while the program is
/// loaded, so the program starts itself once more; call this first in main. Where it cannot, it goes on as it
/// is.
void spin_briefly(char** argv);

/// How they wait, for people: "spin briefly, then sleep (GOMP_SPINCOUNT=...)".
std::string waiting_policy();

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/transfers.h"

#include "tests/cuda_emulation/backend.h"

TEST_CASE("numbers of every type pass through the emulated GPU's memory as they were") {
  trainer::check_transfers(trainer::make_emulated_backend());
}

// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trainer {

constexpr const char* kSaveWeights =
    "Save only the weights, in Python: torch.save(model.state_dict(), \"weights.pth\")";
constexpr const char* kCopyAgain = "download or copy the file again";

}  // namespace trainer

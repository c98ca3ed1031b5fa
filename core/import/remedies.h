// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trainer {

constexpr const char* kSaveWeights =
    "Save only the weights, in Python: torch.save(model.state_dict(), \"weights.pth\")";
constexpr const char* kRenameTensor =
    "expected a name in UTF-8 that safetensors files do not reserve; rename the tensor, then save it again";
constexpr const char* kRemovePruning = "call torch.nn.utils.prune.remove before saving";
constexpr const char* kCopyAgain = "download or copy the file again";

}  // namespace trainer

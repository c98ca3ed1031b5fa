// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer::standin {

/// Records a call in the file that TRAINER_STANDIN_LOG names, if any.
void log_call(const std::string& text);

/// Records a call that a GPU would refuse, or not execute safely. The libraries' error texts repeat it.
void refuse(const std::string& reason);
/// The last refusal; empty if there was none.
const std::string& last_refusal();
void forget_refusal();

/// From here on each call fails, as after a kernel that failed on a GPU.
void break_device(const std::string& reason);
bool is_broken();

}  // namespace trainer::standin

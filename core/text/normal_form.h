// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// Unicode's normalization form C of well-formed UTF-8, by utf8proc: the text itself if it is in it
/// already, otherwise `storage`.
std::string_view composed(std::string_view text, std::string& storage);

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data/formats.h"

namespace trainer {

/// The row of format `synthetic` for networks that read tokens: made-up text that needs no files.
SourceFormat synthetic_tokens_format();

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// A JSON Schema of recipes (draft 7, which editors support best). The schema of a network's file is in it as
/// `#/definitions/network`. It is derived from the declared keys and contains types, bounds, defaults and
/// help.
std::string recipe_schema();

/// Every key with type, default, bounds and help, in Markdown: docs/recipe-reference.md.
std::string recipe_reference();

}  // namespace trainer

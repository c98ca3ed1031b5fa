// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/trainer/commands.h"
#include "core/recipe/schema.h"

namespace trainer {

int schema_command(const Arguments& arguments) {
  fmt::print("{}", arguments.markdown ? recipe_reference() : recipe_schema());
  return 0;
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/trainer/commands.h"
#include "apps/trainer/standard_streams.h"
#include "core/recipe/schema.h"
#include "core/session/metrics_reference.h"

namespace trainer {

int schema_command(const Arguments& arguments) {
  print_to_output(arguments.metrics    ? metrics_reference()
                  : arguments.markdown ? recipe_reference()
                                       : recipe_schema());
  return 0;
}

}  // namespace trainer

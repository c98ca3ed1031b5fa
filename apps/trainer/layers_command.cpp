// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "apps/trainer/commands.h"
#include "core/data/transforms/table.h"
#include "core/layers/layer.h"
#include "core/layers/loss.h"
#include "core/layers/optimizer.h"
#include "core/train/schedule.h"

namespace trainer {
namespace {

void print_field(const Field& field) {
  fmt::print("    {:<16} {:<18} {:<12} {}{}\n", field.name, field.type_text(), field.default_text(), field.help,
             field.bound_text().empty() ? "" : "; " + field.bound_text());
}

template <class Base>
void print_table(const char* title, const Registry<Base>& table) {
  fmt::print("{}\n", title);
  for (const Registered<Base>& row : table) {
    fmt::print("  {:<18} {}\n", row.name, row.help);
    const std::unique_ptr<Base> component = row.make();
    Fields fields;
    component->declare(fields);
    for (const Field& field : fields.list()) print_field(field);
  }
  fmt::print("\n");
}

}  // namespace

int layers_command() {
  fmt::print("Each parameter: type, default, what it does, bounds.\n\n");
  print_table("Layers (model.layers)", layers());
  print_table("Losses (loss.name)", losses());
  print_table("Optimisers (optimizer.name)", optimizers());
  print_table("Schedules (lr_scheduler.name)", schedules());
  print_table("Transforms (data.augment, data.eval_transform)", transforms());
  fmt::print("Metrics (validation.metrics)\n");
  for (const Metric& metric : metrics()) fmt::print("  {:<18} {}\n", metric.name, metric.help);
  return 0;
}

}  // namespace trainer

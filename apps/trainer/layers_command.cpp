// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "apps/trainer/commands.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/config/fields.h"
#include "core/data/images/transforms/table.h"
#include "core/layers/layer.h"
#include "core/layers/loss.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"
#include "core/tasks/task.h"

namespace trainer {
namespace {

void print_field(const Field& field) {
  const std::string bounds = field.bound_text().empty() ? "" : "; " + field.bound_text();
  print_text("    {:<16} {:<27} {:<10} {}{}\n", field.name, field.type_text(), field.default_text(),
             field.help, bounds);
}

/// The rows of a table, each with its parameters except those in `leave_out`.
template <class Base>
void print_table(const char* title, const Registry<Base>& table,
                 const std::vector<std::string>& leave_out = {}) {
  print_text("\n{}\n", title);
  for (const Registered<Base>& row : table) {
    print_text("  {:<18} {}\n", row.name, row.help);
    const std::unique_ptr<Base> component = row.make();
    Fields fields;
    component->declare(fields);
    for (const Field& field : fields.list()) {
      if (std::find(leave_out.begin(), leave_out.end(), field.name) == leave_out.end()) print_field(field);
    }
  }
}

/// Parameters that every layer takes, shown once.
const std::vector<std::string>& common_fields() {
  static const std::vector<std::string> names = {"name", "inputs"};
  return names;
}

void print_common_fields() {
  print_text("  every layer also takes\n");
  const std::unique_ptr<Layer> layer = layers().front().make();
  Fields fields;
  layer->declare(fields);
  for (const Field& field : fields.list()) {
    const auto& common = common_fields();
    if (std::find(common.begin(), common.end(), field.name) != common.end()) print_field(field);
  }
}

/// Calls each(title, table) for every table of what a recipe chooses by name.
template <class Each>
void for_tables(const Each& each) {
  each("Layers (model.layers)", layers());
  each("Losses (loss.name)", losses());
  each("Optimisers (optimizer.name)", optimizers());
  each("Schedules (lr_scheduler.name)", schedules());
  each("Transforms (data.augment, data.eval_transform)", transforms());
}

/// Prints the rows of this name; throws Error (exit 64) with the nearest name if there is none.
void print_one(const std::string& name) {
  bool is_found = false;
  std::vector<std::string> known;
  for_tables([&](const char* title, const auto& table) {
    auto rows = table;
    std::erase_if(rows, [&](const auto& row) {
      known.emplace_back(row.name);
      return row.name != name;
    });
    if (rows.empty()) return;
    is_found = true;
    print_table(title, rows);
  });
  for (const Metric& metric : all_metrics()) {
    known.push_back(metric.name);
    if (metric.name != name) continue;
    is_found = true;
    print_text("\nMetrics (validation.metrics)\n  {:<18} {}\n", metric.name, metric.help);
  }
  if (is_found) return;
  const std::optional<std::string> meant = nearest(name, known);
  throw Error(
      ExitCode::usage,
      fmt::format("{}: no layer, loss, optimiser, schedule, transform or metric{}", one_line(name),
                  meant ? fmt::format("; did you mean '{}'?", *meant) : "; `trainer layers` lists all"));
}

}  // namespace

int layers_command(const Arguments& arguments) {
  if (!arguments.path.empty()) {
    print_one(arguments.path);
    return 0;
  }
  print_text("Each parameter: type, default, what it does, bounds.\n");
  print_table("Layers (model.layers)", layers(), common_fields());
  print_common_fields();
  print_table("Losses (loss.name)", losses());
  print_table("Optimisers (optimizer.name)", optimizers());
  print_table("Schedules (lr_scheduler.name)", schedules());
  print_table("Transforms (data.augment, data.eval_transform)", transforms());
  print_text("\nMetrics (validation.metrics)\n");
  for (const Metric& metric : all_metrics()) print_text("  {:<18} {}\n", metric.name, metric.help);
  return 0;
}

}  // namespace trainer

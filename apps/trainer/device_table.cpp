// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/device_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/trainer/device_models.h"
#include "apps/trainer/device_row.h"
#include "apps/trainer/loading_report.h"
#include "apps/trainer/standard_streams.h"
#include "core/base/printable.h"
#include "core/base/split.h"
#include "core/base/units.h"

namespace trainer {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// The devices that a price may be of.
std::vector<std::string> known_devices(const std::vector<std::string>& listed) {
  std::vector<std::string> known = device_names();
  known.emplace_back(kCpu);
  for (const std::string& name : listed) {
    if (!contains(known, name)) known.push_back(name);
  }
  return known;
}

/// From `RUN`, which has measured the processor, or `NAME=RUN`.
MeasuredRuns read_measured(const std::vector<std::string>& given, const std::vector<std::string>& listed) {
  MeasuredRuns runs;
  for (const std::string& word : given) {
    const size_t equals = word.find('=');
    const bool is_named = equals != std::string::npos && contains(listed, word.substr(0, equals));
    const std::string name = is_named ? word.substr(0, equals) : kCpu;
    if (!contains(listed, name)) {
      throw Error(ExitCode::usage,
                  fmt::format("--measured {}: --devices has no {}; add it, or write DEVICE={} with one of {}",
                              one_line(word), name, one_line(word), fmt::join(listed, ", ")));
    }
    runs[name] = is_named ? word.substr(equals + 1) : word;
  }
  return runs;
}

std::string number(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string fit_text(const DeviceRow& row) {
  if (!row.fits()) return "NO";
  return row.micro_batch == row.wanted_micro_batch
             ? "yes"
             : fmt::format("{}, not {}", row.micro_batch, row.wanted_micro_batch);
}

std::string line(const std::string& name, const std::vector<std::string>& cells, const std::string& memory,
                 const std::string& fits) {
  std::string text = fmt::format("{:<16}", name);
  for (const std::string& cell : cells) text += fmt::format(" {:>11}", cell);
  return text + fmt::format("  {:<23} {}\n", memory, fits);
}

std::string text_of(const DeviceRow& row, const Arguments& arguments) {
  const std::optional<double> seconds = row.step_seconds();
  std::vector<std::string> cells{
      std::to_string(row.micro_batch), seconds ? number(1e3 * *seconds, 2) + " ms" : "-",
      number(row.samples_per_second, 0), number(row.hours(), 2), number(row.kilowatt_hours(), 2)};
  if (!arguments.prices.empty()) cells.push_back(number(row.cost(), 2));
  if (arguments.decode_rate > 0) {
    const std::optional<int64_t> cores = cores_to_load(row.loaded_per_second(), arguments);
    cells.push_back(cores ? std::to_string(*cores) : "-");
  }
  return line(one_line(row.name), cells,
              fmt::format("{} of {}", human_bytes(row.bytes), human_bytes(row.available)), fit_text(row));
}

std::string length_text(const DeviceRow& row) {
  if (row.steps == 0)
    return "Hours are not known without the data, unless training.max_duration is in batches.\n"
           "data.format=synthetic data.synthetic.train_samples=N stands for N images.\n";
  return fmt::format(
      "Hours are those of {} training steps{}; evaluations, saves and waiting for data come on top.\n",
      row.steps,
      row.devices == 1 ? ""
      : row.machine.empty()
          ? fmt::format(" on {} devices, without the time of sums between them", row.devices)
          : fmt::format(" on {} devices, with the time of sums between them", row.devices));
}

std::string notes(const std::vector<DeviceRow>& rows, const Arguments& arguments) {
  const auto any = [&](const auto& is) { return std::ranges::any_of(rows, is); };
  std::string text;
  if (any([](const DeviceRow& row) { return row.samples_per_second && row.measured_in.empty(); }))
    text += "Step and samples/s are predicted from the devices' rates, not measured.\n";
  for (const DeviceRow& row : rows) {
    if (!row.measured_in.empty())
      text += fmt::format("{}: measured in {}.\n", one_line(row.name), one_line(row.measured_in));
    else if (!row.samples_per_second)
      text += row.name == kCpu
                  ? "cpu: the speed of processors is not predicted. Train some hundred batches on "
                    "it, then add --measured RUN with the run's directory.\n"
                  : fmt::format("{}: its description has no rates.\n", one_line(row.name));
  }
  text += length_text(rows.front());
  if (any([](const DeviceRow& row) { return row.kilowatt_hours().has_value(); }))
    text +=
        "kWh are an upper bound: the devices at their power limits all the time. Their host is not "
        "counted.\n";
  if (!arguments.prices.empty()) text += "Cost is hours times devices times the price of --price.\n";
  if (arguments.decode_rate > 0)
    text += fmt::format("Cores are those that make {:g} samples/s each, so that the devices need not wait.\n",
                        arguments.decode_rate);
  return text;
}

std::vector<std::string> listed_devices(const std::string& list) {
  std::vector<std::string> names;
  for (const std::string& part : split(list, ',')) {
    const std::string name = trimmed(part);
    if (!name.empty() && !contains(names, name)) names.push_back(name);
  }
  if (names.empty())
    throw Error(ExitCode::usage, "--devices: expected names with commas between, as in a100,h100");
  return names;
}

}  // namespace

void print_device_table(const Arguments& arguments) {
  const std::vector<std::string> names = listed_devices(arguments.devices);
  const Prices prices = read_prices(arguments.prices, known_devices(names));
  const MeasuredRuns measured = read_measured(arguments.measured, names);
  std::vector<DeviceRow> rows;
  for (const std::string& name : names) rows.push_back(plan_device(arguments, name, prices, measured));
  if (arguments.json) {
    Json all = Json::array();
    for (const DeviceRow& row : rows) {
      Json json = to_json(row);
      if (const std::optional<int64_t> cores = cores_to_load(row.loaded_per_second(), arguments))
        json["cores_to_load"] = *cores;
      all.push_back(std::move(json));
    }
    // A path need not be UTF-8, JSON must.
    print_to_output(all.dump(2, Json::NotUtf8::replace) + "\n");
    return;
  }
  std::vector<std::string> titles{"micro-batch", "step", "samples/s", "hours", "kWh"};
  if (!arguments.prices.empty()) titles.emplace_back("cost");
  if (arguments.decode_rate > 0) titles.emplace_back("cores");
  std::string text = line("device", titles, "memory", "fits");
  for (const DeviceRow& row : rows) text += text_of(row, arguments);
  print_to_output(text + notes(rows, arguments));
}

}  // namespace trainer

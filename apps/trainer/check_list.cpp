// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/check_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/printable.h"
#include "core/data/images/source.h"
#include "core/data/tables/source.h"

namespace trainer {
namespace {

/// Samples of a group that a reader gets; JSON has all.
constexpr size_t kListedSamples = 8;

const char* name_of(Split split) {
  return split == Split::train ? "train" : "val";
}

/// "train 3 (bag) = val 4 (shirt)"; each label may be empty.
std::string group_text(const std::vector<CheckedSample>& samples, const std::vector<std::string>& labels) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(kListedSamples, samples.size()); ++i)
    shown.push_back(samples[i].text() + (labels[i].empty() ? "" : fmt::format(" ({})", labels[i])));
  const size_t more = samples.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, " = "),
                     more == 0 ? "" : fmt::format(" = ... and {} more", more));
}

}  // namespace

std::string CheckedSample::text() const {
  return fmt::format("{} {}", name_of(side), one_line(name));
}

Json CheckedSample::json() const {
  return {{"split", name_of(side)}, {"sample", name}};
}

std::string exclude_name(const DataSource& source, int64_t index, const std::string& id) {
  if (const auto* rows = dynamic_cast<const TableSource*>(&source))
    return rows->row_names().name(rows->samples().first_row(index), id);
  return as_images(source).exclude_name(index);
}

CheckList::Row row_of_copies(std::vector<CheckedSample> samples) {
  return {.text = group_text(samples, std::vector<std::string>(samples.size())),
          .json = {{"samples", json_of(samples)}},
          .left_out = all_but_one(std::move(samples))};
}

CheckList::Row row_of_contradiction(const std::vector<CheckedSample>& samples,
                                    const std::vector<std::string>& labels) {
  return {.text = group_text(samples, labels), .json = {{"samples", json_of(samples)}}, .left_out = samples};
}

Json json_of(const std::vector<CheckedSample>& samples) {
  Json all = Json::array();
  for (const CheckedSample& sample : samples) all.push_back(sample.json());
  return all;
}

std::vector<CheckedSample> all_but_one(std::vector<CheckedSample> samples) {
  const auto validating = std::ranges::find(samples, Split::val, &CheckedSample::side);
  samples.erase(validating == samples.end() ? samples.begin() : validating);
  return samples;
}

}  // namespace trainer

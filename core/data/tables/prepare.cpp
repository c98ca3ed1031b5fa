// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/data/in_parallel.h"
#include "core/data/tables/number.h"
#include "core/data/tables/preparation.h"
#include "core/data/tables/time.h"

namespace trainer {
namespace {

/// As numpy.quantile: linear between the two nearest. Reorders the values.
double quantile(std::vector<float>& values, double share) {
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(place);
  const auto at = values.begin() + below;
  std::nth_element(values.begin(), at, values.end());
  if (at + 1 == values.end()) return *at;
  const double next = *std::min_element(at + 1, values.end());
  return *at + (next - *at) * (place - static_cast<double>(below));
}

/// How the values of a column are read, and their mean.
struct NumberColumn {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  double fill = 0;  ///< in place of a missing value
  double mean = 0;  ///< with missing values filled

  double clipped(double value) const { return value < low ? low : value > high ? high : value; }
};

/// Of the clipped values of a column that are there.
struct NumberSums {
  int64_t known = 0;
  double sum = 0;
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();

  void take(const NumberColumn& column, double value) {
    const double clipped = column.clipped(value);
    add({.known = 1, .sum = clipped, .least = clipped, .most = clipped});
  }
  void add(const NumberSums& other) {
    known += other.known;
    sum += other.sum;
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
};

/// Of their differences from the mean.
struct NumberDifferences {
  double squares = 0, sum = 0;

  void take(const NumberColumn& column, double value) {
    const double difference = column.clipped(value) - column.mean;
    add({.squares = difference * difference, .sum = difference});
  }
  void add(const NumberDifferences& other) {
    squares += other.squares;
    sum += other.sum;
  }
};

/// Measures all columns of numbers in two walks over the rows.
class Preparer {
 public:
  Preparer(const Table& table, std::span<const int64_t> rows, const TableRequest& request, int64_t threads)
      : table_(table),
        rows_(rows),
        request_(request),
        threads_(threads),
        columns_(table.columns.row_numbers()) {
    if (request.keys.clip > 0 || request.keys.missing == "median") {
      in_parallel(table.columns.numbers.size(), threads, [&](size_t place) { find_quantiles(place); });
    }
    sums_ = walk<NumberSums>();
    const auto count = static_cast<double>(rows.size());
    const size_t numbers = table.columns.numbers.size();
    for (size_t place = 0; place < columns_.size(); ++place) {
      const auto known = static_cast<double>(sums_[place].known);
      NumberColumn& column = columns_[place];
      if (known > 0 && request.keys.missing != "median") column.fill = sums_[place].sum / known;
      column.mean = place < numbers ? (sums_[place].sum + (count - known) * column.fill) / count
                    : known > 0     ? sums_[place].sum / known
                                    : 0;
    }
    differences_ = walk<NumberDifferences>();
  }

  TablePreparation::Number number(size_t column) const {
    const TableColumns::Column& of = table_.columns.all[column];
    const NumberColumn& found = columns_[of.place];
    const NumberSums& sums = sums_[of.place];
    if (sums.known == 0) return {.name = of.name};
    TablePreparation::Number number{
        .name = of.name, .fill = found.fill, .low = found.low, .high = found.high};
    if (request_.keys.scale == "min_max") {
      number.shift = sums.least;
      number.scale = sums.most > sums.least ? sums.most - sums.least : 1;
    } else if (request_.keys.scale == "standard") {
      number.shift = found.mean;
      number.scale = deviation(of.place, std::ssize(rows_));
    }
    return number;
  }

  TablePreparation::Category category(size_t column) const {
    const TableColumns::Column& of = table_.columns.all[column];
    return {of.name, words_of(of.place)};
  }

  /// Rows of series may lack targets.
  TablePreparation::Target target(size_t number) const {
    const std::string& name = table_.columns.all[table_.columns.targets[number]].name;
    const size_t place = table_.columns.target_place(number);
    if (sums_[place].known == 0) return {.name = name};
    return {.name = name, .mean = columns_[place].mean, .deviation = deviation(place, sums_[place].known)};
  }

  std::vector<std::string> classes(size_t column) const {
    std::vector<std::string> words = words_of(table_.columns.all[column].place);
    double number = 0;
    if (!std::ranges::all_of(words, [&](const std::string& word) { return parse_number(word, number); }))
      return words;
    std::ranges::stable_sort(words, {}, [](const std::string& word) {
      double value = 0;
      parse_number(word, value);
      return value;
    });
    return words;
  }

 private:
  void find_quantiles(size_t place) {
    std::vector<float> known;
    for (const int64_t row : rows_) {
      const float value = table_.numbers_of(row)[place];
      if (value == value) known.push_back(value);
    }
    if (known.empty()) return;
    NumberColumn& column = columns_[place];
    if (request_.keys.clip > 0) {
      column.low = quantile(known, request_.keys.clip);
      column.high = quantile(known, 1 - request_.keys.clip);
    }
    if (request_.keys.missing == "median") column.fill = column.clipped(quantile(known, 0.5));
  }

  /// What the known values of each column come to, added in an order that no number of threads changes.
  template <class Result>
  std::vector<Result> walk() const {
    std::vector<std::vector<Result>> blocks((rows_.size() + kBlockRows - 1) / kBlockRows);
    in_parallel(blocks.size(), threads_, [&](size_t block) {
      std::vector<Result> found(columns_.size());
      const size_t begin = block * kBlockRows;
      for (const int64_t row : rows_.subspan(begin, std::min(kBlockRows, rows_.size() - begin))) {
        const std::span<const float> values = table_.numbers_of(row);
        for (size_t place = 0; place < found.size(); ++place)
          if (values[place] == values[place]) found[place].take(columns_[place], values[place]);
      }
      blocks[block] = std::move(found);
    });
    std::vector<Result> all(columns_.size());
    for (const std::vector<Result>& block : blocks) {
      for (size_t place = 0; place < all.size(); ++place) all[place].add(block[place]);
    }
    return all;
  }

  /// Of this many values, those that are missing filled; 1 for a column of equal ones, as scikit-learn's
  /// StandardScaler.
  double deviation(size_t place, int64_t rows) const {
    const NumberColumn& column = columns_[place];
    const auto count = static_cast<double>(rows);
    const double missing = count - static_cast<double>(sums_[place].known), apart = column.fill - column.mean;
    const double squares = differences_[place].squares + missing * apart * apart,
                 difference = differences_[place].sum + missing * apart;
    const double variance = (squares - difference * difference / count) / count;
    // Less is the rounding of equal values: the bound of scikit-learn 1.x (_is_constant_feature).
    const double rounding = count * std::numeric_limits<double>::epsilon();
    const bool is_constant = variance <= rounding * variance + std::pow(rounding * column.mean, 2);
    return is_constant ? 1 : std::sqrt(variance);
  }

  /// The texts that these rows have.
  std::vector<std::string> words_of(size_t place) const {
    const std::vector<std::string>& all = table_.words[place];
    std::vector<bool> is_there(all.size());
    for (const int64_t row : rows_) {
      const int32_t code = table_.codes_of(row)[place];
      if (code != Table::kNoCode) is_there[static_cast<size_t>(code)] = true;
    }
    std::vector<std::string> words;
    for (size_t i = 0; i < all.size(); ++i)
      if (is_there[i]) words.push_back(all[i]);
    return words;
  }

  static constexpr size_t kBlockRows = 16384;

  const Table& table_;
  std::span<const int64_t> rows_;
  const TableRequest& request_;
  int64_t threads_;
  std::vector<NumberColumn> columns_;  ///< of numbers, by their places
  std::vector<NumberSums> sums_;
  std::vector<NumberDifferences> differences_;
};

}  // namespace

TablePreparation prepare_table(const Table& table, std::span<const int64_t> rows, const TableRequest& request,
                               int64_t threads) {
  const Preparer prepare(table, rows, request, threads);
  const TableColumns& columns = table.columns;
  TablePreparation found;
  for (const size_t column : columns.numbers) found.numbers.push_back(prepare.number(column));
  for (const size_t column : columns.categories) found.categories.push_back(prepare.category(column));
  if (request.targets == TargetUse::numbers) {
    for (size_t i = 0; i < columns.targets.size(); ++i) found.targets.push_back(prepare.target(i));
  } else if (request.targets == TargetUse::label_sets) {
    found.classes = columns.names(columns.targets);
  } else if (columns.label) {
    found.label = columns.all[*columns.label].name;
    found.classes = prepare.classes(*columns.label);
  }
  if (columns.text) found.text = columns.all[*columns.text].name;
  found.refuses_missing = request.keys.missing == "error";
  if (columns.time) found.step = commonest_step(table.times, table.series_ends, columns.time_form);
  return found;
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/data/tables/findings.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "core/data/in_parallel.h"

namespace trainer {
namespace {

using Role = ColumnValues::Role;

/// The rows of a column in the order of its values, those without one first.
class RowsByValue {
 public:
  explicit RowsByValue(const ColumnValues& column) : ends_(column.different() + 1), rows_(column.rows()) {
    for (const int32_t code : column.codes) ++ends_[place(code)];
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    for (size_t row = rows_.size(); row-- > 0;) rows_[--ends_[place(column.codes[row])]] = row;
    ends_.erase(ends_.begin());  // each is now the begin of its value's rows
    ends_.push_back(rows_.size());
  }
  std::span<const size_t> missing() const { return std::span(rows_).first(ends_.front()); }
  size_t values() const { return ends_.size() - 1; }
  std::span<const size_t> of_value(size_t value) const {
    return std::span(rows_).subspan(ends_[value], ends_[value + 1] - ends_[value]);
  }

 private:
  static size_t place(int32_t code) { return static_cast<size_t>(code - Table::kNoCode); }

  std::vector<size_t> ends_, rows_;
};

/// How a column and classes go together.
class ClassTest {
 public:
  ClassTest(const ColumnValues& column, const ColumnValues& target)
      : column_(column), target_(target), rows_(column), counts_(target.different()) {
    std::vector<size_t> all(target.rows());
    std::iota(all.begin(), all.end(), size_t{0});
    errors_ = all.size() - count(all).most;
  }

  /// Errors of the most frequent class; with few of them a column agrees by chance.
  bool is_possible() const {
    return target_.rows() >= kLeastPredictiveRows && 2 * errors_ >= kLeastPredictiveRows;
  }

  double by_value() const {
    size_t wrong = errors_of(rows_.missing());
    for (size_t value = 0; value < rows_.values(); ++value) wrong += errors_of(rows_.of_value(value));
    return strength(wrong);
  }

  /// The classes in the order of their medians have an interval each, those with the fewest errors; rows
  /// without a number have their most frequent class.
  double by_threshold() const {
    const std::vector<size_t> place = places_by_medians();
    std::vector<size_t> errors(place.size());  // if the interval of this class is the last one so far
    for (size_t value = 0; value < rows_.values(); ++value) {
      const std::span<const size_t> rows = rows_.of_value(value);
      size_t best = errors.front();
      for (size_t& error : errors) {
        best = std::min(best, error);
        error = best + rows.size();
      }
      for (const size_t row : rows) --errors[place[class_of(row)]];
      if (strength(*std::ranges::min_element(errors)) < kPredictiveClassStrength) return 0;
    }
    const std::span<const size_t> missing = rows_.missing();
    return strength(*std::ranges::min_element(errors) + missing.size() - count(missing).most);
  }

 private:
  size_t class_of(size_t row) const { return static_cast<size_t>(target_.codes[row]); }
  double strength(size_t wrong) const {
    return 1 - static_cast<double>(wrong) / static_cast<double>(errors_);
  }

  /// Rows of the most frequent class, and of the next.
  struct Largest {
    size_t most = 0, next = 0;
  };
  Largest count(std::span<const size_t> rows) const {
    for (const size_t row : rows) ++counts_[class_of(row)];
    Largest found;
    for (const size_t row : rows) {
      const size_t counted = std::exchange(counts_[class_of(row)], 0);  // once for each class
      if (counted > found.most)
        found.next = std::exchange(found.most, counted);
      else
        found.next = std::max(found.next, counted);
    }
    return found;
  }
  /// A row is right if most others with its value have its class.
  size_t errors_of(std::span<const size_t> rows) const {
    const Largest found = count(rows);
    return found.most > found.next + 1 ? rows.size() - found.most : rows.size();
  }

  /// The place of each class in the order of the classes' medians.
  std::vector<size_t> places_by_medians() const {
    std::vector<std::vector<int32_t>> values(counts_.size());
    for (size_t row = 0; row < column_.rows(); ++row)
      if (column_.codes[row] != Table::kNoCode) values[class_of(row)].push_back(column_.codes[row]);
    std::vector<int32_t> medians;
    for (std::vector<int32_t>& of_class : values) {
      const auto middle = of_class.begin() + std::ssize(of_class) / 2;
      std::ranges::nth_element(of_class, middle);
      medians.push_back(of_class.empty() ? Table::kNoCode : *middle);
    }
    std::vector<size_t> order(values.size()), places(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t c) { return medians[c]; });
    for (size_t i = 0; i < order.size(); ++i) places[order[i]] = i;
    return places;
  }

  const ColumnValues &column_, &target_;
  RowsByValue rows_;
  mutable std::vector<size_t> counts_;  ///< of each class; zeros between the calls
  size_t errors_ = 0;
};

/// The mean of the places of each value in the order of all rows, as Spearman's correlation takes it.
std::vector<double> ranks_of(const ColumnValues& column, const std::vector<size_t>& rows) {
  std::vector<double> count(column.different()), rank(column.different()), ranks;
  for (const size_t row : rows) ++count[static_cast<size_t>(column.codes[row])];
  double before = 0;
  for (size_t v = 0; v < count.size(); ++v) {
    rank[v] = before + (count[v] - 1) / 2;
    before += count[v];
  }
  for (const size_t row : rows) ranks.push_back(rank[static_cast<size_t>(column.codes[row])]);
  return ranks;
}

double squared_deviations(const std::vector<double>& values, double mean) {
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

double average(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The square of Pearson's correlation; 0 if one of the two is constant.
double squared_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double x_mean = average(x), y_mean = average(y);
  double products = 0;
  for (size_t i = 0; i < x.size(); ++i) products += (x[i] - x_mean) * (y[i] - y_mean);
  const double squares = squared_deviations(x, x_mean) * squared_deviations(y, y_mean);
  return squares > 0 ? products * products / squares : 0;
}

/// How a column and a target of numbers go together, where the column has a value.
class NumberTest {
 public:
  NumberTest(const ColumnValues& column, const ColumnValues& target) : column_(column), target_(target) {
    for (size_t row = 0; row < column.rows(); ++row) {
      if (column.codes[row] == Table::kNoCode) continue;
      rows_.push_back(row);
      wanted_.push_back(number(target, row));
    }
  }

  bool is_possible() const {
    return rows_.size() >= kLeastPredictiveRows && 2 * rows_.size() >= column_.rows();
  }

  double linear() const {
    std::vector<double> values;
    for (const size_t row : rows_) values.push_back(number(column_, row));
    return squared_correlation(values, wanted_);
  }
  double monotone() const { return squared_correlation(ranks_of(column_, rows_), ranks_of(target_, rows_)); }
  double by_value() const {
    const double mean = average(wanted_), spread = squared_deviations(wanted_, mean);
    const RowsByValue by_value(column_);
    double wrong = 0;
    for (size_t value = 0; value < by_value.values(); ++value) {
      const std::span<const size_t> rows = by_value.of_value(value);
      double sum = 0;
      for (const size_t row : rows) sum += number(target_, row);
      for (const size_t row : rows) {
        const double own = number(target_, row), others = static_cast<double>(rows.size()) - 1;
        wrong += std::pow((others > 0 ? (sum - own) / others : mean) - own, 2);
      }
    }
    return spread > 0 ? 1 - wrong / spread : 0;
  }

 private:
  static double number(const ColumnValues& column, size_t row) {
    return column.numbers[static_cast<size_t>(column.codes[row])];
  }

  const ColumnValues &column_, &target_;
  std::vector<size_t> rows_;
  std::vector<double> wanted_;
};

std::optional<PredictiveColumn> test_classes(const ColumnValues& column, const ColumnValues& target) {
  const ClassTest test(column, target);
  if (!test.is_possible()) return std::nullopt;
  if (column.is_number && test.by_threshold() >= kPredictiveClassStrength)
    return PredictiveColumn{column.name, target.name, "threshold", test.by_threshold()};
  if (const double strength = test.by_value(); strength >= kPredictiveClassStrength)
    return PredictiveColumn{column.name, target.name, "value", strength};
  return std::nullopt;
}

std::optional<PredictiveColumn> test_numbers(const ColumnValues& column, const ColumnValues& target) {
  const NumberTest test(column, target);
  if (!test.is_possible()) return std::nullopt;
  if (column.is_number) {
    if (const double strength = test.linear(); strength >= kPredictiveStrength)
      return PredictiveColumn{column.name, target.name, "linear", strength};
    if (const double strength = test.monotone(); strength >= kPredictiveStrength)
      return PredictiveColumn{column.name, target.name, "monotone", strength};
  }
  if (const double strength = test.by_value(); strength >= kPredictiveStrength)
    return PredictiveColumn{column.name, target.name, "value", strength};
  return std::nullopt;
}

/// Whether a column counts the rows: 0, 1, 2 and so on, or from 1.
bool counts_rows(const Table& table, size_t column) {
  const size_t place = table.columns.all[column].place;
  const float first = table.numbers_of(0)[place];
  if (table.rows < 2 || (first != 0 && first != 1)) return false;
  for (int64_t row = 0; row < table.rows; ++row) {
    if (table.numbers_of(row)[place] != first + static_cast<float>(row)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> constant_columns(const std::vector<ColumnValues>& columns) {
  std::vector<std::string> found;
  for (const ColumnValues& column : columns) {
    const size_t missing = column.is_number || std::ranges::count(column.codes, Table::kNoCode) == 0 ? 0 : 1;
    if (column.role == Role::input && column.different() + missing <= 1) found.push_back(column.name);
  }
  return found;
}

std::vector<size_t> columns_of_row_names(const Table& table) {
  std::vector<size_t> found;
  for (const size_t column : table.columns.numbers)
    if (counts_rows(table, column)) found.push_back(column);
  for (const size_t column : table.columns.categories) {
    const auto texts = static_cast<int64_t>(table.words[table.columns.all[column].place].size());
    if (2 * texts > table.rows) found.push_back(column);
  }
  return found;
}

std::vector<PredictiveColumn> predictive_columns(const std::vector<ColumnValues>& columns, bool are_classes,
                                                 int64_t threads) {
  std::vector<std::vector<PredictiveColumn>> of_column(columns.size());
  in_parallel(columns.size(), threads, [&](size_t c) {
    if (columns[c].role != Role::input) return;
    for (const ColumnValues& target : columns) {
      if (target.role != Role::target) continue;
      const auto predictive =
          are_classes ? test_classes(columns[c], target) : test_numbers(columns[c], target);
      if (predictive) of_column[c].push_back(*predictive);
    }
  });
  std::vector<PredictiveColumn> found;
  for (auto& each : of_column) std::ranges::move(each, std::back_inserter(found));
  return found;
}

}  // namespace trainer

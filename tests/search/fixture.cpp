// SPDX-License-Identifier: Apache-2.0
#include "tests/search/fixture.h"

#include <fstream>
#include <limits>
#include <sstream>

#include "tests/catch.h"

namespace trainer {

std::vector<Json> search_fixture(const std::string& name) {
  std::ifstream file(std::string(TRAINER_SOURCE_DIR) + "/tests/fixtures/search/" + name + ".json");
  std::stringstream text;
  text << file.rdbuf();
  const std::optional<Json> cases = Json::parse(text.str());
  REQUIRE(cases);
  return cases->items();
}

Space fixture_space(const Json& dimensions) {
  Space space;
  for (const Json& one : dimensions.items()) {
    Dimension dimension;
    dimension.name = std::to_string(space.size());
    if (one["kind"].text() == "choice") {
      dimension.kind = Dimension::Kind::choice;
      dimension.choices = one["choices"].integer().value();
    } else {
      dimension.kind = one["kind"].text() == "real" ? Dimension::Kind::real : Dimension::Kind::integer;
      dimension.low = one["low"].number();
      dimension.high = one["high"].number();
      dimension.logarithmic = one["log"].boolean();
    }
    space.push_back(dimension);
  }
  return space;
}

Observation::State fixture_state(const std::string& name) {
  if (name == "finished") return Observation::State::finished;
  if (name == "dropped") return Observation::State::dropped;
  return name == "open" ? Observation::State::open : Observation::State::failed;
}

double fixture_number(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.number();
}

std::vector<double> fixture_numbers(const Json& values) {
  std::vector<double> numbers;
  for (const Json& value : values.items()) numbers.push_back(fixture_number(value));
  return numbers;
}

}  // namespace trainer

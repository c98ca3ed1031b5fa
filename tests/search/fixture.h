// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/search/observation.h"
#include "core/search/space.h"

namespace trainer {

/// The cases of tests/fixtures/search/NAME.json (scripts/fixtures/make_search_fixtures.py).
std::vector<Json> search_fixture(const std::string& name);
Space fixture_space(const Json& dimensions);
Observation::State fixture_state(const std::string& name);
/// null is NaN
double fixture_number(const Json& value);
std::vector<double> fixture_numbers(const Json& values);

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace trainer {

class Fields;

/// Something a recipe names and gives parameters: a layer, an optimiser, a schedule, a transform.
class Component {
 public:
  virtual ~Component() = default;
  /// Declares every parameter, bound to a member; the member's present value is the default.
  virtual void declare(Fields& fields) = 0;

  std::string chosen_as;                    ///< its name in the registry, if it is from one
  Origin origin;                            ///< the component's own place
  std::map<std::string, Location> written;  ///< the place of each parameter that the recipe gives

  /// The origin of one parameter, for errors found late; the component's if the recipe does not give it.
  Origin origin_of(const std::string& field) const;
};

/// A row of an explicit table of components.
template <class Base>
struct Registered {
  std::string name;
  std::string help;  ///< one line
  std::function<std::unique_ptr<Base>()> make;
};
template <class Base>
using Registry = std::vector<Registered<Base>>;

}  // namespace trainer

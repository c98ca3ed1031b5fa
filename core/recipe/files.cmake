# SPDX-License-Identifier: Apache-2.0
trainer_library(core/recipe
  SOURCES assemble.cpp cache.cpp feed.cpp initial_weights.cpp job.cpp recipe.cpp reference.cpp schema.cpp sections.cpp
  USES run train tasks optim metrics host storage data layers passes engine graph config base
  PRIVATE fmt::fmt nlohmann_json::nlohmann_json)

# SPDX-License-Identifier: Apache-2.0
trainer_library(core/config
  SOURCES
    component_keys.cpp
    document.cpp
    events.cpp
    expression.cpp
    field.cpp
    field_values.cpp
    fields.cpp
    messages.cpp
    nearest.cpp
    override.cpp
    patterns.cpp
    reading.cpp
    resolved.cpp
    template_table.cpp
    template_use.cpp
    templates.cpp
    yaml_writer.cpp
  USES base
  PRIVATE yaml-cpp fmt::fmt)

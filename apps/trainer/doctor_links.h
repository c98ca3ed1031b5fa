// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trainer {

/// trainer doctor --links FILE, among the ranks that a launcher has started: measures their links, and writes
/// a machine for `trainer plan --machine FILE`. Throws Error: exit 64 if it is alone, 69 if the ranks cannot
/// join.
/// `gpu`: the name that a GPU of this host has, if ranks may use one.
void write_links(const std::string& file, const std::string& gpu);

}  // namespace trainer

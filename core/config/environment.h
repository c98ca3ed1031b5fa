// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/config/value.h"

namespace trainer {

/// Replaces each `${env:NAME}` in `text`; returns what is wrong with it, or nothing.
std::string expand_environment(std::string& text);

/// Whether a text, or one within a value, is written with `${env:NAME}`. What it stands for may be a secret:
/// it is neither stored nor printed.
bool reads_environment(const std::string& raw);
bool reads_environment(const Value& value);

/// What stands in a run's identity for such a value of the key `name`: a hash of both. It hides no value that
/// can be guessed.
Value hidden(const std::string& name, const Value& value);
/// The same for a path of data: the samples are compared instead.
Value left_to_samples();

/// Whether two leaves of identities at `path` may be of one run. A hidden one is compared by its hash.
bool is_same_leaf(const std::string& path, const std::string& a, const std::string& b);
bool is_hidden(const std::string& leaf);

}  // namespace trainer

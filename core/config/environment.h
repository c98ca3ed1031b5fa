// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/config/value.h"

namespace trainer {

/// Replaces each `${env:NAME}` in `text`; returns an error message, or nothing.
std::string expand_environment(std::string& text);

/// Whether a text, or one within a value, contains `${env:NAME}`. The variable's value may be a secret: it is
/// neither stored nor printed.
bool reads_environment(const std::string& raw);
bool reads_environment(const Value& value);

/// The replacement for the value of the key `name` in a run's identity: a hash of both. It does not hide a
/// value that can be guessed.
Value hidden(const std::string& name, const Value& value);
/// The same for a path of data: the samples are compared instead.
Value left_to_samples();

/// Whether two leaves of identities at `path` may be of one run. A hidden one is compared by its hash.
bool is_same_leaf(const std::string& path, const std::string& a, const std::string& b);
bool is_hidden(const std::string& leaf);

}  // namespace trainer

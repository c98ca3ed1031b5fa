// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "core/storage/output_file.h"

namespace trainer {

/// Prevents files from getting the descriptors 0 to 2 if these are closed: output would end up in those
/// files. Writing to a closed one still fails.
void reserve_standard_streams();

// A subcommand's output, without control characters other than line breaks. Throws Error (exit 74) if it
// cannot be delivered, unless the reader has gone and so has read all it needs.
void print_to_output(std::string_view text);
void print_warning(std::string_view text);
void print_remark(std::string_view text);  ///< a line on the error stream
void print_error(std::string_view text);   ///< throws nothing
template <class... Values>
void print_text(fmt::format_string<Values...> format, Values&&... values) {
  print_to_output(fmt::format(format, std::forward<Values>(values)...));
}

/// The same unbuffered, for output that is read as it comes; `text` is written as it is. Returns false if the
/// reader has gone.
bool write_at_once(std::string_view text);

/// Columns of the terminal that shows the standard output; nothing if that is none. 80 if it does not say.
std::optional<size_t> output_width();

/// A line about a file that was written: on the error stream if the file is the standard output.
void print_note(const OutputFile& about, std::string_view text);

/// Prints the buffered output. Returns `code`, or 74 after a message if that fails.
int finish_output(int code);

}  // namespace trainer

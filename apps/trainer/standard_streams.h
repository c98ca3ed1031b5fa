// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "core/storage/output_file.h"

namespace trainer {

/// Keeps the descriptors 0 to 2 from going to files where they are closed: what is printed would end up
/// there. Writing to a closed one still fails.
void reserve_standard_streams();

// What a subcommand prints, without control characters but the ends of lines. Throws Error (exit 74) if it
// does not arrive, unless its reader has gone, who then has all that was wanted.
void print_to_output(std::string_view text);
void print_warning(std::string_view text);
void print_error(std::string_view text);  ///< throws nothing
template <class... Values>
void print_text(fmt::format_string<Values...> format, Values&&... values) {
  print_to_output(fmt::format(format, std::forward<Values>(values)...));
}

/// The same without a buffer in between, for what is read while it comes; `text` goes out as it is. False
/// where its reader has gone.
bool write_at_once(std::string_view text);

/// A line about a file that was written: on the error stream where the file is the standard output.
void print_note(const OutputFile& about, std::string_view text);

/// Prints what is still buffered. Returns `code`, or 74 after a sentence where that does not arrive.
int finish_output(int code);

}  // namespace trainer

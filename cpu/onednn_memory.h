// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trainer::cpu {

/// From here on oneDNN's calls throw std::bad_alloc if it gets no memory. Release 2.6 crashes there.
void throw_where_onednn_gets_no_memory();

/// For lack of memory for generated code it does not throw: before a call that may need some, this ensures
/// that there is enough for it. Throws std::bad_alloc.
void reserve_room_for_code();

}  // namespace trainer::cpu

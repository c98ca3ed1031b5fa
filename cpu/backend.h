// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/engine/backend.h"
#include "core/engine/process_group.h"
#include "core/engine/tuning.h"

namespace trainer {

/// Bytes that this process may hold, and what limits them: "cgroup"; "" if only the machine does.
struct HostMemory {
  int64_t bytes = 0;  ///< 0: all of the machine's
  std::string limit;
};

/// Runs on the host's cores: convolutions, pooling and matrix products by oneDNN in the layouts it chooses,
/// everything else by loops over the shared functors. `threads` 0: all that the process may use. With
/// `tuning`, convolutions are timed rather than chosen by rule; it must outlive the backend. bf16 runs if
/// the processor has instructions for it or, slowly, if `emulate_bf16` is set. `ranks`, which must outlive
/// the backend too, are those that train together; null: this process is alone. Without `own_winograd` all
/// convolutions are oneDNN's. `memory` is that of this process, not of all ranks on the host.
Backend make_cpu_backend(int threads, Tuning* tuning = nullptr, bool emulate_bf16 = false,
                         ProcessGroup* group = nullptr, bool own_winograd = true, HostMemory memory = {});

/// Keeps CPU backends from vector instructions beyond these: "sse41", "avx2", "avx512", "avx512_vnni" or
/// "avx512_bf16". Call it before the first backend is made. It takes precedence over ONEDNN_MAX_CPU_ISA.
/// Throws Error (exit 69) if this processor does not have them.
void limit_cpu_instructions(const std::string& name);

/// Processors that the process's affinity allows, whatever limits its time on them.
int available_threads();

/// As Linux names the first processor.
std::string processor_name();

/// "2.6.3"
std::string onednn_version();

/// Makes waiting threads of OpenMP, and so of oneDNN, spin briefly, then sleep. The user's settings
/// (OMP_WAIT_POLICY, GOMP_SPINCOUNT) take precedence. GCC's OpenMP reads these variables while the program is
/// loaded, so the program starts itself once more; call this first in main, unless OpenMP has bound this
/// thread to a core already. If it cannot, it continues unchanged.
void spin_briefly(char** argv);

/// How they wait, for people: "spin briefly, then sleep (GOMP_SPINCOUNT=...)".
std::string waiting_policy();

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attribute of a loop's function: it is compiled for three instruction sets, and the best is picked when the
// program is loaded. Sanitizers instrument code that runs before that choice, so they get one version, as do
// other processors.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(TRAINER_SANITIZED)
#define TRAINER_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRAINER_MULTIVERSION
#endif

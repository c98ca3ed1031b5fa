// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loop's function carries this; its text is compiled for three instruction sets and the best one is picked
// when the program is loaded. Sanitizers instrument what runs before that choice can be made. Other
// processors have one set.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(TRAINER_SANITIZED)
#define TRAINER_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRAINER_MULTIVERSION
#endif

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include "core/host/log.h"

namespace trainer::test {

/// A log that writes its screen output to /dev/null.
struct QuietLog {
  QuietLog()
      : null(::open("/dev/null", O_WRONLY)),
        screen([this] {
          Progress::Options options;
          options.fd = null.get();
          return options;
        }()),
        log(screen) {}

  FileDescriptor null;
  Progress screen;
  Log log;
};

}  // namespace trainer::test

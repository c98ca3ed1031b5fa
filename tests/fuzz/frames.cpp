// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/frames.h"

#include <cstdlib>

#include "core/ranks/handshake.h"

namespace {

const trainer::Secret kSecret{{1, 2, 3}};

/// Both sides of a connection must refuse a frame without the secret, since its proof is wrong.
void try_frame(const trainer::Frame& frame) {
  static const trainer::HandshakeServer server(kSecret, 4);
  trainer::HandshakeClient client(kSecret, 1, 4, "host");
  const auto attempt = [](const auto& read, bool may_succeed) {
    try {
      read();
      if (!may_succeed) std::abort();
    } catch (const trainer::BadFrame&) {
    } catch (const trainer::Refused&) {
    }
  };
  attempt([&] { server.admit(frame); }, false);
  attempt([&] { client.join(frame); }, true);
  attempt([&] { client.check_welcome(frame); }, false);
}

}  // namespace

/// The bytes come in pieces; the first byte is the length of each of them.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  trainer::FrameReader reader;
  try {
    for (size_t at = 0; at < bytes.size(); at += data[0] + size_t{1}) {
      reader.put(bytes.substr(at, data[0] + size_t{1}));
      while (const auto frame = reader.next()) try_frame(*frame);
    }
  } catch (const trainer::BadFrame&) {
  }
  return 0;
}

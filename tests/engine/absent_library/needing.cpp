// SPDX-License-Identifier: Apache-2.0
extern "C" int absent();
extern "C" int needing();
int needing() {
  return absent();
}

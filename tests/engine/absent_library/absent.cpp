// SPDX-License-Identifier: Apache-2.0
extern "C" int absent();
int absent() {
  return 9;
}

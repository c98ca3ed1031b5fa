// SPDX-License-Identifier: Apache-2.0
// Stands for a profiler of NVIDIA's in a test: NVTX opens it at its first call, and it notes the ranges.
#include <nvtx3/nvToolsExt.h>

#include <string>

namespace {

std::string& noted() {
  static std::string text;
  return text;
}

int push(const char* name) {
  noted() += std::string("[") + name;
  return 0;
}

int pop() {
  noted() += "]";
  return 0;
}

}  // namespace

extern "C" {
const char* fake_profiler_noted() {
  return noted().c_str();
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table_of) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) != 1) return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
}

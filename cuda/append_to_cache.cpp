// SPDX-License-Identifier: Apache-2.0
#include "cuda/append_to_cache.h"

#include "cuda/movement.h"
#include "cuda/table.h"

namespace trainer::cuda {
namespace {

Choice select_append_to_cache(const Gpu&, const OpContext& context, const OpenLayouts&) {
  Choice choice = row_major(context, "rows");
  choice.kernels = 2;  // a copy first, unless the plan computes y in the cache's own memory
  const int64_t cache = bytes_of(context.inputs[AppendToCache::kCache]),
                rows = bytes_of(context.inputs[AppendToCache::kRows]);
  choice.again_bytes = rows - 2 * cache;  // where it does
  return choice;
}

std::unique_ptr<Kernel> compile_append_to_cache(const Gpu& gpu, const OpContext& context, const Choice&,
                                                const Slots& slots) {
  const AppendSizes sizes(context.inputs);
  return kernel(context, [=, stream = gpu.stream.get(), cache = slots.inputs[AppendToCache::kCache],
                          rows = slots.inputs[AppendToCache::kRows],
                          place = slots.inputs[AppendToCache::kFirstRow],
                          y = slots.outputs[AppendToCache::kY]] {
    const int64_t bytes = sizes.samples * sizes.cached * sizes.row_bytes;
    const cudaError_t status = *cache == *y ? cudaSuccess  // the plan computes y in the cache's own memory
                                            : launch_copy({1, bytes, bytes, bytes}, *cache, *y, stream);
    return status == cudaSuccess ? launch_append_to_cache(sizes, at<const int32_t>(place), *rows, *y, stream)
                                 : status;
  });
}

}  // namespace

void add_append_to_cache(Handlers& handlers) {
  handlers[typeid(AppendToCache)] = {select_append_to_cache, compile_append_to_cache, {}};
}

}  // namespace trainer::cuda

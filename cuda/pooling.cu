// SPDX-License-Identifier: Apache-2.0
#include "cuda/pooling.h"

#include "cuda/grid.h"
#include "cuda/launch.h"
#include "cuda/storage.h"

namespace trainer::cuda {
namespace {

/// Eight channels of one pixel of images (samples, height, width, channels).
struct Pixel {
  int64_t sample, channel, left;
  int row, column;
};

/// By Index, the narrowest that holds every thread: a GPU divides 32 bits in a fraction of the time.
template <class Index>
__device__ inline Pixel pixel_of(Index thread, Index channels, Index height, Index width) {
  const Index octets = (channels + Octet::kSize - 1) / Octet::kSize, pixel = thread / octets;
  const Index channel = thread % octets * Octet::kSize, row = pixel / width;
  return {static_cast<int64_t>(row / height), static_cast<int64_t>(channel),
          static_cast<int64_t>(channels) - static_cast<int64_t>(channel), static_cast<int>(row % height),
          static_cast<int>(pixel % width)};
}

__device__ inline Pixel pixel_of(int64_t thread, int64_t count, int64_t channels, int height, int width) {
  if (count > UINT32_MAX) return pixel_of<int64_t>(thread, channels, height, width);
  return pixel_of(static_cast<uint32_t>(thread), static_cast<uint32_t>(channels),
                  static_cast<uint32_t>(height), static_cast<uint32_t>(width));
}

/// Elements of a window's row that are fetched before the first is used, so that enough loads are in flight.
constexpr int kAtOnce = 3;

/// The offset of a pixel's channels.
__device__ inline int64_t place_in(const Pixel& pixel, int64_t channels, int height, int width, int row,
                                   int column) {
  return ((pixel.sample * height + row) * width + column) * channels + pixel.channel;
}

/// Calls visit(octet of x, place in the window) for the elements of a pixel's window, padding left out.
template <class Rows, class Visit>
__device__ inline void for_each_input(const Windows& w, const Pixel& y, const typename Rows::T* x,
                                      const Visit& visit) {
  const int top = y.row * w.stride_h - w.padding_h, left = y.column * w.stride_w - w.padding_w;
  const int end = w.kernel_w < w.width - left ? w.kernel_w : w.width - left;
  for (int i = top < 0 ? -top : 0; i < w.kernel_h && top + i < w.height; ++i) {
    for (int j = left < 0 ? -left : 0; j < end; j += kAtOnce) {
      Stored<typename Rows::T> fetched[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int64_t place = place_in(y, w.channels, w.height, w.width, top + i, left + j + k);
        if (j + k < end) fetched[k] = Rows::fetch(x + place, y.left);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (j + k < end) visit(to_floats(fetched[k]), i * w.kernel_w + j + k);
      }
    }
  }
}

/// Calls visit(fetch(place in y), place in the window) for the windows that a pixel of x is in.
template <class Fetch, class Visit>
__device__ inline void for_each_window(const Windows& w, const Pixel& x, const Fetch& fetch,
                                       const Visit& visit) {
  const int down = x.row + w.padding_h, right = x.column + w.padding_w;
  const int first_i = down < w.kernel_h ? 0 : (down - w.kernel_h) / w.stride_h + 1;
  const int first_j = right < w.kernel_w ? 0 : (right - w.kernel_w) / w.stride_w + 1;
  const int last_j = right / w.stride_w < w.out_width - 1 ? right / w.stride_w : w.out_width - 1;
  for (int i = first_i; i * w.stride_h <= down && i < w.out_height; ++i) {
    for (int j = first_j; j <= last_j; j += kAtOnce) {
      decltype(fetch(int64_t{})) fetched[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int64_t place = place_in(x, w.channels, w.out_height, w.out_width, i, j + k);
        if (j + k <= last_j) fetched[k] = fetch(place);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int of_window = (down - i * w.stride_h) * w.kernel_w + right - (j + k) * w.stride_w;
        if (j + k <= last_j) visit(fetched[k], of_window);
      }
    }
  }
}

/// The largest element and its place: the first of equal ones; the last NaN if there is one.
template <class Rows>
__global__ void __launch_bounds__(kThreads)
    max_forward(Windows w, int64_t count, const typename Rows::T* x, typename Rows::T* y, uint8_t* places) {
  wait_for_previous_kernels();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= count) return;
  const Pixel at = pixel_of(thread, count, w.channels, w.out_height, w.out_width);
  const int above = w.padding_h - at.row * w.stride_h, before = w.padding_w - at.column * w.stride_w;
  const int first = (above > 0 ? above : 0) * w.kernel_w + (before > 0 ? before : 0);  // wins if all are -inf
  Octet largest, winner;
#pragma unroll
  for (int e = 0; e < Octet::kSize; ++e) largest.v[e] = -INFINITY, winner.v[e] = static_cast<float>(first);
  for_each_input<Rows>(w, at, x, [&](const Octet& value, int place) {
#pragma unroll
    for (int e = 0; e < Octet::kSize; ++e) {
      const bool wins = value.v[e] > largest.v[e] || value.v[e] != value.v[e];
      largest.v[e] = wins ? value.v[e] : largest.v[e];
      winner.v[e] = wins ? static_cast<float>(place) : winner.v[e];
    }
  });
  const int64_t to = place_in(at, w.channels, w.out_height, w.out_width, at.row, at.column);
  Rows::store(largest, at.left, y + to);
  if (places != nullptr) store(winner, at.left, places + to);
}

/// Each gradient goes to the place that won; every possible receiver collects its own.
template <class Rows>
__global__ void __launch_bounds__(kThreads) max_backward(Windows w, int64_t count, const typename Rows::T* dy,
                                                         const uint8_t* places, typename Rows::T* dx) {
  wait_for_previous_kernels();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= count) return;
  const Pixel at = pixel_of(thread, count, w.channels, w.height, w.width);
  using Places = typename Rows::template Of<uint8_t>;
  struct Fetched {
    Stored<typename Rows::T> slope;
    Stored<uint8_t> winner;
  };
  const auto fetch = [&](int64_t from) {
    return Fetched{Rows::fetch(dy + from, at.left), Places::fetch(places + from, at.left)};
  };
  Octet sum{};
  for_each_window(w, at, fetch, [&](const Fetched& fetched, int place) {
    auto add = [place](float s, float slope, float winner) {
      return winner == static_cast<float>(place) ? s + slope : s;
    };
    sum = each(add, sum, to_floats(fetched.slope), to_floats(fetched.winner));
  });
  Rows::store(sum, at.left, dx + place_in(at, w.channels, w.height, w.width, at.row, at.column));
}

__device__ inline Octet shared_out(const Windows& w, const Octet& sum) {
  const float share = 1.0f / static_cast<float>(w.kernel_h * w.kernel_w);
  return each([share](float s) { return s * share; }, sum);
}

struct AddTo {
  __device__ float operator()(float sum, float value) const { return sum + value; }
};

template <class Rows>
__global__ void __launch_bounds__(kThreads)
    average_forward(Windows w, int64_t count, const typename Rows::T* x, typename Rows::T* y) {
  wait_for_previous_kernels();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= count) return;
  const Pixel at = pixel_of(thread, count, w.channels, w.out_height, w.out_width);
  Octet sum{};
  for_each_input<Rows>(w, at, x, [&](const Octet& value, int) { sum = each(AddTo{}, sum, value); });
  Rows::store(shared_out(w, sum), at.left,
              y + place_in(at, w.channels, w.out_height, w.out_width, at.row, at.column));
}

template <class Rows>
__global__ void __launch_bounds__(kThreads, kFewBlocks)
    average_backward(Windows w, int64_t count, const typename Rows::T* dy, typename Rows::T* dx) {
  wait_for_previous_kernels();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= count) return;
  const Pixel at = pixel_of(thread, count, w.channels, w.height, w.width);
  const auto fetch = [&](int64_t from) { return Rows::fetch(dy + from, at.left); };
  Octet sum{};
  for_each_window(w, at, fetch, [&](const Stored<typename Rows::T>& slope, int) {
    sum = each(AddTo{}, sum, to_floats(slope));
  });
  Rows::store(shared_out(w, sum), at.left,
              dx + place_in(at, w.channels, w.height, w.width, at.row, at.column));
}

int64_t threads_for(const Windows& w, int64_t height, int64_t width) {
  return w.samples * height * width * ((w.channels + Octet::kSize - 1) / Octet::kSize);
}

/// One thread for eight channels of each pixel.
template <class... Parameters, class... Arguments>
cudaError_t launch_pixels(void (*kernel)(Windows, int64_t, Parameters...), const Windows& w, int64_t count,
                          cudaStream_t stream, Arguments... arguments) {
  return launch(kernel, dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), dim3(kThreads),
                stream, w, count, static_cast<Parameters>(arguments)...);
}

}  // namespace

Windows::Windows(const Conv2dGeometry& g, const Shape& x, const Shape& y)
    : samples(x[0]),
      channels(x[1]),
      height(static_cast<int>(x[2])),
      width(static_cast<int>(x[3])),
      out_height(static_cast<int>(y[2])),
      out_width(static_cast<int>(y[3])),
      kernel_h(static_cast<int>(g.kernel[0])),
      kernel_w(static_cast<int>(g.kernel[1])),
      stride_h(static_cast<int>(g.stride[0])),
      stride_w(static_cast<int>(g.stride[1])),
      padding_h(static_cast<int>(g.padding[0])),
      padding_w(static_cast<int>(g.padding[1])) {}

cudaError_t launch_max_pool(const Windows& w, DType dtype, const void* x, void* y, uint8_t* places,
                            cudaStream_t stream) {
  return with_octets(dtype, has_whole_octets(w.channels, x, y, places), [=](auto octets) {
    using Rows = decltype(octets);
    using T = typename Rows::T;
    return launch_pixels(max_forward<Rows>, w, threads_for(w, w.out_height, w.out_width), stream,
                         static_cast<const T*>(x), static_cast<T*>(y), places);
  });
}

cudaError_t launch_max_pool_backward(const Windows& w, DType dtype, const void* dy, const uint8_t* places,
                                     void* dx, cudaStream_t stream) {
  return with_octets(dtype, has_whole_octets(w.channels, dy, places, dx), [=](auto octets) {
    using Rows = decltype(octets);
    using T = typename Rows::T;
    return launch_pixels(max_backward<Rows>, w, threads_for(w, w.height, w.width), stream,
                         static_cast<const T*>(dy), places, static_cast<T*>(dx));
  });
}

cudaError_t launch_average_pool(const Windows& w, DType dtype, const void* x, void* y, cudaStream_t stream) {
  return with_octets(dtype, has_whole_octets(w.channels, x, y), [=](auto octets) {
    using Rows = decltype(octets);
    using T = typename Rows::T;
    return launch_pixels(average_forward<Rows>, w, threads_for(w, w.out_height, w.out_width), stream,
                         static_cast<const T*>(x), static_cast<T*>(y));
  });
}

cudaError_t launch_average_pool_backward(const Windows& w, DType dtype, const void* dy, void* dx,
                                         cudaStream_t stream) {
  return with_octets(dtype, has_whole_octets(w.channels, dy, dx), [=](auto octets) {
    using Rows = decltype(octets);
    using T = typename Rows::T;
    return launch_pixels(average_backward<Rows>, w, threads_for(w, w.height, w.width), stream,
                         static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace trainer::cuda

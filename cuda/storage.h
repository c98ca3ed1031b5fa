// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "core/base/dtype.h"
#include "core/base/host_device.h"

namespace trainer::cuda {

// Kernels compute in f32, whatever types they read and write.

TRAINER_HD float to_float(float x) {
  return x;
}
TRAINER_HD float to_float(__half x) {
  return __half2float(x);
}
TRAINER_HD float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
TRAINER_HD float to_float(uint8_t x) {
  return static_cast<float>(x);
}

TRAINER_HD void put(float value, float& to) {
  to = value;
}
TRAINER_HD void put(float value, __half& to) {
  const __half_raw bits = __float2half_rn(value);
  reinterpret_cast<uint16_t&>(to) = bits.x;
}
TRAINER_HD void put(float value, __nv_bfloat16& to) {
  const __nv_bfloat16_raw bits = __float2bfloat16_rn(value);
  reinterpret_cast<uint16_t&>(to) = bits.x;
}

TRAINER_HD void put(float value, uint8_t& to) {
  to = static_cast<uint8_t>(value);
}

/// The unit of a thread's work: 16 bytes of the narrow types, twice that of f32.
struct Octet {
  static constexpr int kSize = 8;
  float v[kSize];
};

/// The part of eight elements that one instruction moves.
template <class T>
using Word = std::conditional_t<sizeof(T) == 1, uint2, uint4>;
template <class T>
constexpr int kWords = Octet::kSize* static_cast<int>(sizeof(T)) / static_cast<int>(sizeof(Word<T>));

/// Eight elements as they are stored, in words: until they are taken apart, nothing waits for their load.
template <class T>
struct Stored {
  Word<T> words[kWords<T>];
};

template <class T>
__device__ inline Octet to_floats(const Stored<T>& stored) {
  T values[Octet::kSize];
  __builtin_memcpy(values, stored.words, sizeof values);
  Octet octet;
#pragma unroll
  for (int i = 0; i < Octet::kSize; ++i) octet.v[i] = to_float(values[i]);
  return octet;
}

/// By whole words: all eight exist, and `from` is aligned to a word.
template <class T>
__device__ inline Stored<T> fetch_words(const T* from) {
  Stored<T> stored;
#pragma unroll
  for (int i = 0; i < kWords<T>; ++i) stored.words[i] = reinterpret_cast<const Word<T>*>(from)[i];
  return stored;
}

template <class T>
__device__ inline void put_words(const Octet& octet, T* to) {
  T values[Octet::kSize];
#pragma unroll
  for (int i = 0; i < Octet::kSize; ++i) put(octet.v[i], values[i]);
  Word<T> words[kWords<T>];
  __builtin_memcpy(words, values, sizeof values);
#pragma unroll
  for (int i = 0; i < kWords<T>; ++i) reinterpret_cast<Word<T>*>(to)[i] = words[i];
}

/// Eight elements; the first `left` exist, the others are zero.
template <class T>
__device__ inline Octet load(const T* from, int64_t left) {
  if (left >= Octet::kSize && reinterpret_cast<uintptr_t>(from) % sizeof(Word<T>) == 0)
    return to_floats(fetch_words(from));
  Octet octet;
  const int existing = static_cast<int>(left);
#pragma unroll
  for (int i = 0; i < Octet::kSize; ++i) octet.v[i] = i < existing ? to_float(from[i]) : 0.0f;
  return octet;
}

template <class T>
__device__ inline void store(const Octet& octet, int64_t left, T* to) {
  if (left >= Octet::kSize && reinterpret_cast<uintptr_t>(to) % sizeof(Word<T>) == 0) {
    put_words(octet, to);
    return;
  }
  const int existing = static_cast<int>(left);
#pragma unroll
  for (int i = 0; i < Octet::kSize; ++i) {
    if (i < existing) put(octet.v[i], to[i]);
  }
}

/// How a kernel that walks over rows reads and writes its octets. With kWhole every octet is eight elements
/// at a word's address. Its loads then have no branches, so that a thread has several in flight: `fetch`
/// them all before the first of to_floats, which waits.
template <class Element, bool kWhole>
struct Octets {
  using T = Element;
  template <class Other>
  using Of = Octets<Other, kWhole>;

  static __device__ Stored<T> fetch(const T* from, int64_t left) {
    if constexpr (kWhole) return fetch_words(from);
    T values[Octet::kSize]{};
    const int existing = static_cast<int>(left);
#pragma unroll
    for (int i = 0; i < Octet::kSize; ++i) {
      if (i < existing) values[i] = from[i];
    }
    Stored<T> stored;
    __builtin_memcpy(stored.words, values, sizeof values);
    return stored;
  }
  static __device__ Octet load(const T* from, int64_t left) {
    return to_floats(fetch(from, left));
  }
  static __device__ void store(const Octet& octet, int64_t left, T* to) {
    if constexpr (kWhole)
      put_words(octet, to);
    else
      cuda::store(octet, left, to);
  }
};

/// f of each of the eight.
template <class F, class... Octets>
__device__ inline Octet each(const F& f, const Octets&... x) {
  Octet y;
#pragma unroll
  for (int i = 0; i < Octet::kSize; ++i) y.v[i] = f(x.v[i]...);
  return y;
}

/// Calls visit(T{}) with the type in which elements are stored.
template <class Visit>
auto with_storage(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::f32:
      return visit(float{});
    case DType::f16:
      return visit(__half{});
    case DType::bf16:
      return visit(__nv_bfloat16{});
    default:
      throw std::logic_error("a kernel for floating types was chosen for whole numbers");
  }
}

/// Whether every octet of such rows is whole: their width is a multiple of eight, their addresses are aligned
/// to 16 bytes. nullptr stands for a tensor that is absent.
template <class... Addresses>
bool has_whole_octets(int64_t width, const Addresses*... addresses) {
  constexpr uintptr_t kMostBytes = sizeof(uint4);
  return width % Octet::kSize == 0 && ((reinterpret_cast<uintptr_t>(addresses) % kMostBytes == 0) && ...);
}

/// Calls visit(Octets<T, whole>{}) with the type in which elements are stored.
template <class Visit>
auto with_octets(DType dtype, bool whole, const Visit& visit) {
  return with_storage(dtype, [&](auto type) {
    using T = decltype(type);
    return whole ? visit(Octets<T, true>{}) : visit(Octets<T, false>{});
  });
}

}  // namespace trainer::cuda

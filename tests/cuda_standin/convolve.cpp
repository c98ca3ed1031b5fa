// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "tests/cuda_standin/dnn.h"
#include "tests/cuda_standin/products.h"

// Convolutions as products: the columns of an image are (pixels of y, kernel_h * kernel_w * channels of a
// group).

namespace trainer::standin {
namespace {

using Values = std::vector<float>;

cudaDataType_t type_of(const Images& images) {
  switch (images.type) {
    case CUDNN_DATA_HALF:
      return CUDA_R_16F;
    case CUDNN_DATA_BFLOAT16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

struct Shapes {
  explicit Shapes(const Graph& g)
      : graph(g),
        groups(g.groups()),
        in(g.w.shape[1]),
        out(g.w.shape[0] / groups),
        kernel(g.w.shape[2] * g.w.shape[3]),
        pixels(g.y.shape[2] * g.y.shape[3]) {}
  const Graph& graph;
  int64_t groups, in, out;  ///< channels of a group
  int64_t kernel, pixels;   ///< elements of a kernel's window, of an image of y
  int64_t depth() const { return kernel * in; }
};

/// Calls visit(offset in the columns, offset in x), both of the first of `in` channels, for positions inside
/// x.
template <class Visit>
void for_each_window(const Shapes& s, int64_t image, int64_t group, Visit visit) {
  const Graph& g = s.graph;
  const auto& x = g.x.shape;
  for (int64_t pixel = 0; pixel < s.pixels; ++pixel) {
    for (int64_t tap = 0; tap < s.kernel; ++tap) {
      const int64_t row =
          pixel / g.y.shape[3] * g.stride[0] - g.padding[0] + tap / g.w.shape[3] * g.dilation[0];
      const int64_t column =
          pixel % g.y.shape[3] * g.stride[1] - g.padding[1] + tap % g.w.shape[3] * g.dilation[1];
      if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
      visit((pixel * s.kernel + tap) * s.in, ((image * x[2] + row) * x[3] + column) * x[1] + group * s.in);
    }
  }
}

Values columns_of(const Shapes& s, const Values& x, int64_t image, int64_t group) {
  Values columns(static_cast<size_t>(s.pixels * s.depth()));
  for_each_window(s, image, group, [&](int64_t to, int64_t from) {
    std::copy_n(x.begin() + from, s.in, columns.begin() + to);
  });
  return columns;
}

/// The group's part of the image of y, (pixels, out).
Values part_of(const Shapes& s, const Values& y, int64_t image, int64_t group) {
  Values part(static_cast<size_t>(s.pixels * s.out));
  for (int64_t pixel = 0; pixel < s.pixels; ++pixel)
    std::copy_n(y.begin() + (image * s.pixels + pixel) * s.out * s.groups + group * s.out, s.out,
                part.begin() + pixel * s.out);
  return part;
}

/// The group's weights, (out, depth).
Values weights_of(const Shapes& s, const Values& w, int64_t group) {
  const auto begin = w.begin() + group * s.out * s.depth();
  return {begin, begin + s.out * s.depth()};
}

Values forward(const Shapes& s, const Values& x, const Values& w) {
  Values y(static_cast<size_t>(s.graph.y.count()));
  for (int64_t group = 0; group < s.groups; ++group) {
    const Values turned = transposed(s.out, s.depth(), weights_of(s, w, group));
    for (int64_t image = 0; image < s.graph.y.shape[0]; ++image) {
      Values part(static_cast<size_t>(s.pixels * s.out));
      multiply_add(s.pixels, s.out, s.depth(), columns_of(s, x, image, group).data(), turned.data(),
                   part.data());
      for (int64_t pixel = 0; pixel < s.pixels; ++pixel)
        std::copy_n(part.begin() + pixel * s.out, s.out,
                    y.begin() + (image * s.pixels + pixel) * s.out * s.groups + group * s.out);
    }
  }
  return y;
}

Values backward_data(const Shapes& s, const Values& dy, const Values& w) {
  Values dx(static_cast<size_t>(s.graph.x.count()));
  for (int64_t group = 0; group < s.groups; ++group) {
    const Values weights = weights_of(s, w, group);
    for (int64_t image = 0; image < s.graph.y.shape[0]; ++image) {
      Values columns(static_cast<size_t>(s.pixels * s.depth()));
      multiply_add(s.pixels, s.depth(), s.out, part_of(s, dy, image, group).data(), weights.data(),
                   columns.data());
      for_each_window(s, image, group, [&](int64_t from, int64_t to) {
        for (int64_t c = 0; c < s.in; ++c)
          dx[static_cast<size_t>(to + c)] += columns[static_cast<size_t>(from + c)];
      });
    }
  }
  return dx;
}

Values backward_weights(const Shapes& s, const Values& x, const Values& dy) {
  Values dw(static_cast<size_t>(s.graph.w.count()));
  for (int64_t group = 0; group < s.groups; ++group) {
    for (int64_t image = 0; image < s.graph.y.shape[0]; ++image) {
      const Values turned = transposed(s.pixels, s.out, part_of(s, dy, image, group));
      multiply_add(s.out, s.depth(), s.pixels, turned.data(), columns_of(s, x, image, group).data(),
                   dw.data() + group * s.out * s.depth());
    }
  }
  return dw;
}

void apply(const Pointwise& step, const std::map<int64_t, void*>& tensors, Values& values) {
  if (step.mode == CUDNN_POINTWISE_ADD) {
    const Values bias = load(type_of(*step.other), tensors.at(step.other->uid), step.other->count());
    for (size_t i = 0; i < values.size(); ++i) values[i] += bias[i % bias.size()];  // channels last
  }
  if (step.mode == CUDNN_POINTWISE_RELU_FWD) {
    for (float& value : values) value = value > 0 || std::isnan(value) ? value : 0;
  }
}

/// Like an engine with tiles that add to the same memory: the caller must clear that first.
void add_sums(const Graph& graph, const Values& y, const std::map<int64_t, void*>& tensors) {
  constexpr size_t kTile = 128;
  const auto channels = static_cast<size_t>(graph.result.shape[1]);
  auto *sums = static_cast<float*>(tensors.at((*graph.sums)[0].uid)),
       *squares = static_cast<float*>(tensors.at((*graph.sums)[1].uid));
  for (size_t tile = 0; tile < y.size(); tile += kTile * channels) {
    Values own(2 * channels);
    for (size_t i = tile; i < std::min(y.size(), tile + kTile * channels); ++i) {
      own[i % channels] += y[i];
      own[channels + i % channels] += y[i] * y[i];
    }
    for (size_t c = 0; c < channels; ++c) sums[c] += own[c], squares[c] += own[channels + c];
  }
}

}  // namespace

void convolve(const Graph& graph, const std::map<int64_t, void*>& tensors) {
  const Shapes shapes(graph);
  const auto loaded = [&](const Images& tensor) {
    return load(type_of(tensor), tensors.at(tensor.uid), tensor.count());
  };
  Values result = graph.direction == Direction::forward ? forward(shapes, loaded(graph.x), loaded(graph.w))
                  : graph.direction == Direction::backward_data
                      ? backward_data(shapes, loaded(graph.y), loaded(graph.w))
                      : backward_weights(shapes, loaded(graph.x), loaded(graph.y));
  for (const Pointwise& step : graph.rest) apply(step, tensors, result);
  if (graph.sums) add_sums(graph, result, tensors);
  store(type_of(graph.result), result, tensors.at(graph.result.uid));
}

}  // namespace trainer::standin

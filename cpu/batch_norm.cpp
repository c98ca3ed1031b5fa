// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"

#include <array>
#include <cmath>

#include "cpu/table.h"
#include "cpu/two_walks.h"

namespace trainer::cpu {
namespace {

/// Count, mean and sum of squared deviations of each column.
struct Moments {
  std::array<double, kColumns> count, mean, squares;

  /// Chan, Golub, LeVeque 1979: the moments of two samples together.
  void merge(size_t s, double n, double other_mean, double other_squares) {
    if (n == 0) return;
    const double total = count[s] + n, delta = other_mean - mean[s];
    mean[s] += delta * n / total;
    squares[s] += other_squares + delta * delta * count[s] * n / total;
    count[s] = total;
  }
};

/// Sums that a loop keeps side by side, since each addition waits for the one before.
constexpr int64_t kChains = 4;

/// Mean and sum of squared deviations of the columns of `rows` rows.
template <class T>
inline __attribute__((always_inline)) void moments_of_rows(const T* x, int64_t rows, Row& mean,
                                                           Row& squares) {
  Row sums[kChains] = {}, deviations[kChains] = {}, value;
  const int64_t even = rows / kChains * kChains;
  for (int64_t r = 0; r < even; r += kChains) {
    for (int64_t k = 0; k < kChains; ++k) {
      load(x + (r + k) * kColumns, value);
      sums[k] += value;
    }
  }
  for (int64_t r = even; r < rows; ++r) {
    load(x + r * kColumns, value);
    sums[0] += value;
  }
  mean = ((sums[0] + sums[1]) + (sums[2] + sums[3])) / static_cast<float>(rows);
  for (int64_t r = 0; r < even; r += kChains) {
    for (int64_t k = 0; k < kChains; ++k) {
      load(x + (r + k) * kColumns, value);
      deviations[k] += (value - mean) * (value - mean);
    }
  }
  for (int64_t r = even; r < rows; ++r) {
    load(x + r * kColumns, value);
    deviations[0] += (value - mean) * (value - mean);
  }
  squares = (deviations[0] + deviations[1]) + (deviations[2] + deviations[3]);
}

template <class T>
TRAINER_MULTIVERSION void measure_moments(const T* x, int64_t count, Moments& moments) {
  moments = {};
  const int64_t rows = count / kColumns;
  for (int64_t first = 0; first < rows; first += kRowsPerSum) {
    const int64_t size = std::min(kRowsPerSum, rows - first);
    Row mean, squares;
    moments_of_rows(x + first * kColumns, size, mean, squares);
    // Moments::merge for all columns at once: all have seen `first` rows.
    const double share = static_cast<double>(size) / static_cast<double>(first + size);
    for (size_t s = 0; s < kColumns; ++s) {
      const double delta = mean[s] - moments.mean[s];
      moments.mean[s] += delta * share;
      moments.squares[s] += squares[s] + delta * delta * static_cast<double>(first) * share;
    }
  }
  moments.count.fill(static_cast<double>(rows));
  for (int64_t i = rows * kColumns; i < count; ++i)
    moments.merge(static_cast<size_t>(i % kColumns), 1, float(x[i]), 0);
}

/// What the columns of a block compute with: y = (x - mean) * scale + shift.
struct Affine {
  std::array<float, kColumns> mean{}, scale{}, shift{};
};

/// y clamped at zero with `relu`; a mask, where one is wanted, gets a bit for each y > 0.
template <class T>
TRAINER_MULTIVERSION void apply_affine(const Affine& a, const T* x, const T* residual, bool relu, T* y,
                                       int32_t* mask, int64_t count) {
  Row mean, scale, shift, value, added;
  load(a.mean.data(), mean), load(a.scale.data(), scale), load(a.shift.data(), shift);
  const int64_t rows = count / kColumns, whole = rows * kColumns;
  for (int64_t first = 0; first < rows; first += kRowsOfBits) {
    Bits bits{};
    for (int64_t r = first; r < std::min(rows, first + kRowsOfBits); ++r) {
      load(x + r * kColumns, value);
      value = (value - mean) * scale + shift;
      if (residual != nullptr) {
        load(residual + r * kColumns, added);
        value += added;
      }
      if (relu) {
        bits |= (value > 0.0f) & (1 << (r - first));
        value = value < 0.0f ? Row{} : value;
      }
      store(value, y + r * kColumns);
    }
    if (mask != nullptr) std::memcpy(mask + first / kRowsOfBits * kColumns, &bits, sizeof bits);
  }
  if (mask != nullptr && rows % kRowsOfBits == 0 && whole < count) {
    std::memset(mask + rows / kRowsOfBits * kColumns, 0, sizeof(Bits));
  }
  for (int64_t i = whole; i < count; ++i) {
    const auto s = static_cast<size_t>(i - whole);
    float v = (float(x[i]) - a.mean[s]) * a.scale[s] + a.shift[s];
    if (residual != nullptr) v += float(residual[i]);
    y[i] = T(relu && v < 0.0f ? 0.0f : v);
    if (mask != nullptr && v > 0.0f)
      mask[rows / kRowsOfBits * kColumns + i - whole] |= 1 << rows % kRowsOfBits;
  }
}

/// x, residual and y are stored as T.
template <class T>
class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const BatchNorm& op, const ChannelBlocks& blocks, Slots slots)
      : eps_(op.eps), relu_(op.relu), blocks_(blocks), slots_(std::move(slots)) {}

  void run() override {
    const auto &in = slots_.inputs, &out = slots_.outputs;
    const T *x = at<const T>(in[0]), *residual = in[3] == nullptr ? nullptr : at<const T>(in[3]);
    T* y = at<T>(out[0]);
    auto measure = [&](int64_t, const Piece& p, Moments& record) {
      measure_moments(x + p.offset, p.count, record);
    };
    auto settle = [&](int64_t block, const Moments* records, bool writes) {
      return settled(block, records, writes);
    };
    int32_t* mask = out.size() > 3 && out[3] != nullptr ? at<int32_t>(out[3]) : nullptr;
    auto apply = [&](const Piece& p, const Affine& affine) {
      apply_affine(affine, x + p.offset, residual == nullptr ? nullptr : residual + p.offset, relu_,
                   y + p.offset, mask == nullptr ? nullptr : mask + p.bits, p.count);
    };
    two_walks(blocks_, at<Moments>(slots_.workspace), measure, settle, apply);
  }

 private:
  Affine settled(int64_t block, const Moments* records, bool writes) const {
    const auto &in = slots_.inputs, &out = slots_.outputs;
    Affine affine;
    for (int64_t lane = 0; lane < blocks_.lanes_used(block); ++lane) {
      Moments all{};
      for (int64_t i = 0; i < blocks_.pieces(); ++i) {
        for_each_column(blocks_, lane, [&](size_t s) {
          all.merge(0, records[i].count[s], records[i].mean[s], records[i].squares[s]);
        });
      }
      const int64_t c = block * blocks_.lanes + lane;
      const double variance = all.squares[0] / all.count[0];
      if (writes && out[1] != nullptr) at<float>(out[1])[c] = static_cast<float>(all.mean[0]);
      if (writes && out[2] != nullptr) at<float>(out[2])[c] = static_cast<float>(variance);
      const double scale = at<const float>(in[1])[c] / std::sqrt(variance + eps_);
      for_each_column(blocks_, lane, [&](size_t s) {
        affine.mean[s] = static_cast<float>(all.mean[0]);
        affine.scale[s] = static_cast<float>(scale);
        affine.shift[s] = at<const float>(in[2])[c];
      });
    }
    return affine;
  }

  double eps_;
  bool relu_;
  ChannelBlocks blocks_;
  Slots slots_;
};

Choice select_norm(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_blocks(context, inputs, 0);
  const ChannelBlocks blocks = *channel_blocks(choice.inputs[0], context.inputs[0].shape);
  if (choice.outputs.size() > 3) choice.outputs[3] = bits_layout(blocks);
  choice.workspace_bytes = record_bytes<Moments>(blocks);
  return choice;
}

std::unique_ptr<Kernel> compile_norm(const OpContext& context, const Choice& choice, const Slots& slots) {
  const ChannelBlocks blocks = *channel_blocks(choice.inputs[0], context.inputs[0].shape);
  return with_storage(context.inputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    return std::make_unique<BatchNormKernel<decltype(element)>>(static_cast<const BatchNorm&>(context.op),
                                                                blocks, slots);
  });
}

}  // namespace

Choice select_blocks(const OpContext& context, const OpenLayouts& inputs, size_t picture) {
  Choice choice = select_row_major(context, inputs);
  const Shape& shape = context.inputs[picture].shape;
  Layout layout = inputs[picture].value_or(Layout{});
  if (!channel_blocks(layout, shape)) layout = Layout{};
  for (size_t i = 0; i < choice.inputs.size(); ++i) {
    if (context.inputs[i].shape == shape) choice.inputs[i] = layout;
  }
  for (size_t i = 0; i < choice.outputs.size(); ++i) {
    if (context.outputs[i].shape == shape) choice.outputs[i] = layout;
  }
  return choice;
}

void add_batch_norm(Handlers& handlers) {
  handlers[typeid(BatchNorm)] = {select_norm, compile_norm, {}};
}

}  // namespace trainer::cpu

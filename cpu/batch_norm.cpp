// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/batch_norm.h"

#include <omp.h>

#include <array>
#include <cmath>
#include <cstring>

#include "cpu/columns.h"
#include "cpu/handler.h"
#include "cpu/parallel.h"

namespace trainer::cpu {
namespace {

using Columns = std::array<double, kColumns>;

/// Count, mean and sum of squared deviations of each column.
struct Moments {
  Columns count, mean, squares;

  /// Chan, Golub, LeVeque 1979: the moments of two samples together.
  void merge(size_t s, double n, double other_mean, double other_squares) {
    if (n == 0) return;
    const double total = count[s] + n, delta = other_mean - mean[s];
    mean[s] += delta * n / total;
    squares[s] += other_squares + delta * delta * count[s] * n / total;
    count[s] = total;
  }
};

/// Sums of dy and of dy * (x - mean) of each column.
struct Slopes {
  Columns dy, dy_x;
};

/// Two walks over each block of channels: `measure` fills one record for each piece, `apply` gets what
/// `settle` makes of a block's records. A block is walked twice before the next, so that the second walk
/// finds it in the cache. Pieces do not depend on the number of threads, so neither do the bits of the
/// result.
template <class Record, class Measure, class Settle, class Apply>
void two_walks(const ChannelBlocks& blocks, Record* records, const Measure& measure, const Settle& settle,
               const Apply& apply) {
  const int64_t pieces = blocks.pieces();
  const int64_t useful = std::max<int64_t>(1, pieces * blocks.piece_elements() / kElementsWorthAThread);
  const int threads = static_cast<int>(std::min<int64_t>({useful, pieces, omp_get_max_threads()}));
#pragma omp parallel num_threads(threads)
  {
    const int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
    const int64_t begin = pieces * me / all, end = pieces * (me + 1) / all;
    for (int64_t block = 0; block < blocks.blocks; ++block) {
      Record* of_block = records + block * pieces;
      for (int64_t i = begin; i < end; ++i) measure(block, blocks.piece(block, i), of_block[i]);
#pragma omp barrier
      const auto constants = settle(block, of_block, me == 0);
      for (int64_t i = end; i-- > begin;) apply(blocks.piece(block, i), constants);
    }
  }
}

TRAINER_MULTIVERSION void measure_moments(const float* x, int64_t count, Moments& moments) {
  moments = {};
  for (int64_t from = 0; from < count; from += kColumns * kRowsPerSum) {
    const int64_t size = std::min(count - from, kColumns * kRowsPerSum), rows = size / kColumns;
    const float* part = x + from;
    Row sum{}, squares{}, value;
    for (int64_t r = 0; r < rows; ++r) {
      load(part + r * kColumns, value);
      sum += value;
    }
    const Row mean = rows > 0 ? sum / static_cast<float>(rows) : sum;
    for (int64_t r = 0; r < rows; ++r) {
      load(part + r * kColumns, value);
      squares += (value - mean) * (value - mean);
    }
    for (size_t s = 0; s < kColumns; ++s) moments.merge(s, static_cast<double>(rows), mean[s], squares[s]);
    for (int64_t i = rows * kColumns; i < size; ++i)
      moments.merge(static_cast<size_t>(i % kColumns), 1, part[i], 0);
  }
}

/// What the columns of a block compute with: y = (x - mean) * scale + shift.
struct Affine {
  std::array<float, kColumns> mean{}, scale{}, shift{};
};

template <bool kRelu>
TRAINER_MULTIVERSION void apply_affine(const Affine& a, const float* x, const float* residual, float* y,
                                       int64_t count) {
  Row mean, scale, shift, value, added;
  load(a.mean.data(), mean), load(a.scale.data(), scale), load(a.shift.data(), shift);
  const int64_t whole = count / kColumns * kColumns;
  for (int64_t i = 0; i < whole; i += kColumns) {
    load(x + i, value);
    value = (value - mean) * scale + shift;
    if (residual != nullptr) {
      load(residual + i, added);
      value += added;
    }
    if constexpr (kRelu) value = value < 0.0f ? Row{} : value;
    store(value, y + i);
  }
  for (int64_t i = whole; i < count; ++i) {
    const auto s = static_cast<size_t>(i - whole);
    float v = (x[i] - a.mean[s]) * a.scale[s] + a.shift[s];
    if (residual != nullptr) v += residual[i];
    y[i] = kRelu && v < 0.0f ? 0.0f : v;
  }
}

/// Sums for the gradient; with `masked` the gradient that passes the relu is written there.
TRAINER_MULTIVERSION void measure_slopes(const float* mean_of, const float* dy, const float* x,
                                         const float* y, float* masked, int64_t count, Slopes& slopes) {
  slopes = {};
  Row mean, slope, value, out;
  load(mean_of, mean);
  for (int64_t from = 0; from < count; from += kColumns * kRowsPerSum) {
    const int64_t end = std::min(count, from + kColumns * kRowsPerSum), whole = end - (end - from) % kColumns;
    Row sum{}, product{};
    for (int64_t i = from; i < whole; i += kColumns) {
      load(dy + i, slope), load(x + i, value);
      if (y != nullptr) {
        load(y + i, out);
        slope = out > 0.0f ? slope : Row{};
      }
      if (masked != nullptr) store(slope, masked + i);
      sum += slope;
      product += slope * (value - mean);
    }
    for (size_t s = 0; s < kColumns; ++s) slopes.dy[s] += sum[s], slopes.dy_x[s] += product[s];
    for (int64_t i = whole; i < end; ++i) {
      const auto s = static_cast<size_t>(i - whole);
      const float g = y != nullptr && !(y[i] > 0.0f) ? 0.0f : dy[i];
      if (masked != nullptr) masked[i] = g;
      slopes.dy[s] += g;
      slopes.dy_x[s] += static_cast<double>(g) * (x[i] - mean_of[s]);
    }
  }
}

/// dx = scale * dy + pull * (x - mean) + shift, dy already masked or masked here by y.
struct SlopeAffine {
  std::array<float, kColumns> mean{}, scale{}, pull{}, shift{};
};

TRAINER_MULTIVERSION void apply_slopes(const SlopeAffine& a, const float* dy, const float* x, const float* y,
                                       float* dx, int64_t count) {
  Row mean, scale, pull, shift, slope, value, out;
  load(a.mean.data(), mean), load(a.scale.data(), scale), load(a.pull.data(), pull),
      load(a.shift.data(), shift);
  const int64_t whole = count / kColumns * kColumns;
  for (int64_t i = 0; i < whole; i += kColumns) {
    load(dy + i, slope), load(x + i, value);
    if (y != nullptr) {
      load(y + i, out);
      slope = out > 0.0f ? slope : Row{};
    }
    value = scale * slope + pull * (value - mean) + shift;
    store(value, dx + i);
  }
  for (int64_t i = whole; i < count; ++i) {
    const auto s = static_cast<size_t>(i - whole);
    const float g = y != nullptr && !(y[i] > 0.0f) ? 0.0f : dy[i];
    dx[i] = a.scale[s] * g + a.pull[s] * (x[i] - a.mean[s]) + a.shift[s];
  }
}

/// x and what has its shape in one layout that has channel blocks, all else row-major.
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

const float* optional(void* const* slot) {
  return slot == nullptr ? nullptr : at<const float>(slot);
}

Choice select_forward(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_blocks(context, inputs, 0);
  const auto blocks = *channel_blocks(choice.inputs[0], context.inputs[0].shape);
  choice.workspace_bytes = blocks.blocks * blocks.pieces() * static_cast<int64_t>(sizeof(Moments));
  return choice;
}

std::unique_ptr<Kernel> compile_forward(const OpContext& context, const Choice& choice, const Slots& slots) {
  const auto& op = static_cast<const BatchNorm&>(context.op);
  const ChannelBlocks blocks = *channel_blocks(choice.inputs[0], context.inputs[0].shape);
  const auto apply_rows = op.relu ? apply_affine<true> : apply_affine<false>;
  return kernel([=, eps = op.eps, in = slots.inputs, out = slots.outputs, work = slots.workspace] {
    const float *x = at<const float>(in[0]), *residual = optional(in[3]);
    float* y = at<float>(out[0]);
    auto measure = [&](int64_t, const Piece& p, Moments& record) {
      measure_moments(x + p.offset, p.count, record);
    };
    auto settle = [&](int64_t block, const Moments* records, bool writes) {
      Affine affine;
      for (int64_t lane = 0; lane < blocks.lanes_used(block); ++lane) {
        Moments all{};
        for (int64_t i = 0; i < blocks.pieces(); ++i) {
          for (auto s = static_cast<size_t>(lane); s < kColumns; s += static_cast<size_t>(blocks.lanes))
            all.merge(0, records[i].count[s], records[i].mean[s], records[i].squares[s]);
        }
        const int64_t c = block * blocks.lanes + lane;
        const double variance = all.squares[0] / all.count[0];
        if (writes && out[1] != nullptr) at<float>(out[1])[c] = static_cast<float>(all.mean[0]);
        if (writes && out[2] != nullptr) at<float>(out[2])[c] = static_cast<float>(variance);
        const double scale = at<const float>(in[1])[c] / std::sqrt(variance + eps);
        for (auto s = static_cast<size_t>(lane); s < kColumns; s += static_cast<size_t>(blocks.lanes)) {
          affine.mean[s] = static_cast<float>(all.mean[0]);
          affine.scale[s] = static_cast<float>(scale);
          affine.shift[s] = at<const float>(in[2])[c];
        }
      }
      return affine;
    };
    auto apply = [&](const Piece& p, const Affine& affine) {
      apply_rows(affine, x + p.offset, residual == nullptr ? nullptr : residual + p.offset, y + p.offset,
                 p.count);
    };
    two_walks(blocks, at<Moments>(work), measure, settle, apply);
  });
}

Choice select_backward(const OpContext& context, const OpenLayouts& inputs) {
  Choice choice = select_blocks(context, inputs, 1);
  const auto blocks = *channel_blocks(choice.inputs[1], context.inputs[1].shape);
  choice.workspace_bytes = blocks.blocks * blocks.pieces() * static_cast<int64_t>(sizeof(Slopes));
  return choice;
}

/// The mean of each column of a block.
std::array<float, kColumns> spread_mean(const ChannelBlocks& blocks, int64_t block, const float* mean) {
  std::array<float, kColumns> columns{};
  for (int64_t s = 0; s < kColumns; ++s) {
    const int64_t lane = s % blocks.lanes;
    if (lane < blocks.lanes_used(block)) columns[static_cast<size_t>(s)] = mean[block * blocks.lanes + lane];
  }
  return columns;
}

std::unique_ptr<Kernel> compile_backward(const OpContext& context, const Choice& choice, const Slots& slots) {
  const auto& op = static_cast<const BatchNormBackward&>(context.op);
  const Shape& shape = context.inputs[1].shape;
  const ChannelBlocks blocks = *channel_blocks(choice.inputs[1], shape);
  const auto values = static_cast<double>(numel(shape) / shape[1]);
  return kernel([=, eps = op.eps, has_residual = op.residual, in = slots.inputs, out = slots.outputs,
                 work = slots.workspace] {
    const float *dy = at<const float>(in[0]), *x = at<const float>(in[1]), *y = optional(in[5]);
    const float* mean = at<const float>(in[3]);
    float* dx = at<float>(out[0]);
    float* masked = has_residual && out[3] != nullptr ? at<float>(out[3]) : nullptr;
    // The second walk reads the masked gradient where there is one: dy may have been overwritten by it.
    const float *slope = masked != nullptr ? masked : dy, *mask = masked != nullptr ? nullptr : y;
    auto measure = [&](int64_t block, const Piece& p, Slopes& record) {
      const auto columns = spread_mean(blocks, block, mean);
      measure_slopes(columns.data(), dy + p.offset, x + p.offset, y == nullptr ? nullptr : y + p.offset,
                     masked == nullptr ? nullptr : masked + p.offset, p.count, record);
    };
    auto settle = [&](int64_t block, const Slopes* records, bool writes) {
      SlopeAffine affine;
      affine.mean = spread_mean(blocks, block, mean);
      for (int64_t lane = 0; lane < blocks.lanes_used(block); ++lane) {
        double sum = 0, product = 0;
        for (int64_t i = 0; i < blocks.pieces(); ++i) {
          for (auto s = static_cast<size_t>(lane); s < kColumns; s += static_cast<size_t>(blocks.lanes))
            sum += records[i].dy[s], product += records[i].dy_x[s];
        }
        const int64_t c = block * blocks.lanes + lane;
        const double inverse = 1 / std::sqrt(at<const float>(in[4])[c] + eps);
        const double scale = at<const float>(in[2])[c] * inverse;
        if (writes && out[1] != nullptr) at<float>(out[1])[c] = static_cast<float>(product * inverse);
        if (writes && out[2] != nullptr) at<float>(out[2])[c] = static_cast<float>(sum);
        for (auto s = static_cast<size_t>(lane); s < kColumns; s += static_cast<size_t>(blocks.lanes)) {
          affine.scale[s] = static_cast<float>(scale);
          affine.pull[s] = static_cast<float>(-scale * inverse * inverse * product / values);
          affine.shift[s] = static_cast<float>(-scale * sum / values);
        }
      }
      return affine;
    };
    auto apply = [&](const Piece& p, const SlopeAffine& affine) {
      apply_slopes(affine, slope + p.offset, x + p.offset, mask == nullptr ? nullptr : mask + p.offset,
                   dx + p.offset, p.count);
    };
    two_walks(blocks, at<Slopes>(work), measure, settle, apply);
  });
}

}  // namespace

void add_batch_norm(Handlers& handlers) {
  handlers[typeid(BatchNorm)] = {select_forward, compile_forward, {}};
  handlers[typeid(BatchNormBackward)] = {select_backward, compile_backward, {}};
}

}  // namespace trainer::cpu

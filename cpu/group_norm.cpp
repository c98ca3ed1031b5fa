// SPDX-License-Identifier: Apache-2.0
#include "core/graph/ops/group_norm.h"

#include <array>
#include <cmath>

#include "cpu/batch_norm.h"
#include "cpu/table.h"
#include "cpu/two_passes.h"

// Each sample is read twice: the first pass computes the moments of its channels,
// the groups' constants are derived, and the second pass applies them. Samples are
// divided among threads or, if they are fewer, each sample's channels are.

namespace trainer::cpu {
namespace {

/// The dimensions that forward and backward use.
struct GroupedBlocks {
  ChannelBlocks blocks;
  int64_t groups;
  int64_t channels() const { return blocks.channels / groups; }  ///< of one group
  int64_t group(int64_t n, int64_t c) const { return n * groups + c / channels(); }
  int64_t pixels() const { return blocks.run / blocks.lanes; }
  double area() const { return static_cast<double>(pixels()); }
};

/// Of a channel of a sample: mean and biased variance; or the sums of dy and dy
/// * (x - mean). Of a group: mean and factor; or the means of gamma dy and
/// gamma dy (x - mean).
struct FoundPair {
  double first, second;
};

/// Addresses of the first pass's results, of the constants derived from them, and of
/// a thread's records of a block's pieces.
template <class Record>
struct GroupWorkspace {
  FoundPair* of_channels;  ///< (N, C)
  FoundPair* of_groups;    ///< (N, groups)
  Record* records;

  GroupWorkspace(const GroupedBlocks& all, void* memory)
      : of_channels(static_cast<FoundPair*>(memory)),
        of_groups(of_channels + all.blocks.samples * all.blocks.channels),
        records(reinterpret_cast<Record*>(of_groups + all.blocks.samples * all.groups) +
                omp_get_thread_num() * all.blocks.cuts()) {}
  static int64_t bytes(const GroupedBlocks& all) {
    return all.blocks.samples * (all.blocks.channels + all.groups) * static_cast<int64_t>(sizeof(FoundPair)) +
           omp_get_max_threads() * all.blocks.cuts() * static_cast<int64_t>(sizeof(Record));
  }
};

/// Calls measure(n, block) for all blocks of a sample, then settle(n), then
/// apply(n, block).
template <class Measure, class Settle, class Apply>
void sweep_samples(const ChannelBlocks& blocks, const Measure& measure, const Settle& settle,
                   const Apply& apply) {
  if (blocks.samples >= omp_get_max_threads()) {
    parallel_rows(blocks.samples, blocks.blocks * blocks.run, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        for (int64_t block = 0; block < blocks.blocks; ++block) measure(n, block);
        settle(n);
        for (int64_t block = blocks.blocks; block-- > 0;) apply(n, block);
      }
    });
    return;
  }
  auto each_block = [&](int64_t n, const auto& work) {
    parallel_rows(blocks.blocks, blocks.run, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) work(n, block);
    });
  };
  for (int64_t n = 0; n < blocks.samples; ++n) {
    each_block(n, measure);
    settle(n);
    each_block(n, apply);
  }
}

/// One sample of the blocks; its tensors begin `offset` elements further.
struct SampleBlocks {
  ChannelBlocks one;
  int64_t offset;

  SampleBlocks(const ChannelBlocks& blocks, int64_t n) : one(blocks), offset(n * blocks.blocks * blocks.run) {
    one.samples = 1;
  }
};

/// y = scale * (x - mean) + shift, and with dy: dx = scale * dy + pull * (x -
/// mean) + shift.
struct ColumnTerms {
  std::array<float, kColumns> mean{}, scale{}, pull{}, shift{};
};

template <class T>
TRAINER_MULTIVERSION void apply_group_terms(const ColumnTerms& a, const T* x, T* y, int64_t count) {
  Row mean, scale, shift, value;
  load(a.mean.data(), mean), load(a.scale.data(), scale), load(a.shift.data(), shift);
  const int64_t whole = count / kColumns * kColumns;
  for (int64_t i = 0; i < whole; i += kColumns) {
    load(x + i, value);
    value = scale * (value - mean) + shift;
    store(value, y + i);
  }
  for (int64_t i = whole; i < count; ++i) {
    const auto s = static_cast<size_t>(i - whole);
    y[i] = T(a.scale[s] * (float(x[i]) - a.mean[s]) + a.shift[s]);
  }
}

template <class T>
TRAINER_MULTIVERSION void apply_group_gradient(const ColumnTerms& a, const T* dy, const T* x, T* dx,
                                               int64_t count) {
  Row mean, scale, pull, shift, slope, value;
  load(a.mean.data(), mean), load(a.scale.data(), scale), load(a.pull.data(), pull),
      load(a.shift.data(), shift);
  const int64_t whole = count / kColumns * kColumns;
  for (int64_t i = 0; i < whole; i += kColumns) {
    load(dy + i, slope), load(x + i, value);
    value = scale * slope + pull * (value - mean) + shift;
    store(value, dx + i);
  }
  for (int64_t i = whole; i < count; ++i) {
    const auto s = static_cast<size_t>(i - whole);
    dx[i] = T(a.scale[s] * float(dy[i]) + a.pull[s] * (float(x[i]) - a.mean[s]) + a.shift[s]);
  }
}

/// Calls visit(c, s) for each channel of a block and each column that holds it.
template <class Visit>
void for_each_channel(const ChannelBlocks& blocks, int64_t block, const Visit& visit) {
  for (int64_t lane = 0; lane < blocks.lanes_used(block); ++lane) {
    for_each_column(blocks, lane, [&](size_t s) { visit(block * blocks.lanes + lane, s); });
  }
}

template <class T>
class GroupNormKernel final : public Kernel {
 public:
  GroupNormKernel(const GroupNorm& op, const ChannelBlocks& blocks, Slots slots)
      : all_{blocks, op.groups}, eps_(op.eps), slots_(std::move(slots)) {}

  void run() override {
    sweep_samples(
        all_.blocks, [this](int64_t n, int64_t block) { measure(n, block); },
        [this](int64_t n) { settle(n); }, [this](int64_t n, int64_t block) { apply(n, block); });
  }

 private:
  void measure(int64_t n, int64_t block) const {
    const GroupWorkspace<Moments> work(all_, at<void>(slots_.workspace));
    const SampleBlocks sample(all_.blocks, n);
    for (int64_t i = 0; i < sample.one.pieces(); ++i) {
      const Piece p = sample.one.piece(block, i);
      measure_moments(at<const T>(slots_.inputs[GroupNorm::kX]) + sample.offset + p.offset, p.count,
                      work.records[i] = {});
    }
    for (int64_t lane = 0; lane < sample.one.lanes_used(block); ++lane) {
      const ChannelMoments found = moments_of(sample.one, work.records, lane);
      work.of_channels[n * all_.blocks.channels + block * all_.blocks.lanes + lane] = {found.mean,
                                                                                       found.variance};
    }
  }

  /// All channels of a group have the same number of values.
  void settle(int64_t n) const {
    const GroupWorkspace<Moments> work(all_, at<void>(slots_.workspace));
    const auto count = static_cast<double>(all_.channels());
    for (int64_t g = 0; g < all_.groups; ++g) {
      const FoundPair* of_group = work.of_channels + n * all_.blocks.channels + g * all_.channels();
      double mean = 0, variance = 0;
      for (int64_t c = 0; c < all_.channels(); ++c) mean += of_group[c].first / count;
      for (int64_t c = 0; c < all_.channels(); ++c) {
        const double offset = of_group[c].first - mean;
        variance += (of_group[c].second + offset * offset) / count;
      }
      const int64_t place = n * all_.groups + g;
      const double factor = 1 / std::sqrt(variance + eps_);
      work.of_groups[place] = {mean, factor};
      if (slots_.outputs[GroupNorm::kMean] != nullptr)
        at<float>(slots_.outputs[GroupNorm::kMean])[place] = static_cast<float>(mean);
      if (slots_.outputs[GroupNorm::kFactor] != nullptr)
        at<float>(slots_.outputs[GroupNorm::kFactor])[place] = static_cast<float>(factor);
    }
  }

  void apply(int64_t n, int64_t block) const {
    const GroupWorkspace<Moments> work(all_, at<void>(slots_.workspace));
    ColumnTerms terms;
    for_each_channel(all_.blocks, block, [&](int64_t c, size_t s) {
      const auto &gamma = slots_.inputs[GroupNorm::kGamma], &beta = slots_.inputs[GroupNorm::kBeta];
      const auto [mean, factor] = work.of_groups[all_.group(n, c)];
      terms.mean[s] = static_cast<float>(mean);
      terms.scale[s] = static_cast<float>(gamma == nullptr ? factor : factor * at<const float>(gamma)[c]);
      terms.shift[s] = beta == nullptr ? 0 : at<const float>(beta)[c];
    });
    const SampleBlocks sample(all_.blocks, n);
    for (int64_t i = sample.one.pieces(); i-- > 0;) {
      const Piece p = sample.one.piece(block, i);
      const int64_t offset = sample.offset + p.offset;
      apply_group_terms(terms, at<const T>(slots_.inputs[GroupNorm::kX]) + offset,
                        at<T>(slots_.outputs[GroupNorm::kY]) + offset, p.count);
    }
  }

  GroupedBlocks all_;
  double eps_;
  Slots slots_;
};

/// With A and B the sums of dy and dy * (x - mean) of a channel, and h = (x -
/// mean) * factor, the group's means of gamma dy and gamma dy h follow from sums of
/// gamma A and gamma B factor.
template <class T>
class GroupNormBackwardKernel final : public Kernel {
 public:
  GroupNormBackwardKernel(const GroupNormBackward& op, const ChannelBlocks& blocks, Slots slots)
      : all_{blocks, op.groups}, slots_(std::move(slots)) {}

  void run() override {
    sweep_samples(
        all_.blocks, [this](int64_t n, int64_t block) { measure(n, block); },
        [this](int64_t n) { settle(n); }, [this](int64_t n, int64_t block) { apply(n, block); });
    sum_samples();
  }

 private:
  float mean(int64_t n, int64_t c) const {
    return at<const float>(slots_.inputs[GroupNormBackward::kMean])[all_.group(n, c)];
  }
  float factor(int64_t n, int64_t c) const {
    return at<const float>(slots_.inputs[GroupNormBackward::kFactor])[all_.group(n, c)];
  }
  float gamma(int64_t c) const {
    return slots_.inputs[GroupNormBackward::kGamma] == nullptr
               ? 1
               : at<const float>(slots_.inputs[GroupNormBackward::kGamma])[c];
  }

  void measure(int64_t n, int64_t block) const {
    const GroupWorkspace<Slopes> work(all_, at<void>(slots_.workspace));
    const SampleBlocks sample(all_.blocks, n);
    std::array<float, kColumns> means{};
    for_each_channel(all_.blocks, block, [&](int64_t c, size_t s) { means[s] = mean(n, c); });
    const Operands<T> given{at<const T>(slots_.inputs[GroupNormBackward::kDy]) + sample.offset, nullptr,
                            at<const T>(slots_.inputs[GroupNormBackward::kX]) + sample.offset, nullptr};
    for (int64_t i = 0; i < sample.one.pieces(); ++i) {
      const Piece p = sample.one.piece(block, i);
      measure_slopes(means.data(), given.from(p), nullptr, p.count, work.records[i] = {});
    }
    for (int64_t lane = 0; lane < sample.one.lanes_used(block); ++lane) {
      const ChannelSums found = sums_of(sample.one, work.records, lane);
      work.of_channels[n * all_.blocks.channels + block * all_.blocks.lanes + lane] = {found.slope,
                                                                                       found.product};
    }
  }

  void settle(int64_t n) const {
    const GroupWorkspace<Slopes> work(all_, at<void>(slots_.workspace));
    const double values = static_cast<double>(all_.channels()) * all_.area();
    for (int64_t g = 0; g < all_.groups; ++g) {
      FoundPair sums{};
      for (int64_t c = g * all_.channels(); c < (g + 1) * all_.channels(); ++c) {
        const FoundPair& found = work.of_channels[n * all_.blocks.channels + c];
        sums.first += gamma(c) * found.first, sums.second += gamma(c) * found.second;
      }
      work.of_groups[n * all_.groups + g] = {sums.first / values, sums.second / values};
    }
  }

  void apply(int64_t n, int64_t block) const {
    const GroupWorkspace<Slopes> work(all_, at<void>(slots_.workspace));
    ColumnTerms terms;
    for_each_channel(all_.blocks, block, [&](int64_t c, size_t s) {
      const FoundPair& means = work.of_groups[all_.group(n, c)];
      const double own = factor(n, c);
      terms.mean[s] = mean(n, c);
      terms.scale[s] = static_cast<float>(own * gamma(c));
      terms.pull[s] = static_cast<float>(-own * own * own * means.second);
      terms.shift[s] = static_cast<float>(-own * means.first);
    });
    const SampleBlocks sample(all_.blocks, n);
    for (int64_t i = sample.one.pieces(); i-- > 0;) {
      const Piece p = sample.one.piece(block, i);
      const int64_t offset = sample.offset + p.offset;
      apply_group_gradient(terms, at<const T>(slots_.inputs[GroupNormBackward::kDy]) + offset,
                           at<const T>(slots_.inputs[GroupNormBackward::kX]) + offset,
                           at<T>(slots_.outputs[GroupNormBackward::kDx]) + offset, p.count);
    }
  }

  /// The gradients of the parameters, sample by sample in order.
  void sum_samples() const {
    const GroupWorkspace<Slopes> work(all_, at<void>(slots_.workspace));
    const int64_t channels = all_.blocks.channels;
    for (int64_t c = 0; c < channels; ++c) {
      double dgamma = 0, dbeta = 0;
      for (int64_t n = 0; n < all_.blocks.samples; ++n) {
        dgamma += work.of_channels[n * channels + c].second * factor(n, c);
        dbeta += work.of_channels[n * channels + c].first;
      }
      if (slots_.outputs[GroupNormBackward::kDgamma] != nullptr)
        at<float>(slots_.outputs[GroupNormBackward::kDgamma])[c] = static_cast<float>(dgamma);
      if (slots_.outputs[GroupNormBackward::kDbeta] != nullptr)
        at<float>(slots_.outputs[GroupNormBackward::kDbeta])[c] = static_cast<float>(dbeta);
    }
  }

  GroupedBlocks all_;
  Slots slots_;
};

/// A choice of blocks for the image that is input `x`, with workspace.
template <class Record>
Choice select_groups(const OpContext& context, const OpenLayouts& inputs, size_t x, int64_t groups) {
  Choice choice = select_blocks(context, inputs, x);
  const ChannelBlocks blocks = *channel_blocks(choice.inputs[x], context.inputs[x].shape);
  choice.workspace_bytes = GroupWorkspace<Record>::bytes({blocks, groups});
  return choice;
}

template <template <class> class GroupKernel, class Op>
std::unique_ptr<Kernel> compile_groups(const OpContext& context, const Choice& choice, const Slots& slots,
                                       size_t x) {
  const ChannelBlocks blocks = *channel_blocks(choice.inputs[x], context.inputs[x].shape);
  return with_storage(context.inputs[x].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    return std::make_unique<GroupKernel<decltype(element)>>(static_cast<const Op&>(context.op), blocks,
                                                            slots);
  });
}

}  // namespace

void add_group_norm(Handlers& handlers) {
  handlers[typeid(GroupNorm)] = {[](const OpContext& c, const OpenLayouts& inputs) {
                                   return select_groups<Moments>(c, inputs, 0,
                                                                 static_cast<const GroupNorm&>(c.op).groups);
                                 },
                                 [](const OpContext& c, const Choice& choice, const Slots& slots) {
                                   return compile_groups<GroupNormKernel, GroupNorm>(c, choice, slots, 0);
                                 },
                                 {}};
  handlers[typeid(GroupNormBackward)] = {
      [](const OpContext& c, const OpenLayouts& inputs) {
        return select_groups<Slopes>(c, inputs, 1, static_cast<const GroupNormBackward&>(c.op).groups);
      },
      [](const OpContext& c, const Choice& choice, const Slots& slots) {
        return compile_groups<GroupNormBackwardKernel, GroupNormBackward>(c, choice, slots, 1);
      },
      {}};
}

}  // namespace trainer::cpu

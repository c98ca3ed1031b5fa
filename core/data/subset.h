// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/source.h"

namespace trainer {

/// How many of `size` samples a fraction of them sets aside for validation: at least one, and not all. Throws
/// Error (exit 65) if there is only one sample.
int64_t validation_count(int64_t size, double fraction);

/// Which part of a set of samples is wanted.
struct SplitChoice {
  Split split = Split::train;
  double fraction = 0;  ///< of all samples, for validation
  uint64_t seed = 0;
  int64_t folds = 0, fold = 0;  ///< in place of a fraction: so many parts, one of which is for validation
};

/// What a split takes account of; each may be empty.
struct SplitBy {
  std::vector<int32_t> labels = {};  ///< each class has its share
  SampleLabelSets label_sets = {};   ///< the same of samples with any number of classes
  std::vector<int32_t> groups = {};  ///< that no split divides
};

/// The numbers of the samples of a split; ascending. One of the functions below, or folds: each class is
/// dealt to all of them in turn, and groups go to the smallest fold, the largest ones first. Throws Error
/// (exit 65) if a split would be empty.
std::vector<int64_t> chosen_samples(int64_t size, SplitBy by, const SplitChoice& choice);

/// The numbers of the samples that (fraction, seed) sets aside for validation, or of the rest; ascending.
std::vector<int64_t> split_samples(int64_t size, const SplitChoice& choice);

/// The same with this share of each class, by largest remainder; training keeps a sample of each. Throws
/// Error (exit 65) if no class has two samples.
std::vector<int64_t> split_classes(std::span<const int32_t> labels, const SplitChoice& choice);

/// The same of samples with any number of classes, by iterative stratification (Sechidis et al. 2011, doi
/// 10.1007/978-3-642-23808-6_10): the shares of rare classes first, then the number of samples. Throws Error
/// (exit 65) if each sample has a class of its own.
std::vector<int64_t> split_label_sets(const SampleLabelSets& sets, const SplitChoice& choice);

/// The same with samples of one group on one side. Groups in a random order go to validation if that brings
/// the classes nearer to their shares, and if training keeps a sample of each class. Throws Error (exit 65)
/// if that leaves validation without a group.
std::vector<int64_t> split_groups(std::span<const int32_t> labels, std::span<const int32_t> groups,
                                  const SplitChoice& choice);
/// The same of samples with any number of classes; none counts as a class.
std::vector<int64_t> split_groups(const SampleLabelSets& sets, std::span<const int32_t> groups,
                                  const SplitChoice& choice);

}  // namespace trainer

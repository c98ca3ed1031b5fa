// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/data/images/rows.h"
#include "core/data/images/source.h"
#include "core/data/pipeline.h"
#include "core/data/section.h"

namespace trainer {

/// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The bytes of an IDX file.
std::string idx_bytes(uint32_t magic, const std::vector<uint32_t>& sizes, const std::string& payload);
std::string gzip(const std::string& bytes);
void write_file(const std::string& path, const std::string& bytes);

/// The section of a recipe's `data`.
DataSection read_section(const std::string& yaml);

/// The text of Error (exit 65), or a failed check if none is thrown.
std::string data_error(const std::function<void()>& action);

/// A transform of the table, its parameters set by name.
std::unique_ptr<Transform> make_transform(const std::string& name);
void set(Transform& transform, const std::string& field, double value);
void set(Transform& transform, const std::string& field, int64_t value);
void set(Transform& transform, const std::string& field, std::vector<double> values);
void set(Transform& transform, const std::string& field, const std::string& value);
void set(Transform& transform, const std::string& field, bool value);

/// A random crop, perhaps mirrored, of images of two channels, normalised.
TransformList augmentation();

/// A chain for a list that must fit.
TransformChain make_chain(const TransformList& list, const Shape& input);

/// The inputs of a program that takes images of a shape, with one label each, and mixes them.
BatchInputs image_inputs(const Shape& shape, DType dtype = DType::f32);

/// Batches of images for these inputs, by default those of the chain's result.
template <class Batches>
BatchMaker image_batches(const ImageSource& source, const TransformChain& chain, const Batches& batches,
                         const Mix& mix = {}, BatchInputs inputs = {}) {
  if (inputs.empty()) inputs = image_inputs(chain.output_shape());
  const TrainingBatches* training = nullptr;
  if constexpr (std::is_same_v<Batches, TrainingBatches>) training = &batches;
  auto rows = make_image_rows(source, chain, inputs, training, mix);
  return BatchMaker(std::move(rows), inputs, batches);
}

// The arrays of such batches.
inline float* images_of(const Batch& batch) {
  return batch.find<float>("images");
}
inline uint8_t* bytes_of(const Batch& batch) {
  return batch.find<uint8_t>("images");
}
inline int32_t* labels_of(const Batch& batch) {
  return batch.find<int32_t>("labels");
}
inline float* weights_of(const Batch& batch) {
  return batch.find<float>("weights");
}
inline int32_t* sample_index_of(const Batch& batch) {
  return batch.find<int32_t>("sample_index");
}
inline int32_t* other_labels_of(const Batch& batch) {
  return batch.find<int32_t>("other_labels");
}
inline float* mix_weights_of(const Batch& batch) {
  return batch.find<float>("mix_weights");
}

/// Samples with their index as the first byte, from which the others follow; label = index % classes. Throws
/// in place of sample `bad`.
class CountingSource : public ImageSource {
 public:
  CountingSource(int64_t size, Shape shape, int64_t bad = -1)
      : shape_(std::move(shape)), size_(size), bad_(bad) {}
  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return shape_; }
  int64_t classes() const override { return 10; }
  int64_t resident_bytes() const override { return 0; }
  void check_labels(const AllowedLabels&) const override {}
  void read(int64_t index, Image& into) const override;

 private:
  Shape shape_;
  int64_t size_, bad_;
};

/// All numbers of a batch, so that two compare bit by bit; an image has this many numbers.
std::string bits(const Batch& batch, int64_t rows, int64_t pixels = 60);

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/train/device_samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/engine/arena.h"

namespace trainer {
namespace {

/// A page-locked staging buffer: large enough for the full speed of a copy.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

void check_shape(const Image& image, const Shape& shape, int64_t index) {
  if (Shape{image.channels, image.height, image.width} == shape) return;
  throw Error(ExitCode::data, fmt::format("sample {} has shape {}x{}x{}, expected {}", index, image.channels,
                                          image.height, image.width, to_string(shape)));
}

}  // namespace

int64_t DeviceSamples::device_bytes(const Plan& plan) {
  int64_t sum = 0;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (plan.tensors[i].role == Role::samples) sum += align_up(plan.placements[i].bytes);
  }
  return sum;
}

DeviceSamples::DeviceSamples(Executable& executable, const DataSource& train, const DataSource* validation)
    : memory_(executable.device().allocate(device_bytes(executable.plan()))) {
  auto copy_split = [&](const DataSource& source, const std::string& name) {
    copy(executable, as_images(source), executable.tensor("samples." + name),
         executable.tensor("sample_labels." + name));
  };
  copy_split(train, "train");
  if (validation != nullptr) copy_split(*validation, "val");
}

void DeviceSamples::copy(Executable& executable, const ImageSource& source, TensorId samples,
                         TensorId labels) {
  Device& device = executable.device();
  const Plan& plan = executable.plan();
  auto place = [&](TensorId id) {
    std::byte* at = memory_.data() + used_;
    used_ += align_up(plan.placements[static_cast<size_t>(id)].bytes);
    executable.bind(id, at);
    return at;
  };
  std::byte *to_samples = place(samples), *to_labels = place(labels);
  const Shape shape = source.sample_shape();
  const int64_t each = numel(shape), label = sizeof(int32_t);
  const int64_t most = std::max<int64_t>(1, kPieceBytes / each);
  const Buffer pixels = device.allocate_batch(most * each), answers = device.allocate_batch(most * label);
  Image image;
  for (int64_t first = 0; first < source.size(); first += most) {
    const int64_t count = std::min(most, source.size() - first);
    for (int64_t i = 0; i < count; ++i) {
      source.read(first + i, image);
      check_shape(image, shape, first + i);
      std::copy(image.pixels.begin(), image.pixels.end(),
                reinterpret_cast<uint8_t*>(pixels.data()) + i * each);
      reinterpret_cast<int32_t*>(answers.data())[i] = image.label;
    }
    const HostCopy copies[] = {{to_samples + first * each, pixels.data(), count * each},
                               {to_labels + first * label, answers.data(), count * label}};
    device.copy_to_device_async(copies, device.record_event());  // not before the memory is cleared
    device.synchronize(device.record_event());
  }
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/storage/safetensors.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "core/base/error.h"
#include "core/storage/safetensors_header.h"
#include "tests/fuzz/files.h"

namespace trainer {
namespace {

/// Anything but damaged data (exit 65) ends the process.
template <class Act>
void data_or_refusal(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
}

/// Every byte belongs to one tensor, and tensors that are read are written unchanged.
void check(const std::vector<StoredTensor>& tensors, const StoredMetadata& metadata, int64_t data_bytes) {
  int64_t position = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin != position || tensor.end < tensor.begin) std::abort();
    position = tensor.end;
  }
  if (position != data_bytes) std::abort();
  std::vector<StoredTensor> placed = tensors;
  StoredMetadata again;
  const std::string header = compose_header(placed, metadata);
  const std::vector<StoredTensor> read = parse_header(header, data_bytes, "again", again);
  if (read.size() != tensors.size() || again != metadata) std::abort();
  for (size_t i = 0; i < read.size(); ++i) {
    const bool same = read[i].name == tensors[i].name && read[i].dtype == tensors[i].dtype &&
                      read[i].shape == tensors[i].shape && read[i].begin == tensors[i].begin;
    if (!same) std::abort();
  }
}

void try_file(const std::string& path) {
  data_or_refusal([&] {
    const SafetensorsFile file(path);
    int64_t bytes = 0;
    for (const StoredTensor& tensor : file.tensors()) {
      bytes = std::max(bytes, tensor.end);
      std::vector<std::byte> stored(static_cast<size_t>(tensor.end - tensor.begin));
      file.read_bytes(tensor, stored);
      data_or_refusal([&] { file.read_floats(tensor); });
    }
    check(file.tensors(), file.metadata(), bytes);
  });
}

/// A file with this header; a mutation of a whole file would hardly ever get its length right.
std::vector<uint8_t> with_length(std::span<const uint8_t> header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::vector<uint8_t> file(sizeof length);
  std::memcpy(file.data(), &length, sizeof length);
  file.insert(file.end(), header.begin(), header.end());
  file.resize(file.size() + data_bytes, 1);
  return file;
}

}  // namespace
}  // namespace trainer

/// The bytes as a file, and as a header after the first two bytes, which give the length of the data.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  trainer::try_file(trainer::put_file("m.safetensors", bytes));
  if (size < 2) return 0;
  const size_t data_bytes = data[0] + size_t{256} * data[1];
  trainer::try_file(trainer::put_file("m.safetensors", trainer::with_length(bytes.subspan(2), data_bytes)));
  return 0;
}

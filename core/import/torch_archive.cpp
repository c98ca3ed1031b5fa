// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/import/pickle.h"
#include "core/import/remedies.h"
#include "core/import/torch_storages.h"
#include "core/import/zip_archive.h"

namespace trainer {
namespace {

[[noreturn]] void refuse_archive(const std::filesystem::path& path, const std::string& text) {
  throw Error(ExitCode::data, fmt::format("{}: {}", one_line(path.string()), text));
}

std::string whole_entry(ZipArchive& archive, const std::filesystem::path& path, const std::string& name,
                        size_t most) {
  const auto size = static_cast<size_t>(archive.bytes(name));
  if (size > most)
    refuse_archive(path, fmt::format("'{}' has {} bytes, expected at most {}. {}", one_line(name), size, most,
                                     kSaveWeights));
  std::string bytes(size, '\0');
  archive.read(name, 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// `NAME/` of the entry `NAME/data.pkl`.
std::string folder_of(const ZipArchive& archive, const std::filesystem::path& path) {
  constexpr std::string_view kPickle = "/data.pkl";
  for (const std::string& name : archive.names()) {
    if (name.ends_with(kPickle) && name.find('/') == name.size() - kPickle.size())
      return name.substr(0, name.size() - kPickle.size() + 1);
  }
  refuse_archive(path, "is a zip archive without data.pkl, expected one by torch.save; name that file");
}

class ArchiveStorages final : public TorchStorages {
 public:
  ArchiveStorages(std::unique_ptr<ZipArchive> archive, std::string folder)
      : archive_(std::move(archive)), folder_(std::move(folder)) {}
  int64_t bytes(const std::string& key) override { return archive_->bytes(folder_ + key); }
  void read(const std::string& key, int64_t begin, std::span<std::byte> into) override {
    archive_->read(folder_ + key, begin, into);
  }

 private:
  std::unique_ptr<ZipArchive> archive_;
  std::string folder_;
};

}  // namespace

std::unique_ptr<ForeignWeights> open_torch_archive(const std::filesystem::path& path) {
  constexpr size_t kMostOrderBytes = 64;
  auto archive = std::make_unique<ZipArchive>(path);
  const std::string folder = folder_of(*archive, path);
  if (archive->has(folder + "constants.pkl"))
    refuse_archive(path, fmt::format("is a program by torch.jit.save, expected weights. {}", kSaveWeights));
  if (archive->has(folder + "byteorder")) {
    const std::string order = whole_entry(*archive, path, folder + "byteorder", kMostOrderBytes);
    if (order != "little")
      refuse_archive(path, fmt::format("its byte order is '{}', expected 'little'; save it on such a machine",
                                       one_line(order)));
  }
  Pickle pickle(whole_entry(*archive, path, folder + "data.pkl", Pickle::kMostBytes),
                one_line(path.string()) + ": data.pkl");
  const PickleValue value = pickle.read();
  TorchState state = read_torch_state(pickle, value);
  return make_torch_weights(path, std::move(state),
                            std::make_unique<ArchiveStorages>(std::move(archive), folder + "data/"));
}

}  // namespace trainer

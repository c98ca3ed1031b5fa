// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/import/pickle.h"
#include "core/import/remedies.h"
#include "core/import/torch_storages.h"
#include "core/storage/stored_type.h"

namespace trainer {
namespace {

using Kind = PickleValue::Kind;

// 0x1950a86a20f9469cfc6c, little-endian.
constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr int64_t kProtocol = 1001;

struct PlacedStorage {
  int64_t begin = 0, bytes = 0;  // in the file
};

class LegacyStorages final : public TorchStorages {
 public:
  LegacyStorages(const std::filesystem::path& path, FileDescriptor file,
                 std::map<std::string, PlacedStorage> places)
      : path_(path), file_(std::move(file)), places_(std::move(places)) {}
  int64_t bytes(const std::string& key) override { return find(key).bytes; }
  void read(const std::string& key, int64_t begin, std::span<std::byte> into) override {
    read_exactly(file_.get(), path_, find(key).begin + begin, into);
  }

 private:
  const PlacedStorage& find(const std::string& key) const {
    const auto found = places_.find(key);
    if (found != places_.end()) return found->second;
    throw Error(ExitCode::data, fmt::format("{}: expected a storage '{}', found none; {}",
                                            one_line(path_.string()), one_line(key), kCopyAgain));
  }

  std::filesystem::path path_;
  FileDescriptor file_;
  std::map<std::string, PlacedStorage> places_;
};

/// The first three pickles: a magic number, the protocol, and a map that describes the machine.
void check_start(Pickle& pickle) {
  const PickleValue magic = pickle.read();
  if (magic.kind != Kind::large || pickle.bytes_of(magic) != kMagic) {
    pickle.fail(
        0, fmt::format("is a pickle without torch.save's magic number, expected weights. {}", kSaveWeights));
  }
  const auto at = static_cast<int64_t>(pickle.position());
  const PickleValue protocol = pickle.read();
  if (protocol.kind != Kind::integer || protocol.number != kProtocol)
    pickle.fail(at,
                fmt::format("expected torch.save's protocol {}, found another; save it with a newer PyTorch",
                            kProtocol));
  const PickleValue machine = pickle.read();
  if (machine.kind != Kind::map)
    pickle.fail(at, "expected a map that describes the machine, found another value");
  const auto& items = pickle.items_of(machine);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const bool is_order = items[i].kind == Kind::text && pickle.bytes_of(items[i]) == "little_endian";
    if (is_order && items[i + 1].number == 0)
      pickle.fail(at, "its byte order is big-endian, expected little-endian; save it on such a machine");
  }
}

/// Where each storage is: in the order of `keys`, each after its number of elements in 8 bytes.
std::map<std::string, PlacedStorage> place_storages(const Pickle& pickle, const PickleValue& keys, int fd,
                                                    const std::filesystem::path& path) {
  std::map<std::string, TorchStorage> known;
  for (const PickleValue& reference : pickle.references()) {
    TorchStorage storage = storage_of(pickle, reference);
    known.emplace(storage.key, storage);
  }
  auto at = static_cast<int64_t>(pickle.position());
  if (keys.kind != Kind::list) pickle.fail(at, "expected the list of storages, found another value");
  const int64_t end = file_bytes(fd, path);
  std::map<std::string, PlacedStorage> places;
  for (const PickleValue& key : pickle.items_of(keys)) {
    const auto found = key.kind == Kind::text ? known.find(std::string(pickle.bytes_of(key))) : known.end();
    if (found == known.end())
      pickle.fail(at, fmt::format("found a storage that no tensor has; {}", kCopyAgain));
    const int64_t width = element_bytes(found->second.dtype);
    int64_t elements = 0;
    if (end - at < std::ssize(std::as_bytes(std::span(&elements, 1))))
      pickle.fail(at,
                  fmt::format("expected the size of a storage, found the end of the file; {}", kCopyAgain));
    read_exactly(fd, path, at, std::as_writable_bytes(std::span(&elements, 1)));
    at += static_cast<int64_t>(sizeof elements);
    if (elements < 0 || elements > (end - at) / width) {
      pickle.fail(at, fmt::format("a storage of {} elements begins here, found {} more bytes; {}", elements,
                                  end - at, kCopyAgain));
    }
    places[found->first] = {at, elements * width};
    at += elements * width;
  }
  return places;
}

}  // namespace

std::unique_ptr<ForeignWeights> open_legacy_torch_file(const std::filesystem::path& path) {
  FileDescriptor file = open_regular(path);
  const int64_t size = file_bytes(file.get(), path);
  std::string bytes(static_cast<size_t>(std::min<int64_t>(size, Pickle::kMostBytes)), '\0');
  read_exactly(file.get(), path, 0, std::as_writable_bytes(std::span(bytes)));
  Pickle pickle(std::move(bytes), one_line(path.string()));
  check_start(pickle);
  const PickleValue value = pickle.read();
  TorchState state = read_torch_state(pickle, value);
  const PickleValue keys = pickle.read();
  auto places = place_storages(pickle, keys, file.get(), path);
  return make_torch_weights(path, std::move(state),
                            std::make_unique<LegacyStorages>(path, std::move(file), std::move(places)));
}

}  // namespace trainer

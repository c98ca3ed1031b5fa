// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl.h"

#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_standin/runtime.h"

// NCCL between processes of this machine that stand-ins are linked into: sums through shared memory, in the
// order of the streams, added in the order of the ranks.

using trainer::cuda::Nccl;

#ifdef NCCL_MAJOR
// The declarations of cuda/nccl.h equal those of NCCL's own header.
static_assert(sizeof(Nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(Nccl::kFloat32 == ncclFloat32 && Nccl::kSum == ncclSum && ncclSuccess == 0);
static_assert(
    std::is_same_v<decltype(&ncclAllReduce), ncclResult_t (*)(const void*, void*, size_t, ncclDataType_t,
                                                              ncclRedOp_t, ncclComm_t, cudaStream_t)>);
static_assert(
    std::is_same_v<decltype(&ncclBroadcast), ncclResult_t (*)(const void*, void*, size_t, ncclDataType_t, int,
                                                              ncclComm_t, cudaStream_t)>);
static_assert(
    std::is_same_v<decltype(&ncclAllGather),
                   ncclResult_t (*)(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t)>);
static_assert(
    std::is_same_v<decltype(&ncclReduceScatter), ncclResult_t (*)(const void*, void*, size_t, ncclDataType_t,
                                                                  ncclRedOp_t, ncclComm_t, cudaStream_t)>);
static_assert(
    std::is_same_v<decltype(&ncclReduce), ncclResult_t (*)(const void*, void*, size_t, ncclDataType_t,
                                                           ncclRedOp_t, int, ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(&ncclSend), ncclResult_t (*)(const void*, size_t, ncclDataType_t, int,
                                                                   ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(&ncclRecv),
                             ncclResult_t (*)(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(&ncclCommSplit),
                             ncclResult_t (*)(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*)>);
static_assert(Nccl::kInt8 == ncclInt8 && ncclInProgress == 7);
static_assert(std::is_same_v<decltype(&ncclCommGetAsyncError), ncclResult_t (*)(ncclComm_t, ncclResult_t*)>);
static_assert(
    std::is_same_v<decltype(&ncclCommInitRank), ncclResult_t (*)(ncclComm_t*, int, ncclUniqueId, int)>);
#endif

namespace trainer::cuda {

/// A piece of a message from one rank to another.
struct Letter {
  static constexpr size_t kBytes = 65536;
  std::atomic<size_t> length;  ///< 0: the receiver has taken the last one
  size_t total;                ///< of the whole message
  std::byte bytes[kBytes];
};

/// Memory that all processes see. New memory of this kind is zero.
struct SharedByRanks {
  static constexpr size_t kPiece = 65536;  ///< numbers of a rank that are exchanged at once
  static constexpr int kMostRanks = 16;
  std::atomic<int> arrived, round;
  std::atomic<size_t> counts[kMostRanks];  ///< that the ranks exchange
};

/// Where NCCL would hang or be undefined.
[[noreturn]] void give_up(const char* reason) {
  fmt::print(stderr, "NCCL's stand-in: {}\n", reason);
  std::abort();
}

struct Nccl::Comm {
  int rank = 0, ranks = 0;
  static constexpr size_t kPiece = SharedByRanks::kPiece;
  SharedByRanks* shared = nullptr;
  size_t bytes = 0;
  std::atomic<int> collectives = 0;  ///< that have run

  static constexpr size_t kBytes = kPiece * sizeof(float);

  const std::byte* slot(int of) const {
    return reinterpret_cast<const std::byte*>(shared + 1) + static_cast<size_t>(of) * kBytes;
  }
  Letter& letter(int from, int to) const {
    auto* letters = reinterpret_cast<Letter*>(reinterpret_cast<std::byte*>(shared + 1) +
                                              static_cast<size_t>(ranks) * kBytes);
    return letters[from * ranks + to];
  }
  float number(int of, size_t i) const { return reinterpret_cast<const float*>(slot(of))[i]; }

  /// Barrier of all processes.
  void meet() const {
    const int round = shared->round;
    if (shared->arrived.fetch_add(1) + 1 == ranks) {
      shared->arrived = 0;
      shared->round = round + 1;
      return;
    }
    while (shared->round == round) ::sched_yield();
  }

  /// Shares each rank's bytes with all others, in pieces. For each piece calls take(its offset, its length).
  template <class Take>
  void exchange(const std::byte* from, size_t total, const Take& take) const {
    for (size_t done = 0; done < total; done += kBytes) {
      const size_t length = std::min(kBytes, total - done);
      std::copy_n(from + done, length, const_cast<std::byte*>(slot(rank)));
      shared->counts[rank] = total;
      meet();
      for (int other = 0; other < ranks; ++other) {
        if (shared->counts[other] != total) give_up("ranks exchange unequal numbers of elements");
      }
      take(done, length);
      meet();
    }
  }

  float sum(size_t i) const {
    float sum = number(0, i);
    for (int other = 1; other < ranks; ++other) sum += number(other, i);
    return sum;
  }
};

namespace {

const char* name_of(const Nccl::UniqueId& id) {
  return reinterpret_cast<const char*>(id.bytes.data());
}

Nccl::Result make_id(Nccl::UniqueId* id) {
  static int number = 0;
  const std::string name = fmt::format("/trainer-standin-{}-{}", ::getpid(), ++number);
  std::memcpy(id->bytes.data(), name.c_str(), name.size() + 1);
  return 0;
}

Nccl::Result join(Nccl::Comm** comm, int ranks, Nccl::UniqueId id, int rank) {
  const size_t bytes = sizeof(SharedByRanks) +
                       static_cast<size_t>(ranks) * SharedByRanks::kPiece * sizeof(float) +
                       static_cast<size_t>(ranks) * static_cast<size_t>(ranks) * sizeof(Letter);
  const int file = ::shm_open(name_of(id), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return 2;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return 2;
  *comm = new Nccl::Comm{
      .rank = rank, .ranks = ranks, .shared = static_cast<SharedByRanks*>(memory), .bytes = bytes};
  (*comm)->meet();
  if (rank == 0) ::shm_unlink(name_of(id));
  return 0;
}

/// Ranks with the same colour join anew, under a name that all of them know.
Nccl::Result split(Nccl::Comm* comm, int color, int key, Nccl::Comm** part, void*) {
  struct Wish {
    int color, key;
    std::array<char, 48> name;
  };
  Nccl::UniqueId own{};
  make_id(&own);
  Wish wish{.color = color, .key = key, .name = {}};
  std::copy_n(name_of(own), wish.name.size(), wish.name.begin());
  std::vector<Wish> wishes(static_cast<size_t>(comm->ranks));
  comm->exchange(reinterpret_cast<const std::byte*>(&wish), sizeof wish, [&](size_t, size_t) {
    for (int rank = 0; rank < comm->ranks; ++rank)
      std::memcpy(&wishes[static_cast<size_t>(rank)], comm->slot(rank), sizeof wish);
  });
  std::erase_if(wishes, [&](const Wish& other) { return other.color != color; });
  std::ranges::sort(wishes, {}, &Wish::key);
  const auto self = std::ranges::find(wishes, key, &Wish::key) - wishes.begin();
  Nccl::UniqueId id{};
  std::memcpy(id.bytes.data(), wishes.front().name.data(), wishes.front().name.size());
  return join(part, static_cast<int>(wishes.size()), id, static_cast<int>(self));
}

Nccl::Result leave(Nccl::Comm* comm) {
  if (standin::collective_graphs() > 0) give_up("a communicator ends while a graph holds its collectives");
  ::munmap(comm->shared, comm->bytes);
  delete comm;
  return 0;
}

/// As if a link had failed after TRAINER_STANDIN_FAILS_LATE collectives.
Nccl::Result find_late_error(Nccl::Comm* comm, Nccl::Result* found) {
  constexpr Nccl::Result kRemote = 6;
  const char* after = std::getenv("TRAINER_STANDIN_FAILS_LATE");
  *found = after != nullptr && comm->collectives >= std::stoi(after) ? kRemote : 0;
  return 0;
}

/// NCCL reports what is wrong with a call of a group when that ends.
thread_local bool is_in_group = false;
thread_local Nccl::Result group_status = 0;

/// One end of a message. A send ends when its receiver has all of it.
struct Transfer {
  Nccl::Comm* comm;
  cudaStream_t stream;
  bool sends;
  std::byte* data;
  size_t bytes;
  int peer;
  size_t done = 0;

  bool has_ended() const { return done == bytes && (!sends || comm->letter(comm->rank, peer).length == 0); }

  void advance() {
    Letter& letter = sends ? comm->letter(comm->rank, peer) : comm->letter(peer, comm->rank);
    if (done == bytes || (letter.length == 0) != sends) return;
    if (sends) {
      const size_t length = std::min(Letter::kBytes, bytes - done);
      std::copy_n(data + done, length, letter.bytes);
      letter.total = bytes;
      done += length;
      letter.length = length;
    } else {
      if (letter.total != bytes) give_up("a message of another length than its receiver expects");
      std::copy_n(letter.bytes, letter.length.load(), data + done);
      done += letter.length;
      letter.length = 0;
    }
  }
};

/// Messages of a group, which begin together.
thread_local std::vector<Transfer> group_transfers;

/// Of one communicator, in the order of a stream.
Nccl::Result enqueue_transfers(std::vector<Transfer> all) {
  if (all.empty()) return 0;
  const std::lock_guard lock(standin::library_mutex());
  decltype(standin::Item::ranges) ranges;
  for (const Transfer& each : all) ranges.push_back({each.data, each.bytes});
  const auto work = [all] {
    std::vector<Transfer> open = all;  // the work may run again, as a part of a graph
    ++open.front().comm->collectives;
    while (!open.empty()) {
      for (Transfer& each : open) each.advance();
      std::erase_if(open, [](const Transfer& each) { return each.has_ended(); });
      ::sched_yield();
    }
    for (const Transfer& each : all) {
      if (!each.sends) emulation::mark_written(each.data, each.bytes);
    }
  };
  const cudaError_t status = standin::enqueue_on_device(
      all.front().stream, {.name = "ncclSend and ncclRecv", .work = work, .ranges = ranges});
  return status == cudaSuccess ? 0 : 1;
}

Nccl::Result begin_group() {
  is_in_group = true;
  group_status = 0;
  return 0;
}
Nccl::Result end_group() {
  is_in_group = false;
  return std::max(group_status, enqueue_transfers(std::exchange(group_transfers, {})));
}

Nccl::Result transfer(const Transfer& one) {
  if (one.comm == nullptr || one.peer < 0 || one.peer >= one.comm->ranks || one.peer == one.comm->rank)
    give_up("a message to nobody");
  if (!is_in_group) return enqueue_transfers({one});
  group_transfers.push_back(one);
  return 0;
}

Nccl::Result returned(Nccl::Result status) {
  if (!is_in_group) return status;
  group_status = std::max(group_status, status);
  return 0;
}

/// Memory that a collective writes.
struct Target {
  void* to;
  size_t bytes;
};

/// Enqueues an exchange: take(comm, done, length) writes to `target`.
template <class Take>
Nccl::Result enqueue(const char* name, const void* from, size_t bytes, const Target& target, Nccl::Comm* comm,
                     cudaStream_t stream, const Take& take) {
  const std::lock_guard lock(standin::library_mutex());
  const auto work = [=] {
    ++comm->collectives;
    comm->exchange(static_cast<const std::byte*>(from), bytes,
                   [&](size_t done, size_t length) { take(*comm, done, length); });
    emulation::mark_written(target.to, target.bytes);
  };
  const cudaError_t status = standin::enqueue_on_device(
      stream, {.name = name, .work = work, .ranges = {{from, bytes}, {target.to, target.bytes}}});
  return returned(status == cudaSuccess ? 0 : 1);
}

/// 0 for other types.
size_t bytes_of(int type) {
  return type == Nccl::kInt8 ? 1 : type == Nccl::kFloat32 ? sizeof(float) : 0;
}

/// Writes the sums of the numbers from `first` to before `end`, of a piece whose first number is `offset`, to
/// `to`, which begins with number `first`.
void put_sums(const Nccl::Comm& all, float* to, size_t first, size_t end, size_t done, size_t length) {
  const size_t offset = done / sizeof(float), after = offset + length / sizeof(float);
  for (size_t i = std::max(first, offset); i < std::min(end, after); ++i) to[i - first] = all.sum(i - offset);
}

Nccl::Result all_reduce(const void* from, void* to, size_t count, int type, int operation, Nccl::Comm* comm,
                        cudaStream_t stream) {
  if (type != Nccl::kFloat32 || operation != Nccl::kSum || comm == nullptr) return returned(4);
  const size_t bytes = count * sizeof(float);
  return enqueue("ncclAllReduce", from, bytes, {to, bytes}, comm, stream,
                 [=](const Nccl::Comm& all, size_t done, size_t length) {
                   put_sums(all, static_cast<float*>(to), 0, count, done, length);
                 });
}

Nccl::Result broadcast(const void* from, void* to, size_t count, int type, int root, Nccl::Comm* comm,
                       cudaStream_t stream) {
  if (bytes_of(type) == 0 || comm == nullptr || root < 0 || root >= comm->ranks) return returned(4);
  const size_t bytes = count * bytes_of(type);
  // Other ranks' `from` may be shorter: only the root's counts.
  return enqueue("ncclBroadcast", comm->rank == root ? from : to, bytes, {to, bytes}, comm, stream,
                 [=](const Nccl::Comm& all, size_t done, size_t length) {
                   std::copy_n(all.slot(root), length, static_cast<std::byte*>(to) + done);
                 });
}

Nccl::Result all_gather(const void* from, void* to, size_t count, int type, Nccl::Comm* comm,
                        cudaStream_t stream) {
  if (bytes_of(type) == 0 || comm == nullptr) return returned(4);
  const size_t bytes = count * bytes_of(type);
  return enqueue("ncclAllGather", from, bytes, {to, bytes * static_cast<size_t>(comm->ranks)}, comm, stream,
                 [=](const Nccl::Comm& all, size_t done, size_t length) {
                   for (int rank = 0; rank < all.ranks; ++rank)
                     std::copy_n(all.slot(rank), length,
                                 static_cast<std::byte*>(to) + static_cast<size_t>(rank) * bytes + done);
                 });
}

Nccl::Result reduce_scatter(const void* from, void* to, size_t count, int type, int operation,
                            Nccl::Comm* comm, cudaStream_t stream) {
  if (type != Nccl::kFloat32 || operation != Nccl::kSum || comm == nullptr) return returned(4);
  const size_t bytes = count * sizeof(float), first = count * static_cast<size_t>(comm->rank);
  return enqueue("ncclReduceScatter", from, bytes * static_cast<size_t>(comm->ranks), {to, bytes}, comm,
                 stream, [=](const Nccl::Comm& all, size_t done, size_t length) {
                   put_sums(all, static_cast<float*>(to), first, first + count, done, length);
                 });
}

Nccl::Result reduce(const void* from, void* to, size_t count, int type, int operation, int root,
                    Nccl::Comm* comm, cudaStream_t stream) {
  if (type != Nccl::kFloat32 || operation != Nccl::kSum || comm == nullptr || root < 0 || root >= comm->ranks)
    return returned(4);
  const size_t bytes = count * sizeof(float), written = comm->rank == root ? bytes : 0;
  return enqueue("ncclReduce", from, bytes, {to, written}, comm, stream,
                 [=](const Nccl::Comm& all, size_t done, size_t length) {
                   if (all.rank == root) put_sums(all, static_cast<float*>(to), 0, count, done, length);
                 });
}

Nccl::Result send(const void* from, size_t count, int type, int to, Nccl::Comm* comm, cudaStream_t stream) {
  if (bytes_of(type) == 0) return returned(4);
  return transfer({.comm = comm,
                   .stream = stream,
                   .sends = true,
                   .data = static_cast<std::byte*>(const_cast<void*>(from)),
                   .bytes = count * bytes_of(type),
                   .peer = to});
}

Nccl::Result receive(void* to, size_t count, int type, int from, Nccl::Comm* comm, cudaStream_t stream) {
  if (bytes_of(type) == 0) return returned(4);
  return transfer({.comm = comm,
                   .stream = stream,
                   .sends = false,
                   .data = static_cast<std::byte*>(to),
                   .bytes = count * bytes_of(type),
                   .peer = from});
}

}  // namespace

const Nccl& nccl() {
  static const Nccl standin{.get_version =
                                [](int* version) {
                                  *version = 21800;
                                  return 0;
                                },
                            .get_unique_id = make_id,
                            .init_rank = join,
                            .split = split,
                            .abort = leave,
                            .get_async_error = find_late_error,
                            .all_reduce = all_reduce,
                            .broadcast = broadcast,
                            .all_gather = all_gather,
                            .reduce_scatter = reduce_scatter,
                            .reduce = reduce,
                            .send = send,
                            .receive = receive,
                            .group_start = begin_group,
                            .group_end = end_group,
                            .error_string = [](Nccl::Result) { return "refused by the stand-in"; },
                            .last_error = [](Nccl::Comm*) -> const char* { return ""; }};
  return standin;
}

}  // namespace trainer::cuda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl_collectives.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "cuda/check.h"
#include "cuda/nccl.h"

namespace trainer::cuda {
namespace {

using Event = Owned<cudaEvent_t, cudaEventDestroy>;

Event make_mark() {
  return make<Event>("making an event", cudaEventCreateWithFlags, unsigned{cudaEventDisableTiming});
}

/// Ends NCCL's communicator without waiting for other ranks, which may be lost. CUDA graphs that captured its
/// collectives must be gone: NCCL would wait for them. They are, since a device outlives its executables.
struct AbortComm {
  void operator()(Nccl::Comm* comm) const { static_cast<void>(nccl().abort(comm)); }
};
using OwnComm = std::unique_ptr<Nccl::Comm, AbortComm>;

/// NCCL returns an error number, and has a text about the last error.
void check_nccl(Nccl::Result status, const char* what, ExitCode code) {
  if (status == 0) return;
  // If another rank is lost, the peer connections end this process meanwhile, and name that rank.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const char* more = nccl().last_error(nullptr);
  throw Error(code, fmt::format("{}: NCCL {} failed with \"{}\"{}{}", what, nccl_version(nccl()),
                                nccl().error_string(status), more == nullptr || *more == '\0' ? "" : ": ",
                                more == nullptr ? "" : more));
}

/// Its work goes before that of other streams: the step waits for collectives, and they for all ranks.
Stream first_served_stream() {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for the priorities of streams");
  return make<Stream>("making a stream", cudaStreamCreateWithPriority, unsigned{cudaStreamNonBlocking},
                      greatest);
}

OwnComm join_all(ProcessGroup& group) {
  Nccl::UniqueId id{};
  if (group.rank() == 0)
    check_nccl(nccl().get_unique_id(&id), "the start of the ranks' collectives", ExitCode::no_device);
  group.broadcast(id.bytes, 0);
  Nccl::Comm* comm = nullptr;
  check_nccl(nccl().init_rank(&comm, static_cast<int>(group.size()), id, static_cast<int>(group.rank())),
             "joining the ranks' GPUs (each rank needs a GPU of its own)", ExitCode::no_device);
  return OwnComm(comm);
}

class NcclCollectives final : public GpuCollectives {
 public:
  NcclCollectives(ProcessGroup& group, cudaStream_t stream)
      : group_(group), stream_(stream), beside_(first_served_stream()), computed_(make_mark()) {}

  ProcessGroup& group() const override { return group_; }

  void join() override {
    comm_ = join_all(group_);
    const Mesh& mesh = group_.mesh();
    for (const Axis axis : kAxes) {
      if (mesh.size(axis) > 1 && mesh.size(axis) != group_.size()) along_[axis] = split(axis);
    }
  }

  void require_healthy() override {
    require_healthy(comm_.get());
    for (const auto& [axis, comm] : along_) require_healthy(comm.get());
  }

  void start_all_reduce(int64_t number, Axis axis, std::span<const std::span<float>> numbers) override {
    start(number, kReducing, [&, all = along(axis)](const auto& checked) {
      for (const std::span<float>& each : numbers)
        checked(nccl().all_reduce(each.data(), each.data(), each.size(), Nccl::kFloat32, Nccl::kSum, all,
                                  beside_.get()));
    });
  }

  void start_broadcast(int64_t number, int64_t root, std::span<const std::span<float>> numbers) override {
    start(number, kBroadcasting, [&, all = along(Axis::data)](const auto& checked) {
      for (const std::span<float>& each : numbers)
        checked(nccl().broadcast(each.data(), each.data(), each.size(), Nccl::kFloat32,
                                 static_cast<int>(root), all, beside_.get()));
    });
  }

  void start_all_gather(int64_t number, Axis axis, std::span<const Gathered> tensors) override {
    start(number, kGathering, [&, all = along(axis)](const auto& checked) {
      for (const Gathered& tensor : tensors) gather(all, group_.mesh().size(axis), tensor, checked);
    });
  }

  void start_reduce_scatter(int64_t number, Axis axis, std::span<const Scattered> tensors) override {
    const int64_t ranks = group_.mesh().size(axis), self = group_.mesh().coordinate(axis, group_.rank());
    for (const Scattered& tensor : tensors) {
      const size_t here = part_within(tensor.whole, tensor.own.size(), self).size();
      const std::span<float> rest = tensor.own.subspan(here);
      if (!rest.empty()) check(cudaMemsetAsync(rest.data(), 0, rest.size_bytes(), stream_), kScattering);
    }
    start(number, kScattering, [&, all = along(axis)](const auto& checked) {
      for (const Scattered& tensor : tensors) scatter(all, ranks, tensor, checked);
    });
  }

  void start_exchange(int64_t number, std::span<const Sent> sent,
                      std::span<const Received> received) override {
    start(number, kExchanging, [&, all = along(Axis::pipeline)](const auto& checked) {
      for (const Received& each : received)
        checked(nccl().receive(each.bytes.data(), each.bytes.size(), Nccl::kInt8, static_cast<int>(each.peer),
                               all, beside_.get()));
      for (const Sent& each : sent)
        checked(nccl().send(each.bytes.data(), each.bytes.size(), Nccl::kInt8, static_cast<int>(each.peer),
                            all, beside_.get()));
    });
  }

  void wait(int64_t number) override {
    if (started_.erase(number) == 0) return;
    check(cudaStreamWaitEvent(stream_, done_.at(number).get(), 0), "waiting for the ranks' collectives");
  }

 private:
  /// Collectives that NCCL starts at once. It ends even if one of them fails: otherwise NCCL would start no
  /// other.
  class Group {
   public:
    explicit Group(const char* what) : what_(what) {
      check_nccl(nccl().group_start(), what_, ExitCode::internal);
    }
    ~Group() {
      if (!has_ended_) static_cast<void>(nccl().group_end());
    }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    void end() {
      has_ended_ = true;
      check_nccl(nccl().group_end(), what_, ExitCode::internal);
    }

   private:
    const char* what_;
    bool has_ended_ = false;
  };

  static constexpr const char* kFailing = "the ranks' collectives";
  static constexpr const char* kReducing = "adding up over the ranks";
  static constexpr const char* kBroadcasting = "broadcasting to the ranks";
  static constexpr const char* kGathering = "gathering the ranks' parts";
  static constexpr const char* kExchanging = "exchanging with other stages";
  static constexpr const char* kScattering = "adding up the ranks' parts";

  static void require_healthy(Nccl::Comm* comm) {
    Nccl::Result found = 0;
    check_nccl(nccl().get_async_error(comm, &found), kFailing, ExitCode::peer_lost);
    constexpr Nccl::Result kInProgress = 7;
    if (found != kInProgress) check_nccl(found, kFailing, ExitCode::peer_lost);
  }

  OwnComm split(Axis axis) const {
    const auto first = static_cast<int>(group_.mesh().peer(axis, group_.rank(), 0));
    Nccl::Comm* part = nullptr;
    check_nccl(nccl().split(comm_.get(), first, static_cast<int>(group_.rank()), &part, nullptr),
               "dividing the ranks' GPUs", ExitCode::no_device);
    return OwnComm(part);
  }

  static bool fills(int64_t ranks, size_t whole, size_t part) {
    return whole == part * static_cast<size_t>(ranks);
  }

  /// NCCL's own gather takes parts that fill the whole.
  template <class Checked>
  void gather(Nccl::Comm* all, int64_t ranks, const Gathered& tensor, const Checked& checked) {
    const auto [own, whole] = tensor;
    if (fills(ranks, whole.size(), own.size()))
      return checked(
          nccl().all_gather(own.data(), whole.data(), own.size(), Nccl::kInt8, all, beside_.get()));
    for (int64_t root = 0; root < ranks; ++root) {
      const std::span<std::byte> part = part_within(whole, own.size(), root);
      if (!part.empty())
        checked(nccl().broadcast(own.data(), part.data(), part.size(), Nccl::kInt8, static_cast<int>(root),
                                 all, beside_.get()));
    }
  }

  template <class Checked>
  void scatter(Nccl::Comm* all, int64_t ranks, const Scattered& tensor, const Checked& checked) {
    const auto [own, whole] = tensor;
    if (fills(ranks, whole.size(), own.size()))
      return checked(nccl().reduce_scatter(whole.data(), own.data(), own.size(), Nccl::kFloat32, Nccl::kSum,
                                           all, beside_.get()));
    for (int64_t root = 0; root < ranks; ++root) {
      const std::span<const float> part = part_within(whole, own.size(), root);
      if (!part.empty())
        checked(nccl().reduce(part.data(), own.data(), part.size(), Nccl::kFloat32, Nccl::kSum,
                              static_cast<int>(root), all, beside_.get()));
    }
  }

  Nccl::Comm* along(Axis axis) const {
    return group_.mesh().size(axis) == group_.size() ? comm_.get() : along_.at(axis).get();
  }

  /// Captured, both streams and their marks become a part of the graph. `enqueue` starts any number of
  /// collectives.
  template <class Enqueue>
  void start(int64_t number, const char* what, Enqueue enqueue) {
    check(cudaEventRecord(computed_.get(), stream_), what);
    check(cudaStreamWaitEvent(beside_.get(), computed_.get(), 0), what);
    Group group(what);
    enqueue([what](Nccl::Result status) { check_nccl(status, what, ExitCode::internal); });
    group.end();
    Event& done = done_[number];
    if (done == nullptr) done = make_mark();
    check(cudaEventRecord(done.get(), beside_.get()), what);
    started_.insert(number);
  }

  ProcessGroup& group_;
  cudaStream_t stream_;
  OwnComm comm_;
  std::map<Axis, OwnComm> along_;  ///< of those axes that are some of the ranks
  Stream beside_;                  ///< where collectives run
  Event computed_;                 ///< the numbers of the one that starts
  std::map<int64_t, Event> done_;  ///< by number
  std::set<int64_t> started_;      ///< that were not waited for
};

}  // namespace

std::unique_ptr<GpuCollectives> make_nccl_collectives(ProcessGroup& group, cudaStream_t stream) {
  return std::make_unique<NcclCollectives>(group, stream);
}

}  // namespace trainer::cuda

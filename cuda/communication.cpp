// SPDX-License-Identifier: Apache-2.0
#include "cuda/communication.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
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

/// Ends the communicator without waiting for other ranks, which may be gone.
struct AbortComm {
  void operator()(Nccl::Comm* comm) const { static_cast<void>(nccl().abort(comm)); }
};
using OwnComm = std::unique_ptr<Nccl::Comm, AbortComm>;

/// NCCL names its functions' failures by number, and says more of the last one.
void check_nccl(Nccl::Result status, const char* what, ExitCode code) {
  if (status == 0) return;
  // If another rank is gone the control connections end this process meanwhile, and name it.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const char* more = nccl().last_error(nullptr);
  throw Error(code, fmt::format("{}: NCCL {} failed with \"{}\"{}{}", what, nccl_version(nccl()),
                                nccl().error_string(status), more == nullptr || *more == '\0' ? "" : ": ",
                                more == nullptr ? "" : more));
}

OwnComm join_all(Communicator& ranks) {
  Nccl::UniqueId id{};
  if (ranks.rank() == 0)
    check_nccl(nccl().get_unique_id(&id), "the start of the ranks' sums", ExitCode::no_device);
  ranks.broadcast(id.bytes, 0);
  Nccl::Comm* comm = nullptr;
  check_nccl(nccl().init_rank(&comm, static_cast<int>(ranks.ranks()), id, static_cast<int>(ranks.rank())),
             "joining the ranks' GPUs (each rank needs a GPU of its own)", ExitCode::no_device);
  return OwnComm(comm);
}

class NcclCommunication final : public Communication {
 public:
  NcclCommunication(Communicator& ranks, cudaStream_t stream)
      : ranks_(ranks),
        stream_(stream),
        adding_(make<Stream>("making a stream", cudaStreamCreateWithFlags, unsigned{cudaStreamNonBlocking})),
        made_(make_mark()) {}

  const Communicator& ranks() const override { return ranks_; }

  void join() override { comm_ = join_all(ranks_); }

  /// Captured, both streams and their marks become a part of the graph.
  void start(int64_t sum, std::span<const std::span<float>> numbers) override {
    check(cudaEventRecord(made_.get(), stream_), kWhat);
    check(cudaStreamWaitEvent(adding_.get(), made_.get(), 0), kWhat);
    Group group;
    for (const std::span<float>& each : numbers) {
      check_nccl(nccl().all_reduce(each.data(), each.data(), each.size(), Nccl::kFloat32, Nccl::kSum,
                                   comm_.get(), adding_.get()),
                 kWhat, ExitCode::internal);
    }
    group.end();
    Event& added = added_[sum];
    if (added == nullptr) added = make_mark();
    check(cudaEventRecord(added.get(), adding_.get()), kWhat);
  }

  void finish(int64_t sum) override { check(cudaStreamWaitEvent(stream_, added_.at(sum).get(), 0), kWhat); }

 private:
  /// Sums that are begun at once; ended even where one of them fails, or NCCL would begin no other.
  class Group {
   public:
    Group() { check_nccl(nccl().group_start(), kWhat, ExitCode::internal); }
    ~Group() {
      if (!has_ended_) static_cast<void>(nccl().group_end());
    }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    void end() {
      has_ended_ = true;
      check_nccl(nccl().group_end(), kWhat, ExitCode::internal);
    }

   private:
    bool has_ended_ = false;
  };

  static constexpr const char* kWhat = "adding up over the ranks";

  Communicator& ranks_;
  cudaStream_t stream_;
  OwnComm comm_;
  Stream adding_;
  Event made_;
  std::map<int64_t, Event> added_;
};

}  // namespace

std::unique_ptr<Communication> make_nccl_communication(Communicator& ranks, cudaStream_t stream) {
  return std::make_unique<NcclCommunication>(ranks, stream);
}

}  // namespace trainer::cuda

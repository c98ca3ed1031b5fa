// SPDX-License-Identifier: Apache-2.0
#include "mpi/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/base/error.h"
#include "core/engine/collectives.h"
#include "mpi/progress_thread.h"

namespace trainer::mpi {
namespace {

/// MPI counts in int.
constexpr size_t kMaxElements = size_t{1} << 30;

std::string built_for() {
#ifdef OPEN_MPI
  return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#else
  return fmt::format("an MPI of version {}.{}", MPI_VERSION, MPI_SUBVERSION);
#endif
}

using Votes = std::array<unsigned char, 4>;

Votes bytes_of(const Vote& vote) {
  return {static_cast<unsigned char>(vote.stop), static_cast<unsigned char>(vote.save),
          static_cast<unsigned char>(vote.exchange), static_cast<unsigned char>(vote.fail)};
}

/// Calls start(part's first element, its length, its request) for parts that MPI can count, until one fails.
template <class StartPart>
int in_parts(size_t count, std::vector<MPI_Request>& requests, const StartPart& start) {
  for (size_t done = 0; done < count; done += kMaxElements) {
    const size_t part = std::min(kMaxElements, count - done);
    const int code = start(done, static_cast<int>(part), &requests.emplace_back(MPI_REQUEST_NULL));
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

/// Starts to combine numbers over all ranks, in place.
template <class T>
int iallreduce(std::span<T> data, MPI_Datatype type, MPI_Op operation, std::vector<MPI_Request>& requests) {
  return in_parts(data.size(), requests, [&](size_t first, int count, MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, data.data() + first, count, type, operation, MPI_COMM_WORLD, request);
  });
}

/// Starts to give all ranks the data of one of them, in place.
template <class T>
int ibcast(int64_t root, std::span<T> data, MPI_Datatype type, std::vector<MPI_Request>& requests) {
  return in_parts(data.size(), requests, [&](size_t first, int count, MPI_Request* request) {
    return MPI_Ibcast(data.data() + first, count, type, static_cast<int>(root), MPI_COMM_WORLD, request);
  });
}

/// Starts to add up numbers over all ranks on one of them.
int ireduce(int64_t root, std::span<const float> data, float* sum, std::vector<MPI_Request>& requests) {
  return in_parts(data.size(), requests, [&](size_t first, int count, MPI_Request* request) {
    return MPI_Ireduce(data.data() + first, sum == nullptr ? nullptr : sum + first, count, MPI_FLOAT, MPI_SUM,
                       static_cast<int>(root), MPI_COMM_WORLD, request);
  });
}

using Start = std::function<int(std::vector<MPI_Request>&)>;

/// Calls start(part, requests) for each until one fails.
template <class StartPart>
Start for_each_part(std::span<const std::span<float>> numbers, StartPart start) {
  return [start, parts = std::vector(numbers.begin(), numbers.end())](std::vector<MPI_Request>& requests) {
    int code = MPI_SUCCESS;
    for (const std::span<float>& part : parts) {
      if (code == MPI_SUCCESS) code = start(part, requests);
    }
    return code;
  };
}

class MpiProcessGroup final : public ProcessGroup, public Collectives {
 public:
  explicit MpiProcessGroup(const ProcessGroupRequest& request)
      : progress_(request.timeout, request.on_lost) {}

  const ProgressThread::Position& position() const { return progress_.position(); }
  int64_t rank() const override { return position().rank; }
  int64_t size() const override { return position().ranks; }
  Collectives* host_collectives() override { return this; }

  void vote(int64_t round, const Vote& own) override {
    Round& open = rounds_[static_cast<size_t>(round % kMaxOpenRounds)];
    open.votes = bytes_of(own);
    open.work = start(fmt::format("the votes of all ranks in round {}", round), [&open](auto& requests) {
      return iallreduce<unsigned char>(open.votes, MPI_UNSIGNED_CHAR, MPI_MAX, requests);
    });
  }

  Vote result(int64_t round) override {
    const Round& open = rounds_[static_cast<size_t>(round % kMaxOpenRounds)];
    wait(*open.work);
    return {.stop = open.votes[0] != 0,
            .save = open.votes[1] != 0,
            .exchange = open.votes[2] != 0,
            .fail = open.votes[3]};
  }

  void start_all_reduce(int64_t bucket, std::span<const std::span<float>> numbers) override {
    reduced_[bucket] = start(fmt::format("the sum of all ranks' bucket {}", bucket),
                             for_each_part(numbers, [](std::span<float> part, auto& requests) {
                               return iallreduce(part, MPI_FLOAT, MPI_SUM, requests);
                             }));
  }

  void wait_all_reduce(int64_t bucket) override { wait(*reduced_.at(bucket)); }

  void start_broadcast(int64_t root, std::span<const std::span<float>> numbers) override {
    broadcast_[root] = start(fmt::format("the new parameters of rank {}", root),
                             for_each_part(numbers, [root](std::span<float> part, auto& requests) {
                               return ibcast(root, part, MPI_FLOAT, requests);
                             }));
  }

  void wait_broadcast(int64_t root) override { wait(*broadcast_.at(root)); }

  void start_all_gather(std::span<const std::byte> own, std::span<std::byte> whole) override {
    const std::span<std::byte> here = part_within(whole, own.size(), rank());
    std::copy_n(own.begin(), here.size(), here.begin());
    gathered_ = start("the parts of all ranks", [=, part = own.size(), ranks = size()](auto& requests) {
      int code = MPI_SUCCESS;
      for (int64_t root = 0; root < ranks && code == MPI_SUCCESS; ++root)
        code = ibcast(root, part_within(whole, part, root), MPI_BYTE, requests);
      return code;
    });
  }

  void wait_all_gather() override { wait(*gathered_); }

  void start_reduce_scatter(std::span<const float> whole, std::span<float> own) override {
    const size_t here = part_within(whole, own.size(), rank()).size();
    std::ranges::fill(own.subspan(here), 0.0f);
    scattered_ = start("the sum of all ranks' parts", [=, self = rank(), ranks = size()](auto& requests) {
      int code = MPI_SUCCESS;
      for (int64_t root = 0; root < ranks && code == MPI_SUCCESS; ++root)
        code = ireduce(root, part_within(whole, own.size(), root), root == self ? own.data() : nullptr,
                       requests);
      return code;
    });
  }

  void wait_reduce_scatter() override { wait(*scattered_); }

  void all_reduce(std::span<double> numbers) override {
    wait(*start("the sum of all ranks' results",
                [numbers](auto& requests) { return iallreduce(numbers, MPI_DOUBLE, MPI_SUM, requests); }));
  }

  void shut_down() override { progress_.end(); }

  void broadcast(std::span<std::byte> bytes, int64_t root) override {
    wait(*start(fmt::format("the broadcast of rank {}", root),
                [bytes, root](auto& requests) { return ibcast(root, bytes, MPI_BYTE, requests); }));
  }

 private:
  struct Round {
    Votes votes{};
    std::shared_ptr<Work> work;
  };

  std::shared_ptr<Work> start(std::string what, Start start) {
    auto work = std::make_shared<Work>();
    work->what = std::move(what);
    work->start = std::move(start);
    progress_.put(work);
    return work;
  }

  void wait(const Work& work) {
    const Wait waits(*this);
    progress_.wait(work);
  }

  std::array<Round, kMaxOpenRounds> rounds_;
  std::map<int64_t, std::shared_ptr<Work>> reduced_, broadcast_;  ///< by bucket; by root
  std::shared_ptr<Work> gathered_, scattered_;
  ProgressThread progress_;
};

}  // namespace

std::unique_ptr<ProcessGroup> open(const ProcessGroupRequest& request) {
  auto group = std::make_unique<MpiProcessGroup>(request);
  const ProgressThread::Position& position = group->position();
  if (!position.problem.empty()) throw Error(ExitCode::no_device, "MPI does not start: " + position.problem);
  if (position.ranks != request.ranks || position.rank != request.rank) {
    throw Error(
        ExitCode::no_device,
        fmt::format("the launcher started rank {} of {}, but MPI sees rank {} of {}; start ranks on CPUs "
                    "with the mpirun of Open MPI, or under Slurm with srun --mpi=pmix (torchrun and "
                    "MPICH's mpirun do not start Open MPI)",
                    request.rank, request.ranks, position.rank, position.ranks));
  }
  return group;
}

/// "Open MPI v4.1.4, package: …"; the standard allows the call before MPI_Init.
std::string describe() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string found(text.data(), static_cast<size_t>(length));
  return fmt::format("built for {}, finds {}", built_for(), found.substr(0, found.find_first_of(",\n")));
}

}  // namespace trainer::mpi

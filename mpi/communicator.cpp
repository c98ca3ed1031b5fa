// SPDX-License-Identifier: Apache-2.0
#include "mpi/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/base/error.h"
#include "mpi/progress.h"

namespace trainer::mpi {
namespace {

/// MPI counts in int.
constexpr size_t kMostElements = size_t{1} << 30;

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
          static_cast<unsigned char>(vote.tell), static_cast<unsigned char>(vote.fail)};
}

/// Calls begin(part's first element, its length, its request) for parts that MPI can count, until one fails.
template <class Begin>
int in_parts(size_t count, std::vector<MPI_Request>& requests, const Begin& begin) {
  for (size_t done = 0; done < count; done += kMostElements) {
    const size_t part = std::min(kMostElements, count - done);
    const int code = begin(done, static_cast<int>(part), &requests.emplace_back(MPI_REQUEST_NULL));
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

/// Begins to combine numbers over all ranks, in place.
template <class T>
int start_reduce(std::span<T> data, MPI_Datatype type, MPI_Op operation, std::vector<MPI_Request>& requests) {
  return in_parts(data.size(), requests, [&](size_t first, int count, MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, data.data() + first, count, type, operation, MPI_COMM_WORLD, request);
  });
}

/// Begins to give all ranks what one of them has, in place.
template <class T>
int send_from(int64_t rank, std::span<T> data, MPI_Datatype type, std::vector<MPI_Request>& requests) {
  return in_parts(data.size(), requests, [&](size_t first, int count, MPI_Request* request) {
    return MPI_Ibcast(data.data() + first, count, type, static_cast<int>(rank), MPI_COMM_WORLD, request);
  });
}

using Start = std::function<int(std::vector<MPI_Request>&)>;

/// Calls begin(part, requests) for each until one fails.
template <class Begin>
Start for_each_part(std::span<const std::span<float>> numbers, Begin begin) {
  return [begin, parts = std::vector(numbers.begin(), numbers.end())](std::vector<MPI_Request>& requests) {
    int code = MPI_SUCCESS;
    for (const std::span<float>& part : parts) {
      if (code == MPI_SUCCESS) code = begin(part, requests);
    }
    return code;
  };
}

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(const CommunicatorRequest& request)
      : progress_(request.patience, request.on_lost) {}

  const Progress::Position& position() const { return progress_.position(); }
  int64_t rank() const override { return position().rank; }
  int64_t ranks() const override { return position().ranks; }

  void vote(int64_t round, const Vote& own) override {
    Ballot& ballot = ballots_[static_cast<size_t>(round % kMostOpenRounds)];
    ballot.votes = bytes_of(own);
    ballot.work = begin(fmt::format("the votes of all ranks in round {}", round), [&ballot](auto& requests) {
      return start_reduce<unsigned char>(ballot.votes, MPI_UNSIGNED_CHAR, MPI_MAX, requests);
    });
  }

  Vote result(int64_t round) override {
    Ballot& ballot = ballots_[static_cast<size_t>(round % kMostOpenRounds)];
    wait(*ballot.work);
    return {.stop = ballot.votes[0] != 0,
            .save = ballot.votes[1] != 0,
            .tell = ballot.votes[2] != 0,
            .fail = ballot.votes[3]};
  }

  void start_sum(int64_t sum, std::span<const std::span<float>> numbers) override {
    sums_[sum] = begin(fmt::format("the sum of all ranks' bucket {}", sum),
                       for_each_part(numbers, [](std::span<float> part, auto& requests) {
                         return start_reduce(part, MPI_FLOAT, MPI_SUM, requests);
                       }));
  }

  void finish_sum(int64_t sum) override { wait(*sums_.at(sum)); }

  void start_broadcast(int64_t from, std::span<const std::span<float>> numbers) override {
    broadcasts_[from] = begin(fmt::format("the new parameters of rank {}", from),
                              for_each_part(numbers, [from](std::span<float> part, auto& requests) {
                                return send_from(from, part, MPI_FLOAT, requests);
                              }));
  }

  void finish_broadcast(int64_t from) override { wait(*broadcasts_.at(from)); }

  void add_up(std::span<double> numbers) override {
    wait(*begin("the sum of all ranks' results",
                [numbers](auto& requests) { return start_reduce(numbers, MPI_DOUBLE, MPI_SUM, requests); }));
  }

  void end() override { progress_.end(); }

  void broadcast(std::span<std::byte> bytes, int64_t from) override {
    wait(*begin(fmt::format("what rank {} sends", from),
                [bytes, from](auto& requests) { return send_from(from, bytes, MPI_BYTE, requests); }));
  }

 private:
  struct Ballot {
    Votes votes{};
    std::shared_ptr<Work> work;
  };

  std::shared_ptr<Work> begin(std::string what, Start start) {
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

  std::array<Ballot, kMostOpenRounds> ballots_;
  std::map<int64_t, std::shared_ptr<Work>> sums_, broadcasts_;  ///< broadcasts_: by sender
  Progress progress_;
};

}  // namespace

std::unique_ptr<Communicator> open(const CommunicatorRequest& request) {
  auto communicator = std::make_unique<MpiCommunicator>(request);
  const Progress::Position& position = communicator->position();
  if (!position.problem.empty()) throw Error(ExitCode::no_device, "MPI does not start: " + position.problem);
  if (position.ranks != request.ranks || position.rank != request.rank) {
    throw Error(
        ExitCode::no_device,
        fmt::format("the launcher started rank {} of {}, but MPI sees rank {} of {}; start ranks on CPUs "
                    "with the mpirun of Open MPI, or under Slurm with srun --mpi=pmix (torchrun and "
                    "MPICH's mpirun do not start Open MPI)",
                    request.rank, request.ranks, position.rank, position.ranks));
  }
  return communicator;
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

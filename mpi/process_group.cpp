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
int iallreduce(MPI_Comm ranks, std::span<T> data, MPI_Datatype type, MPI_Op operation,
               std::vector<MPI_Request>& requests) {
  return in_parts(data.size(), requests, [&](size_t first, int count, MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, data.data() + first, count, type, operation, ranks, request);
  });
}

/// Starts to give all ranks the data of one of them, in place.
template <class T>
int ibcast(MPI_Comm ranks, int64_t root, std::span<T> data, MPI_Datatype type,
           std::vector<MPI_Request>& requests) {
  return in_parts(data.size(), requests, [&](size_t first, int count, MPI_Request* request) {
    return MPI_Ibcast(data.data() + first, count, type, static_cast<int>(root), ranks, request);
  });
}

/// Starts to add up numbers over all ranks on one of them.
int ireduce(MPI_Comm ranks, int64_t root, std::span<const float> data, float* sum,
            std::vector<MPI_Request>& requests) {
  return in_parts(data.size(), requests, [&](size_t first, int count, MPI_Request* request) {
    return MPI_Ireduce(data.data() + first, sum == nullptr ? nullptr : sum + first, count, MPI_FLOAT, MPI_SUM,
                       static_cast<int>(root), ranks, request);
  });
}

/// Starts to give all ranks the whole, of which each has its own part in place.
int gather(MPI_Comm all, int64_t ranks, const Gathered& tensor, std::vector<MPI_Request>& requests) {
  int code = MPI_SUCCESS;
  for (int64_t root = 0; root < ranks && code == MPI_SUCCESS; ++root)
    code = ibcast(all, root, part_within(tensor.whole, tensor.own.size(), root), MPI_BYTE, requests);
  return code;
}

int scatter(MPI_Comm all, int64_t ranks, int64_t self, const Scattered& tensor,
            std::vector<MPI_Request>& requests) {
  int code = MPI_SUCCESS;
  for (int64_t root = 0; root < ranks && code == MPI_SUCCESS; ++root)
    code = ireduce(all, root, part_within(tensor.whole, tensor.own.size(), root),
                   root == self ? tensor.own.data() : nullptr, requests);
  return code;
}

int irecv(MPI_Comm ranks, const Received& message, std::vector<MPI_Request>& requests) {
  return in_parts(message.bytes.size(), requests, [&](size_t first, int count, MPI_Request* request) {
    return MPI_Irecv(message.bytes.data() + first, count, MPI_BYTE, static_cast<int>(message.peer),
                     static_cast<int>(message.number), ranks, request);
  });
}

int isend(MPI_Comm ranks, const Sent& message, std::vector<MPI_Request>& requests) {
  return in_parts(message.bytes.size(), requests, [&](size_t first, int count, MPI_Request* request) {
    return MPI_Isend(message.bytes.data() + first, count, MPI_BYTE, static_cast<int>(message.peer),
                     static_cast<int>(message.number), ranks, request);
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
  explicit MpiProcessGroup(const ProcessGroupRequest& request) : progress_(request.timeout, request.on_lost) {
    ProcessGroup::arrange({.replicas = size()});
  }

  const ProgressThread::Position& position() const { return progress_.position(); }
  int64_t rank() const override { return position().rank; }
  int64_t size() const override { return position().ranks; }
  Collectives* host_collectives() override { return this; }

  void vote(int64_t round, const Vote& own) override {
    Round& open = rounds_[static_cast<size_t>(round % kMaxOpenRounds)];
    open.votes = bytes_of(own);
    open.work = start(fmt::format("the votes of all ranks in round {}", round), [&open](auto& requests) {
      return iallreduce<unsigned char>(MPI_COMM_WORLD, open.votes, MPI_UNSIGNED_CHAR, MPI_MAX, requests);
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

  void arrange(const Mesh& mesh) override {
    if (mesh == this->mesh()) return;
    ProcessGroup::arrange(mesh);
    for (const Axis axis : kAxes) {
      if (mesh.size(axis) == 1 || mesh.size(axis) == size()) continue;
      MPI_Comm& part = communicators_[axis];
      const int64_t first = mesh.peer(axis, rank(), 0);
      progress_.call("the division of the ranks", [&part, first, self = position().rank] {
        const int code = MPI_Comm_split(MPI_COMM_WORLD, static_cast<int>(first), self, &part);
        if (code == MPI_SUCCESS) MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN);
        return code;
      });
    }
  }

  void start_all_reduce(int64_t number, Axis axis, std::span<const std::span<float>> numbers) override {
    works_[number] = start(fmt::format("the sum of all ranks' bucket {}", number),
                           for_each_part(numbers, [all = along(axis)](std::span<float> part, auto& requests) {
                             return iallreduce(all, part, MPI_FLOAT, MPI_SUM, requests);
                           }));
  }

  void start_broadcast(int64_t number, int64_t root, std::span<const std::span<float>> numbers) override {
    works_[number] =
        start(fmt::format("the new parameters of rank {}", root),
              for_each_part(numbers, [root, all = along(Axis::data)](std::span<float> part, auto& requests) {
                return ibcast(all, root, part, MPI_FLOAT, requests);
              }));
  }

  void start_all_gather(int64_t number, Axis axis, std::span<const Gathered> tensors) override {
    const int64_t ranks = mesh().size(axis), self = mesh().coordinate(axis, rank());
    for (const Gathered& tensor : tensors) {
      const std::span<std::byte> here = part_within(tensor.whole, tensor.own.size(), self);
      std::copy_n(tensor.own.begin(), here.size(), here.begin());
    }
    works_[number] = start(fmt::format("the parts of bucket {}", number),
                           [ranks, all = along(axis), copies = std::vector(tensors.begin(), tensors.end())](
                               std::vector<MPI_Request>& requests) {
                             for (const Gathered& tensor : copies) {
                               const int code = gather(all, ranks, tensor, requests);
                               if (code != MPI_SUCCESS) return code;
                             }
                             return MPI_SUCCESS;
                           });
  }

  void start_reduce_scatter(int64_t number, Axis axis, std::span<const Scattered> tensors) override {
    const int64_t ranks = mesh().size(axis), self = mesh().coordinate(axis, rank());
    for (const Scattered& tensor : tensors) {
      const size_t here = part_within(tensor.whole, tensor.own.size(), self).size();
      std::ranges::fill(tensor.own.subspan(here), 0.0f);
    }
    works_[number] =
        start(fmt::format("the sums of bucket {}", number),
              [ranks, self, all = along(axis),
               copies = std::vector(tensors.begin(), tensors.end())](std::vector<MPI_Request>& requests) {
                for (const Scattered& tensor : copies) {
                  const int code = scatter(all, ranks, self, tensor, requests);
                  if (code != MPI_SUCCESS) return code;
                }
                return MPI_SUCCESS;
              });
  }

  void start_exchange(int64_t number, std::span<const Sent> sent,
                      std::span<const Received> received) override {
    works_[number] =
        start(fmt::format("the messages of exchange {}", number),
              [all = along(Axis::pipeline), out = std::vector(sent.begin(), sent.end()),
               in = std::vector(received.begin(), received.end())](std::vector<MPI_Request>& requests) {
                for (const Received& each : in) {
                  const int code = irecv(all, each, requests);
                  if (code != MPI_SUCCESS) return code;
                }
                for (const Sent& each : out) {
                  const int code = isend(all, each, requests);
                  if (code != MPI_SUCCESS) return code;
                }
                return MPI_SUCCESS;
              });
  }

  void wait(int64_t number) override {
    const auto found = works_.find(number);
    if (found == works_.end()) return;
    wait(*found->second);
    works_.erase(found);
  }

  void all_reduce(std::span<double> numbers) override {
    wait(*start("the sum of all ranks' results", [numbers](auto& requests) {
      return iallreduce(MPI_COMM_WORLD, numbers, MPI_DOUBLE, MPI_SUM, requests);
    }));
  }

  void shut_down() override { progress_.end(); }

  void broadcast(std::span<std::byte> bytes, int64_t root) override {
    wait(*start(fmt::format("the broadcast of rank {}", root), [bytes, root](auto& requests) {
      return ibcast(MPI_COMM_WORLD, root, bytes, MPI_BYTE, requests);
    }));
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

  MPI_Comm along(Axis axis) const {
    if (mesh().size(axis) == 1) return MPI_COMM_SELF;
    return mesh().size(axis) == size() ? MPI_COMM_WORLD : communicators_.at(axis);
  }

  std::array<Round, kMaxOpenRounds> rounds_;
  std::map<int64_t, std::shared_ptr<Work>> works_;  ///< by number
  std::map<Axis, MPI_Comm> communicators_;          ///< of those axes that are some of the ranks
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

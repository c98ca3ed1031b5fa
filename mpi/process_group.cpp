// SPDX-License-Identifier: Apache-2.0
#include "mpi/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <sstream>

#include "core/base/error.h"
#include "core/engine/collectives.h"
#include "mpi/progress_thread.h"

namespace trainer::mpi {
namespace {

/// MPI counts in int, and copies what it adds up.
constexpr size_t kMaxBytes = size_t{1} << 30, kBytesInTurn = size_t{1} << 20;

using Votes = std::array<unsigned char, 4>;

Votes bytes_of(const Vote& vote) {
  return {static_cast<unsigned char>(vote.stop), static_cast<unsigned char>(vote.save),
          static_cast<unsigned char>(vote.exchange), static_cast<unsigned char>(vote.fail)};
}

/// Adds pieces that call start(first element, number of elements, request), of at most so many bytes each.
template <class T, class Start>
void add_pieces(std::vector<Piece>& pieces, std::span<T> data, size_t most_bytes, const Start& start) {
  const size_t most = most_bytes / sizeof(T);
  for (size_t done = 0; done < data.size(); done += most) {
    const auto part = data.subspan(done, std::min(most, data.size() - done));
    pieces.push_back({.start =
                          [part, start, done](MPI_Request* request) {
                            return start(part.data(), static_cast<int>(part.size()), done, request);
                          },
                      .bytes = static_cast<int64_t>(part.size_bytes())});
  }
}

/// Combine numbers over all ranks, in place.
template <class T>
void add_all_reduce(std::vector<Piece>& pieces, MPI_Comm ranks, std::span<T> data, MPI_Datatype type,
                    MPI_Op operation, size_t most_bytes) {
  add_pieces(pieces, data, most_bytes, [=](T* part, int count, size_t, MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, part, count, type, operation, ranks, request);
  });
}

/// Give all ranks the data of one of them, in place.
template <class T>
void add_broadcast(std::vector<Piece>& pieces, MPI_Comm ranks, int64_t root, std::span<T> data,
                   MPI_Datatype type, size_t most_bytes) {
  add_pieces(pieces, data, most_bytes, [=](T* part, int count, size_t, MPI_Request* request) {
    return MPI_Ibcast(part, count, type, static_cast<int>(root), ranks, request);
  });
}

/// Add up numbers over all ranks on one of them.
void add_reduce(std::vector<Piece>& pieces, MPI_Comm ranks, int64_t root, std::span<const float> data,
                float* sum) {
  add_pieces(pieces, data, kBytesInTurn,
             [=](const float* part, int count, size_t first, MPI_Request* request) {
               return MPI_Ireduce(part, sum == nullptr ? nullptr : sum + first, count, MPI_FLOAT, MPI_SUM,
                                  static_cast<int>(root), ranks, request);
             });
}

class MpiProcessGroup final : public ProcessGroup, public Collectives {
 public:
  explicit MpiProcessGroup(const ProcessGroupRequest& request) : progress_(request.timeout, request.on_lost) {
    ProcessGroup::arrange({.replicas = size()});
    if (position().problem.empty()) divide(all_, 0);
  }

  const ProgressThread::Position& position() const { return progress_.position(); }
  int64_t rank() const override { return position().rank; }
  int64_t size() const override { return position().ranks; }
  Collectives* host_collectives() override { return this; }

  void vote(int64_t round, const Vote& own) override {
    Round& open = rounds_[static_cast<size_t>(round % kMaxOpenRounds)];
    open.votes = bytes_of(own);
    std::vector<Piece> pieces;
    add_all_reduce(pieces, MPI_COMM_WORLD, std::span<unsigned char>(open.votes), MPI_UNSIGNED_CHAR, MPI_MAX,
                   kMaxBytes);
    open.work = start(fmt::format("the votes of all ranks in round {}", round), std::move(pieces));
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
      divide(part, mesh.peer(axis, rank(), 0));
    }
  }

  void start_all_reduce(int64_t number, Axis axis, std::span<const std::span<float>> numbers) override {
    std::vector<Piece> pieces;
    for (const std::span<float> part : numbers)
      add_all_reduce(pieces, along(axis), part, MPI_FLOAT, MPI_SUM, kBytesInTurn);
    works_[number] =
        start(fmt::format("the sum of all ranks' bucket {}", number), std::move(pieces), queue_of(axis));
  }

  void start_broadcast(int64_t number, int64_t root, std::span<const std::span<float>> numbers) override {
    std::vector<Piece> pieces;
    for (const std::span<float> part : numbers)
      add_broadcast(pieces, along(Axis::data), root, part, MPI_FLOAT, kBytesInTurn);
    works_[number] =
        start(fmt::format("the new parameters of rank {}", root), std::move(pieces), queue_of(Axis::data));
  }

  /// Gives all ranks the whole, of which each has its own part in place.
  void start_all_gather(int64_t number, Axis axis, std::span<const Gathered> tensors) override {
    const int64_t ranks = mesh().size(axis), self = mesh().coordinate(axis, rank());
    std::vector<Piece> pieces;
    for (const Gathered& tensor : tensors) {
      const std::span<std::byte> here = part_within(tensor.whole, tensor.own.size(), self);
      std::copy_n(tensor.own.begin(), here.size(), here.begin());
      for (int64_t root = 0; root < ranks; ++root)
        add_broadcast(pieces, along(axis), root, part_within(tensor.whole, tensor.own.size(), root), MPI_BYTE,
                      kBytesInTurn);
    }
    works_[number] = start(fmt::format("the parts of bucket {}", number), std::move(pieces), queue_of(axis));
  }

  void start_reduce_scatter(int64_t number, Axis axis, std::span<const Scattered> tensors) override {
    const int64_t ranks = mesh().size(axis), self = mesh().coordinate(axis, rank());
    std::vector<Piece> pieces;
    for (const Scattered& tensor : tensors) {
      const size_t here = part_within(tensor.whole, tensor.own.size(), self).size();
      std::ranges::fill(tensor.own.subspan(here), 0.0f);
      for (int64_t root = 0; root < ranks; ++root)
        add_reduce(pieces, along(axis), root, part_within(tensor.whole, tensor.own.size(), root),
                   root == self ? tensor.own.data() : nullptr);
    }
    works_[number] = start(fmt::format("the sums of bucket {}", number), std::move(pieces), queue_of(axis));
  }

  void start_exchange(int64_t number, std::span<const Sent> sent,
                      std::span<const Received> received) override {
    std::vector<Piece> pieces;
    const MPI_Comm all = along(Axis::pipeline);
    for (const Received& each : received)
      add_pieces(pieces, each.bytes, kMaxBytes,
                 [=](std::byte* part, int count, size_t, MPI_Request* request) {
                   return MPI_Irecv(part, count, MPI_BYTE, static_cast<int>(each.peer),
                                    static_cast<int>(each.number), all, request);
                 });
    for (const Sent& each : sent)
      add_pieces(pieces, each.bytes, kMaxBytes,
                 [=](const std::byte* part, int count, size_t, MPI_Request* request) {
                   return MPI_Isend(part, count, MPI_BYTE, static_cast<int>(each.peer),
                                    static_cast<int>(each.number), all, request);
                 });
    works_[number] = start(fmt::format("the messages of exchange {}", number), std::move(pieces));
  }

  void wait(int64_t number) override {
    const auto found = works_.find(number);
    if (found == works_.end()) return;
    wait(*found->second);
    works_.erase(found);
  }

  void all_reduce(std::span<double> numbers) override {
    std::vector<Piece> pieces;
    add_all_reduce(pieces, MPI_COMM_WORLD, numbers, MPI_DOUBLE, MPI_SUM, kMaxBytes);
    wait(*start("the sum of all ranks' results", std::move(pieces)));
  }

  void shut_down() override { progress_.end(); }

  void broadcast(std::span<std::byte> bytes, int64_t root) override {
    std::vector<Piece> pieces;
    add_broadcast(pieces, MPI_COMM_WORLD, root, bytes, MPI_BYTE, kMaxBytes);
    wait(*start(fmt::format("the broadcast of rank {}", root), std::move(pieces)));
  }

 private:
  struct Round {
    Votes votes{};
    std::shared_ptr<Work> work;
  };

  /// A communicator of the ranks of the same color.
  void divide(MPI_Comm& part, int64_t color) {
    progress_.call("the division of the ranks", [&part, color, self = position().rank] {
      const int code = MPI_Comm_split(MPI_COMM_WORLD, static_cast<int>(color), self, &part);
      if (code == MPI_SUCCESS) MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN);
      return code;
    });
  }

  std::shared_ptr<Work> start(std::string what, std::vector<Piece> pieces, std::optional<int> queue = {}) {
    auto work = std::make_shared<Work>();
    work->what = std::move(what);
    work->pieces = std::move(pieces);
    work->queue = queue;
    progress_.put(work);
    return work;
  }

  void wait(const Work& work) {
    const Wait waits(*this);
    progress_.wait(work);
  }

  /// Axes of all ranks have one communicator, and so one queue.
  int queue_of(Axis axis) const { return mesh().size(axis) == size() ? -1 : static_cast<int>(axis); }

  MPI_Comm along(Axis axis) const {
    if (mesh().size(axis) == 1) return MPI_COMM_SELF;
    return mesh().size(axis) == size() ? all_ : communicators_.at(axis);
  }

  std::array<Round, kMaxOpenRounds> rounds_;
  std::map<int64_t, std::shared_ptr<Work>> works_;  ///< by number
  MPI_Comm all_ = MPI_COMM_NULL;                    ///< for steps; votes are apart from them
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
        fmt::format("the launcher started rank {} of {}, but {} sees rank {} of {}: it does not belong to "
                    "that launcher; start ranks on CPUs with the mpirun or mpiexec of this MPI, or with srun "
                    "and a --mpi of `srun --mpi=list` that it knows (torchrun starts ranks on GPUs only)",
                    request.rank, request.ranks, describe(), position.rank, position.ranks));
  }
  return group;
}

/// Of "Open MPI v4.1.4, package: …", "MPICH Version:      4.0.2\n…" and "Intel(R) MPI Library 2021.19 for
/// Linux* OS\n": "Open MPI v4.1.4", "MPICH 4.0.2" and all of the last. The standard allows the call before
/// MPI_Init.
std::string describe() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string found(text.data(), static_cast<size_t>(length));
  std::istringstream words(found.substr(0, found.find_first_of(",\n")));
  std::string line;
  for (std::string word; words >> word;) {
    if (word != "Version:") line += (line.empty() ? "" : " ") + word;
  }
  return line;
}

}  // namespace trainer::mpi

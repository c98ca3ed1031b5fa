// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/rank_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/engine/group_operations.h"

namespace trainer {
namespace {

/// An answer of another rank.
constexpr size_t kPiece = size_t{1} << 20;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void fail_to_keep() {
  throw Error(ExitCode::io,
              fmt::format("what this rank has to write cannot be kept in a temporary file: {}; make "
                          "room in the folder for temporary files",
                          std::strerror(errno)));
}

/// The bytes of a rank until rank 0 asks for them.
class Kept {
 public:
  Kept() : file_(std::tmpfile()) {
    if (file_ == nullptr) fail_to_keep();
  }
  void add(std::span<const std::byte> bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail_to_keep();
  }
  void rewind() {
    if (std::fflush(file_.get()) != 0) fail_to_keep();
    std::rewind(file_.get());
  }
  /// "" at the end.
  std::string next() {
    std::string piece(kPiece, '\0');
    piece.resize(std::fread(piece.data(), 1, piece.size(), file_.get()));
    if (std::ferror(file_.get()) != 0) fail_to_keep();
    return piece;
  }

 private:
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace

int run_as_rank(const Membership& membership, const std::function<int()>& work) try {
  return work();
} catch (const std::exception& problem) {
  membership.leave_with(problem);
  throw;
}

void write_in_order(const Membership& membership, const ByteSink& sink,
                    const std::function<void(const ByteSink&)>& produce) {
  if (!membership.has_peers()) return produce(sink);
  ProcessGroup& group = membership.group();
  if (!membership.is_rank_0()) {
    const auto kept = std::make_shared<Kept>();
    run_on_all(group, [&] {
      produce([&](std::span<const std::byte> bytes) {
        kept->add(bytes);
        group.note_progress();
      });
      kept->rewind();
    });
    membership.answer_with([&membership, kept](const std::string&) {
      try {
        return kept->next();
      } catch (const Error& problem) {
        membership.leave_with(problem);
        throw;
      }
    });
    barrier(group);  // it can be asked
    barrier(group);  // all has been asked for
    return;
  }
  run_on_all(group, [&] {
    produce([&](std::span<const std::byte> bytes) {
      sink(bytes);
      group.note_progress();
    });
  });
  barrier(group);
  for (int64_t rank = 1; rank < group.size(); ++rank) {
    for (std::string piece = membership.ask(rank, "next"); !piece.empty();
         piece = membership.ask(rank, "next"))
      sink(std::as_bytes(std::span(piece)));
  }
  barrier(group);
}

int64_t sum_over_ranks(const Membership& membership, int64_t number) {
  std::array<double, 1> sum = {static_cast<double>(number)};
  membership.group().all_reduce(sum);
  return static_cast<int64_t>(sum[0]);
}

void require_alone(const Membership& membership, const std::string& what) {
  if (!membership.has_peers()) return;
  throw Error(ExitCode::usage,
              fmt::format("{} is done by one process, and a launcher has started {}; start it "
                          "without the launcher",
                          what, membership.group().size()));
}

}  // namespace trainer

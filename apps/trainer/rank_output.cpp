// SPDX-License-Identifier: Apache-2.0
#include "apps/trainer/rank_output.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>

#include "core/base/error.h"

namespace trainer {
namespace {

/// An answer of another rank.
constexpr size_t kPiece = size_t{1} << 20;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string folder_of_kept() {
  std::error_code none;
  return std::filesystem::temp_directory_path(none).string();
}

[[noreturn]] void fail_to_keep() {
  throw Error(
      ExitCode::io,
      fmt::format("what this rank has to write cannot be kept in {}: {}; make room there, or set TMPDIR",
                  folder_of_kept(), std::strerror(errno)));
}

/// The bytes of a rank until rank 0 asks for them, in a file without a name.
class Kept {
 public:
  Kept() : file_(open()) {
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
  static std::FILE* open() {
    const int file = ::open(folder_of_kept().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    // Some file systems have no files without a name.
    if (file < 0) return errno == EOPNOTSUPP || errno == EISDIR ? std::tmpfile() : nullptr;
    return ::fdopen(file, "w+");
  }

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
  const auto pass_on = [&](const ByteSink& next) {
    produce([&](std::span<const std::byte> bytes) {
      next(bytes);
      group.note_progress();
    });
  };
  if (!membership.is_rank_0()) {
    const auto kept = std::make_shared<Kept>();
    pass_on([&](std::span<const std::byte> bytes) { kept->add(bytes); });
    kept->rewind();
    // An exception ends this rank, and the others learn of it.
    membership.answer_with([kept](const std::string&) { return kept->next(); });
    membership.await_all();  // it can be asked
    membership.await_all();  // all has been asked for
    return;
  }
  pass_on(sink);
  membership.await_all();
  for (int64_t rank = 1; rank < group.size(); ++rank) {
    for (std::string piece = membership.ask(rank, "next"); !piece.empty();
         piece = membership.ask(rank, "next"))
      sink(std::as_bytes(std::span(piece)));
  }
  membership.await_all();
}

int64_t sum_over_ranks(const Membership& membership, int64_t number) {
  std::array<double, 1> sum = {static_cast<double>(number)};
  membership.group().all_reduce(sum);
  return static_cast<int64_t>(sum[0]);
}

}  // namespace trainer

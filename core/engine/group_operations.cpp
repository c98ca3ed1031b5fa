// SPDX-License-Identifier: Apache-2.0
#include "core/engine/group_operations.h"

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <vector>

#include "core/base/error.h"

namespace trainer {

int64_t position_along(const ProcessGroup* group, const std::optional<Along>& along) {
  if (!along) return 0;
  if (group == nullptr || group->mesh().size(along->axis) != along->ranks)
    throw std::logic_error("a program for other ranks than these");
  return group->mesh().coordinate(along->axis, group->rank());
}

namespace {

/// The numbers of all ranks, by rank.
std::vector<double> numbers_of_all(ProcessGroup& group, double own) {
  std::vector<double> numbers(static_cast<size_t>(group.size()), 0);
  numbers[static_cast<size_t>(group.rank())] = own;
  group.all_reduce(numbers);
  return numbers;
}

}  // namespace

void broadcast_text(ProcessGroup& group, std::string& text, int64_t from) {
  uint64_t size = text.size();
  group.broadcast(std::as_writable_bytes(std::span(&size, 1)), from);
  text.resize(size);
  group.broadcast(std::as_writable_bytes(std::span(text.data(), text.size())), from);
}

void run_on_all(ProcessGroup& group, const std::function<void()>& work) {
  std::exception_ptr failure;
  ExitCode code = ExitCode::done;
  try {
    work();
  } catch (const std::exception& problem) {
    failure = std::current_exception();
    code = failure_of(problem).code;
  }
  const std::vector<double> codes = numbers_of_all(group, static_cast<double>(code));
  if (failure != nullptr) std::rethrow_exception(failure);
  for (size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank] == 0) continue;
    throw PeerError(static_cast<ExitCode>(static_cast<int>(codes[rank])),
                    fmt::format("rank {} cannot go on; its own message says why", rank));
  }
}

void barrier(ProcessGroup& group) {
  run_on_all(group, [] {});
}

std::string broadcast_from_rank_0(ProcessGroup& group, const std::function<std::string()>& make) {
  std::string text;
  run_on_all(group, [&] {
    if (group.rank() == 0) text = make();
  });
  broadcast_text(group, text, 0);
  return text;
}

std::vector<std::string> all_gather(ProcessGroup& group, const std::string& own) {
  std::vector<std::string> texts(static_cast<size_t>(group.size()));
  texts[static_cast<size_t>(group.rank())] = own;
  for (size_t rank = 0; rank < texts.size(); ++rank)
    broadcast_text(group, texts[rank], static_cast<int64_t>(rank));
  return texts;
}

std::optional<RankText> first_text(ProcessGroup& group, const std::optional<std::string>& own) {
  const std::vector<double> has = numbers_of_all(group, own ? 1 : 0);
  for (size_t rank = 0; rank < has.size(); ++rank) {
    if (has[rank] == 0) continue;
    RankText found{static_cast<int64_t>(rank), own.value_or("")};
    broadcast_text(group, found.text, found.rank);
    return found;
  }
  return std::nullopt;
}

}  // namespace trainer

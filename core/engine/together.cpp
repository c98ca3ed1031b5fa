// SPDX-License-Identifier: Apache-2.0
#include "core/engine/together.h"

#include <fmt/format.h>

#include <exception>
#include <vector>

#include "core/base/error.h"

namespace trainer {
namespace {

/// Gives all the text of one rank.
void share(Communicator& ranks, std::string& text, int64_t from) {
  uint64_t size = text.size();
  ranks.broadcast(std::as_writable_bytes(std::span(&size, 1)), from);
  text.resize(size);
  ranks.broadcast(std::as_writable_bytes(std::span(text.data(), text.size())), from);
}

/// The number of every rank.
std::vector<double> numbers_of_all(Communicator& ranks, double own) {
  std::vector<double> numbers(static_cast<size_t>(ranks.ranks()), 0);
  numbers[static_cast<size_t>(ranks.rank())] = own;
  ranks.add_up(numbers);
  return numbers;
}

}  // namespace

void together(Communicator& ranks, const std::function<void()>& work) {
  std::exception_ptr failure;
  ExitCode code = ExitCode::done;
  try {
    work();
  } catch (const std::exception& problem) {
    failure = std::current_exception();
    code = failure_of(problem).code;
  }
  const std::vector<double> codes = numbers_of_all(ranks, static_cast<double>(code));
  if (failure != nullptr) std::rethrow_exception(failure);
  for (size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank] == 0) continue;
    throw PeerError(static_cast<ExitCode>(static_cast<int>(codes[rank])),
                    fmt::format("rank {} cannot go on; its own message says why", rank));
  }
}

std::string from_first(Communicator& ranks, const std::function<std::string()>& make) {
  std::string text;
  together(ranks, [&] {
    if (ranks.rank() == 0) text = make();
  });
  share(ranks, text, 0);
  return text;
}

std::vector<std::string> texts_of_all(Communicator& ranks, const std::string& own) {
  std::vector<std::string> texts(static_cast<size_t>(ranks.ranks()));
  texts[static_cast<size_t>(ranks.rank())] = own;
  for (size_t rank = 0; rank < texts.size(); ++rank) share(ranks, texts[rank], static_cast<int64_t>(rank));
  return texts;
}

std::optional<RankText> first_text(Communicator& ranks, const std::optional<std::string>& own) {
  const std::vector<double> has = numbers_of_all(ranks, own ? 1 : 0);
  for (size_t rank = 0; rank < has.size(); ++rank) {
    if (has[rank] == 0) continue;
    RankText found{static_cast<int64_t>(rank), own.value_or("")};
    share(ranks, found.text, found.rank);
    return found;
  }
  return std::nullopt;
}

}  // namespace trainer

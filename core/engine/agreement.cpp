// SPDX-License-Identifier: Apache-2.0
#include "core/engine/agreement.h"

#include <stdexcept>
#include <utility>

#include "core/base/error.h"

namespace trainer {

void Agreement::vote() {
  if (voted_ - answered_ == ProcessGroup::kMaxOpenRounds)
    throw std::logic_error("too many rounds without a result");
  Vote own = wish_();
  own.fail = code_;
  group_.vote(voted_++, own);
}

Vote Agreement::result() {
  if (answered_ == voted_) throw std::logic_error("no round is without a result");
  const Vote all = group_.result(answered_++);
  if (all.fail == 0) return all;
  if (error_ != nullptr) std::rethrow_exception(error_);
  throw PeerError(static_cast<ExitCode>(all.fail), "another rank has failed; its own message says why");
}

void Agreement::fail(const std::exception_ptr& error) {
  if (is_alone()) std::rethrow_exception(error);
  if (error_ != nullptr) return;
  error_ = error;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& problem) {
    code_ = static_cast<int>(failure_of(problem).code);
  }
}

}  // namespace trainer

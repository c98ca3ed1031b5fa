// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/ranks/frames.h"
#include "core/ranks/secret.h"

namespace trainer {

// How a rank joins rank 0: each side sends random bytes, and gets back a proof that the other one has made of
// them with the secret, which itself does not travel.

/// Who asks to join, and why it may not.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Rank 0's side of one connection.
class Doorman {
 public:
  Doorman(const Secret& secret, int64_t ranks) : secret_(secret), ranks_(ranks), nonce_(random_bytes()) {}

  /// The first frame of the connection.
  std::string hello() const;

  struct Guest {
    int64_t rank;
    std::string host;
    std::string nonce;
  };
  /// Throws Refused with what to tell the rank, and BadFrame if no rank has sent that.
  Guest admit(const Frame& join) const;
  /// The answer to a guest; `host` is that of rank 0.
  std::string welcome(const Guest& guest, const std::string& host) const;

 private:
  Secret secret_;
  int64_t ranks_;
  Secret nonce_;
};

/// Another rank's side.
class Visitor {
 public:
  Visitor(const Secret& secret, int64_t rank, int64_t ranks, std::string host)
      : secret_(secret), rank_(rank), ranks_(ranks), host_(std::move(host)), nonce_(random_bytes()) {}

  /// The answer to rank 0's hello. Throws BadFrame if that is none, and Refused if it is another
  /// release's.
  std::string join(const Frame& hello);
  /// The host of rank 0. Throws Refused if it is not the rank 0 of this run, or does not want this rank.
  std::string enter(const Frame& answer) const;

 private:
  Secret secret_;
  int64_t rank_, ranks_;
  std::string host_;
  Secret nonce_;
  std::string first_nonce_;
};

}  // namespace trainer

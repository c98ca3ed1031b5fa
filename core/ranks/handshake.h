// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/ranks/frames.h"
#include "core/ranks/secret.h"

namespace trainer {

// How a rank joins rank 0: each side sends random bytes, and the other proves with them that it knows the
// secret. The secret itself is never sent.

/// A rank may not join, and why.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Rank 0's side of one connection.
class HandshakeServer {
 public:
  HandshakeServer(const Secret& secret, int64_t ranks)
      : secret_(secret), ranks_(ranks), nonce_(random_bytes()) {}

  /// The first frame of the connection.
  std::string hello() const;

  struct Applicant {
    int64_t rank;
    std::string host;
    std::string nonce;
  };
  /// Throws Refused with the reason for the rank, and BadFrame if no rank has sent that.
  Applicant admit(const Frame& join) const;
  /// The answer to an applicant. `host` is that of rank 0.
  std::string welcome(const Applicant& applicant, const std::string& host) const;

 private:
  Secret secret_;
  int64_t ranks_;
  Secret nonce_;
};

/// Another rank's side.
class HandshakeClient {
 public:
  HandshakeClient(const Secret& secret, int64_t rank, int64_t ranks, std::string host)
      : secret_(secret), rank_(rank), ranks_(ranks), host_(std::move(host)), nonce_(random_bytes()) {}

  /// The answer to rank 0's hello. Throws BadFrame if it is none, and Refused if it comes from another
  /// release.
  std::string join(const Frame& hello);
  /// The host of rank 0. Throws Refused if it is not the rank 0 of this run, or if it refuses this rank.
  std::string check_welcome(const Frame& answer) const;

 private:
  Secret secret_;
  int64_t rank_, ranks_;
  std::string host_;
  Secret nonce_;
  std::string first_nonce_;
};

}  // namespace trainer

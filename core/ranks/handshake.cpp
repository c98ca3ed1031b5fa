// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/handshake.h"

#include <fmt/format.h>

namespace trainer {
namespace {

constexpr std::string_view kGreeting = "trainer ranks 1";
constexpr size_t kNonceBytes = 16;
constexpr size_t kMostOfHost = 255;

std::string text_of(const Secret& nonce) {
  return {nonce.begin(), nonce.end()};
}

uint64_t proof_of_joining(const Secret& secret, const std::string& first_nonce, const std::string& nonce,
                          int64_t rank, int64_t ranks, const std::string& host) {
  return proof(secret, fmt::format("join {} {} {}{}{}", rank, ranks, first_nonce, nonce, host));
}

uint64_t proof_of_welcome(const Secret& secret, const std::string& nonce, const std::string& host) {
  return proof(secret, fmt::format("welcome {}{}", nonce, host));
}

}  // namespace

std::string Doorman::hello() const {
  return encode(FrameKind::hello, BodyWriter().text(kGreeting).text(text_of(nonce_)).take());
}

Doorman::Guest Doorman::admit(const Frame& join) const {
  if (join.kind != FrameKind::join) throw BadFrame("a frame before the connection has joined");
  BodyReader body(join.body);
  const uint64_t rank = body.number(), ranks = body.number();
  Guest guest{.rank = static_cast<int64_t>(rank), .host = body.text(), .nonce = body.text()};
  const uint64_t proven = body.number();
  body.end();
  if (guest.host.size() > kMostOfHost || guest.nonce.size() != kNonceBytes)
    throw BadFrame("a request to join that no rank sends");
  if (proven != proof_of_joining(secret_, text_of(nonce_), guest.nonce, guest.rank,
                                 static_cast<int64_t>(ranks), guest.host))
    throw Refused("it has another secret: set the same TRAINER_SECRET for all ranks, or for none");
  if (ranks != static_cast<uint64_t>(ranks_))
    throw Refused(fmt::format("it was started with {} ranks, this one with {}", ranks_, ranks));
  if (rank == 0 || rank >= ranks) throw Refused(fmt::format("there is no place for a rank {}", rank));
  return guest;
}

std::string Doorman::welcome(const Guest& guest, const std::string& host) const {
  return encode(FrameKind::welcome,
                BodyWriter().text(host).number(proof_of_welcome(secret_, guest.nonce, host)).take());
}

std::string Visitor::join(const Frame& hello) {
  if (hello.kind != FrameKind::hello) throw BadFrame("no greeting of a rank 0");
  BodyReader body(hello.body);
  if (body.text() != kGreeting) throw BadFrame("no greeting of a rank 0 of this release");
  first_nonce_ = body.text();
  body.end();
  const std::string nonce = text_of(nonce_);
  return encode(FrameKind::join,
                BodyWriter()
                    .number(static_cast<uint64_t>(rank_))
                    .number(static_cast<uint64_t>(ranks_))
                    .text(host_)
                    .text(nonce)
                    .number(proof_of_joining(secret_, first_nonce_, nonce, rank_, ranks_, host_))
                    .take());
}

std::string Visitor::enter(const Frame& answer) const {
  BodyReader body(answer.body);
  if (answer.kind == FrameKind::refuse) throw Refused(body.text());
  if (answer.kind != FrameKind::welcome) throw BadFrame("no answer to a request to join");
  std::string host = body.text();
  const uint64_t proven = body.number();
  body.end();
  if (proven != proof_of_welcome(secret_, text_of(nonce_), host))
    throw Refused("it does not know the secret of this run");
  return host;
}

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/handshake.h"

#include <fmt/format.h>

namespace trainer {
namespace {

/// Raise the number if any frame changes: ranks of two formats refuse each other.
constexpr std::string_view kGreeting = "trainer ranks 2", kGreetingOfAny = "trainer ranks ";
constexpr size_t kNonceBytes = 16;
constexpr size_t kMaxHost = 255;

std::string text_of(const Secret& nonce) {
  return {nonce.bytes.begin(), nonce.bytes.end()};
}

/// The texts that the two sides prove.
std::string text_of_joining(const std::string& first_nonce, const std::string& nonce, int64_t rank,
                            int64_t ranks, const std::string& host) {
  return fmt::format("join {} {} {}{}{}", rank, ranks, first_nonce, nonce, host);
}

std::string text_of_welcome(const std::string& nonce, const std::string& host) {
  return fmt::format("welcome {}{}", nonce, host);
}

}  // namespace

std::string HandshakeServer::hello() const {
  return encode(FrameKind::hello, BodyWriter().text(kGreeting).text(text_of(nonce_)).take());
}

HandshakeServer::Applicant HandshakeServer::admit(const Frame& join) const {
  if (join.kind != FrameKind::join) throw BadFrame("a frame before the connection has joined");
  BodyReader body(join.body);
  const uint64_t rank = body.number(), ranks = body.number();
  Applicant applicant{.rank = static_cast<int64_t>(rank), .host = body.text(), .nonce = body.text()};
  const std::string proven = body.text();
  body.end();
  if (applicant.host.size() > kMaxHost || applicant.nonce.size() != kNonceBytes)
    throw BadFrame("a request to join that no rank sends");
  if (!is_proof(proven, secret_,
                text_of_joining(text_of(nonce_), applicant.nonce, applicant.rank, static_cast<int64_t>(ranks),
                                applicant.host)))
    throw Refused("it has another secret: set the same TRAINER_SECRET for all ranks, or for none");
  if (ranks != static_cast<uint64_t>(ranks_))
    throw Refused(fmt::format("it was started with {} ranks, this one with {}", ranks_, ranks));
  if (rank == 0 || rank >= ranks) throw Refused(fmt::format("there is no place for a rank {}", rank));
  return applicant;
}

std::string HandshakeServer::welcome(const Applicant& applicant, const std::string& host) const {
  return encode(FrameKind::welcome,
                BodyWriter().text(host).text(proof(secret_, text_of_welcome(applicant.nonce, host))).take());
}

std::string HandshakeClient::join(const Frame& hello) {
  if (hello.kind != FrameKind::hello) throw BadFrame("no greeting of a rank 0");
  BodyReader body(hello.body);
  const std::string greeting = body.text();
  if (!greeting.starts_with(kGreetingOfAny)) throw BadFrame("no greeting of a rank 0");
  if (greeting != kGreeting)
    throw Refused("it runs another release of trainer: start the same program for all ranks");
  first_nonce_ = body.text();
  body.end();
  if (first_nonce_.size() != kNonceBytes) throw BadFrame("a greeting that no rank 0 sends");
  const std::string nonce = text_of(nonce_);
  return encode(FrameKind::join,
                BodyWriter()
                    .number(static_cast<uint64_t>(rank_))
                    .number(static_cast<uint64_t>(ranks_))
                    .text(host_)
                    .text(nonce)
                    .text(proof(secret_, text_of_joining(first_nonce_, nonce, rank_, ranks_, host_)))
                    .take());
}

std::string HandshakeClient::check_welcome(const Frame& answer) const {
  BodyReader body(answer.body);
  if (answer.kind == FrameKind::refuse) throw Refused(body.text());
  if (answer.kind != FrameKind::welcome) throw BadFrame("no answer to a request to join");
  std::string host = body.text();
  const std::string proven = body.text();
  body.end();
  if (!is_proof(proven, secret_, text_of_welcome(text_of(nonce_), host)))
    throw Refused("it does not know the secret of this run");
  return host;
}

}  // namespace trainer

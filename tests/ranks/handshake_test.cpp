// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/handshake.h"

#include "tests/catch.h"

using namespace trainer;

namespace {

Frame frame_of(const std::string& bytes) {
  FrameReader reader;
  reader.put(bytes);
  return reader.next().value();
}

Frame hello_of(std::string_view greeting, size_t nonce) {
  return {FrameKind::hello, BodyWriter().text(greeting).text(std::string(nonce, 'n')).take()};
}

}  // namespace

TEST_CASE("a rank and rank 0 know each other by the secret") {
  const Secret secret = random_bytes();
  const Doorman doorman(secret, 3);
  Visitor visitor(secret, 2, 3, "host2");
  const Frame join = frame_of(visitor.join(frame_of(doorman.hello())));
  const Doorman::Guest guest = doorman.admit(join);
  CHECK(guest.rank == 2);
  CHECK(guest.host == "host2");
  const Frame welcome = frame_of(doorman.welcome(guest, "host0"));
  CHECK(visitor.enter(welcome) == "host0");

  // What was recorded is worth nothing at another connection, nor a changed or shortened frame at this one.
  CHECK_THROWS_AS(Doorman(secret, 3).admit(join), Refused);
  CHECK_THROWS_AS(Visitor(secret, 2, 3, "host2").enter(welcome), Refused);
  for (size_t at = 0; at < join.body.size(); ++at) {
    Frame other = join;
    other.body[at] = static_cast<char>(other.body[at] ^ 1);
    CHECK_THROWS(doorman.admit(other));
    other.body = join.body.substr(0, at);
    CHECK_THROWS_AS(doorman.admit(other), BadFrame);
  }
  for (size_t at = 0; at < welcome.body.size(); ++at) {
    Frame other = welcome;
    other.body[at] = static_cast<char>(other.body[at] ^ 1);
    CHECK_THROWS(visitor.enter(other));
    other.body = welcome.body.substr(0, at);
    CHECK_THROWS_AS(visitor.enter(other), BadFrame);
  }
}

TEST_CASE("ranks of other releases and strangers get no proof") {
  Visitor visitor(random_bytes(), 1, 2, "host1");
  for (const char* other : {"trainer ranks 1", "trainer ranks 3", "trainer ranks 22"}) {
    CHECK_THROWS_MATCHES(
        visitor.join(hello_of(other, 16)), Refused,
        Catch::Matchers::Message("it runs another release of trainer: start the same program for all ranks"));
  }
  CHECK_THROWS_AS(visitor.join(hello_of("SSH-2.0", 16)), BadFrame);
  CHECK_THROWS_AS(visitor.join(hello_of("", 16)), BadFrame);
  for (const size_t nonce : {0, 15, 17})
    CHECK_THROWS_AS(visitor.join(hello_of("trainer ranks 2", nonce)), BadFrame);
  CHECK_NOTHROW(visitor.join(hello_of("trainer ranks 2", 16)));
}

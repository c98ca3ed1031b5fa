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

TEST_CASE("a rank and rank 0 authenticate each other by the secret") {
  const Secret secret = random_bytes();
  const HandshakeServer server(secret, 3);
  HandshakeClient client(secret, 2, 3, "host2");
  const Frame join = frame_of(client.join(frame_of(server.hello())));
  const HandshakeServer::Applicant applicant = server.admit(join);
  CHECK(applicant.rank == 2);
  CHECK(applicant.host == "host2");
  const Frame welcome = frame_of(server.welcome(applicant, "host0"));
  CHECK(client.check_welcome(welcome) == "host0");

  // Recorded frames are refused on another connection, and so are changed or shortened ones on this one.
  CHECK_THROWS_AS(HandshakeServer(secret, 3).admit(join), Refused);
  CHECK_THROWS_AS(HandshakeClient(secret, 2, 3, "host2").check_welcome(welcome), Refused);
  for (size_t at = 0; at < join.body.size(); ++at) {
    Frame other = join;
    other.body[at] = static_cast<char>(other.body[at] ^ 1);
    CHECK_THROWS(server.admit(other));
    other.body = join.body.substr(0, at);
    CHECK_THROWS_AS(server.admit(other), BadFrame);
  }
  for (size_t at = 0; at < welcome.body.size(); ++at) {
    Frame other = welcome;
    other.body[at] = static_cast<char>(other.body[at] ^ 1);
    CHECK_THROWS(client.check_welcome(other));
    other.body = welcome.body.substr(0, at);
    CHECK_THROWS_AS(client.check_welcome(other), BadFrame);
  }
}

TEST_CASE("ranks of other releases, and other programs, get no proof") {
  HandshakeClient client(random_bytes(), 1, 2, "host1");
  for (const char* other : {"trainer ranks 1", "trainer ranks 3", "trainer ranks 22"}) {
    CHECK_THROWS_MATCHES(
        client.join(hello_of(other, 16)), Refused,
        Catch::Matchers::Message("it runs another release of trainer: start the same program for all ranks"));
  }
  CHECK_THROWS_AS(client.join(hello_of("SSH-2.0", 16)), BadFrame);
  CHECK_THROWS_AS(client.join(hello_of("", 16)), BadFrame);
  for (const size_t nonce : {0, 15, 17})
    CHECK_THROWS_AS(client.join(hello_of("trainer ranks 2", nonce)), BadFrame);
  CHECK_NOTHROW(client.join(hello_of("trainer ranks 2", 16)));
}

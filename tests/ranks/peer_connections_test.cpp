// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/peer_connections.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <thread>
#include <utility>
#include <vector>
#include "tests/catch.h"

#include "core/ranks/frames.h"
#include "core/ranks/handshake.h"

using namespace trainer;

namespace {

constexpr const char* kHost = "127.0.0.1";

/// The loss that a rank was notified of.
struct Lost {
  std::promise<std::pair<ExitCode, std::string>> promise;
  std::future<std::pair<ExitCode, std::string>> future = promise.get_future();

  std::string text() {
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) return "nothing";
    const auto [code, text] = future.get();
    return fmt::format("{}: {}", static_cast<int>(code), text);
  }
};

/// Several ranks in this process.
struct Group {
  explicit Group(size_t count, std::chrono::seconds timeout = std::chrono::seconds(20))
      : lost(count), status(count) {
    Listener listener(kHost, 0);
    port = listener.endpoint().port;
    std::vector<std::future<std::unique_ptr<PeerConnections>>> others;
    for (size_t rank = 1; rank < count; ++rank) {
      others.push_back(std::async(std::launch::async, [this, rank, count, timeout] {
        return std::make_unique<PeerConnections>(request(rank, count, timeout), Endpoint{kHost, port});
      }));
    }
    ranks.push_back(std::make_unique<PeerConnections>(request(0, count, timeout), std::move(listener)));
    for (auto& each : others) ranks.push_back(each.get());
  }

  PeerConnectionsRequest request(size_t rank, size_t count, std::chrono::seconds timeout) {
    RankIdentity identity{.rank = static_cast<int64_t>(rank), .ranks = static_cast<int64_t>(count)};
    return {.identity = identity,
            .host = fmt::format("host{}", rank),
            .secret = secret,
            .timeout = timeout,
            .status = [this, rank] { return status[rank].ask(); },
            .on_lost =
                [this, rank](ExitCode code, const std::string& text) {
                  lost[rank].promise.set_value({code, text});
                }};
  }

  /// The status that a rank reports; a frozen one reports nothing.
  struct Reported {
    std::atomic<bool> is_frozen = false;
    std::atomic<int64_t> step = 0, first_step = 1, changes = 0;
    std::atomic<bool> waits = false;
    RankStatus ask() const {
      while (is_frozen) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return {.step = step,
              .activity = Activity::computing,
              .waits = waits,
              .changes = changes,
              .first_step = first_step};
    }
  };

  Secret secret = random_bytes();
  uint16_t port = 0;
  std::vector<Lost> lost;
  std::vector<Reported> status;
  std::vector<std::unique_ptr<PeerConnections>> ranks;
};

/// A connection whose frames the test sends itself.
struct ManualConnection {
  explicit ManualConnection(uint16_t port) : connection(connect_to({kHost, port})) {
    REQUIRE(connection.fd() >= 0);
  }

  std::optional<Frame> await() {
    const auto end = Connection::Clock::now() + std::chrono::seconds(10);
    while (Connection::Clock::now() < end) {
      if (auto frame = connection.next()) return frame;
      if (!connection.receive()) return connection.next();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return std::nullopt;
  }

  /// Joins as that rank; the answer.
  std::optional<Frame> join(HandshakeClient handshake) {
    const auto hello = await();
    REQUIRE(hello);
    connection.send(handshake.join(*hello));
    return await();
  }

  /// Whether the other side closes it.
  bool is_closed() {
    const auto end = Connection::Clock::now() + std::chrono::seconds(10);
    while (Connection::Clock::now() < end) {
      if (!connection.receive()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }

  Connection connection;
};

}  // namespace

TEST_CASE("a rank that fails can let rank 0 end first") {
  using namespace std::chrono_literals;
  Group group(2);
  group.ranks[1]->announce_exit(ExitCode::data, "rank 1 on host1: no file");
  CHECK(group.lost[0].text() == "65: rank 1 on host1: no file");
  const auto began = std::chrono::steady_clock::now();
  group.ranks[1]->await_exit_of_rank_0(300ms);
  CHECK(std::chrono::steady_clock::now() - began >= 300ms);
  const auto ending = std::async(std::launch::async, [&] { group.ranks[0].reset(); });
  group.ranks[1]->await_exit_of_rank_0(60s);
  CHECK(std::chrono::steady_clock::now() - began < 30s);
}

TEST_CASE("every rank gathers every rank's text, in order") {
  const size_t count = GENERATE(2, 3, 7);
  Group group(count);
  std::vector<std::future<bool>> agreed;
  for (size_t rank = 0; rank < count; ++rank) {
    agreed.push_back(std::async(std::launch::async, [&, rank] {
      std::vector<int64_t> rounds;
      const auto text = [](size_t from, int round) {
        return std::string(static_cast<size_t>(round) * 40'000, 'x') + fmt::format("{} of {}", round, from);
      };
      bool right = true;
      for (int round = 0; round < 6; ++round)
        rounds.push_back(group.ranks[rank]->start_all_gather(text(rank, round)));
      for (int round = 0; round < 6; ++round) {
        const auto texts = group.ranks[rank]->wait_all_gather(rounds[static_cast<size_t>(round)]);
        right = right && texts.size() == count;
        for (size_t from = 0; from < texts.size(); ++from) right = right && texts[from] == text(from, round);
      }
      return right;
    }));
  }
  for (auto& each : agreed) CHECK(each.get());
}

TEST_CASE("rank 0 asks one rank after another, while all gather texts") {
  Group group(3);
  for (size_t rank = 1; rank < 3; ++rank) {
    group.ranks[rank]->answer_with([rank](const std::string& request) {
      return fmt::format("{} of {}: ", rank, request.size()) + std::string(request.rbegin(), request.rend());
    });
  }
  const auto gathers = [&](size_t rank) {
    for (int round = 0; round < 20; ++round)
      if (group.ranks[rank]->wait_all_gather(group.ranks[rank]->start_all_gather("x")).size() != 3)
        return false;
    return true;
  };
  std::vector<std::future<bool>> gathered;
  for (size_t rank = 0; rank < 3; ++rank) gathered.push_back(std::async(std::launch::async, gathers, rank));
  for (size_t turn = 0; turn < 12; ++turn) {
    const size_t rank = 1 + turn % 2;
    const std::string request = std::string(turn * 300'000, 'x') + "end";
    const std::string answer = group.ranks[0]->ask(static_cast<int64_t>(rank), request);
    CHECK(answer.starts_with(fmt::format("{} of {}: dne", rank, request.size())));
    CHECK(answer.size() >= request.size());
  }
  for (auto& each : gathered) CHECK(each.get());
}

TEST_CASE("a question ends when its rank exits, which answers no more, and the reason is that rank's") {
  const bool had_answered = GENERATE(false, true);
  Group group(2);
  if (had_answered) {
    group.ranks[1]->answer_with([](const std::string&) { return std::string("here"); });
    CHECK(group.ranks[0]->ask(1, "anything") == "here");
    group.ranks[1]->answer_with({});
  }
  auto asked = std::async(std::launch::async, [&] { return group.ranks[0]->ask(1, "anything"); });
  CHECK(asked.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  group.ranks[1]->announce_exit(ExitCode::data, "rank 1 on host1: no file");
  CHECK(group.lost[0].text() == "65: rank 1 on host1: no file");
  CHECK_THROWS_AS(asked.get(), PeerError);
  CHECK_THROWS_AS(group.ranks[1]->ask(0, "anything"), std::logic_error);
}

TEST_CASE("ranks that end one after the other are not lost") {
  Group group(3);
  group.ranks.clear();
  for (Lost& each : group.lost)
    CHECK(each.future.wait_for(std::chrono::milliseconds(700)) == std::future_status::timeout);
}

TEST_CASE("the rank that the others wait for is named") {
  Group group(3);
  group.status[0].step = group.status[1].step = group.status[2].step = 17;
  group.status[0].waits = group.status[2].waits = true;
  for (const size_t asking : {0U, 2U}) {
    const auto end = Connection::Clock::now() + std::chrono::seconds(10);
    while (group.ranks[asking]->straggler() != "rank 1 on host1, at step 17: computing" &&
           Connection::Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(group.ranks[asking]->straggler() == "rank 1 on host1, at step 17: computing");
  }
}

TEST_CASE("a rank that exits ends all others, with its exit code and reason") {
  Group group(3);
  group.ranks[2]->announce_exit(ExitCode::data, "data.path: no such file");
  CHECK(group.lost[0].text() == "65: data.path: no such file");
  CHECK(group.lost[1].text() == "65: data.path: no such file");
}

TEST_CASE("a silent rank is named after the timeout") {
  const size_t silent = GENERATE(0, 1);
  Group group(2, std::chrono::seconds(2));
  group.status[silent].step = 5;
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // it sends heartbeats
  group.status[silent].is_frozen = true;
  const std::string text = group.lost[1 - silent].text();
  CHECK_THAT(text, Catch::Matchers::StartsWith(
                       fmt::format("76: rank {0} on host{0} has not been heard of for ", silent)) &&
                       Catch::Matchers::ContainsSubstring("at step 5: computing"));
  group.status[silent].is_frozen = false;
}

TEST_CASE("a rank that keeps the others waiting longer than the timeout is named") {
  Group group(2, std::chrono::seconds(1));
  group.status[0].step = group.status[1].step = 5;
  group.status[0].waits = true;
  for (Lost& each : group.lost) {
    CHECK_THAT(each.text(), Catch::Matchers::Matches(
                                "76: rank 1 on host1, at step 5: computing; others have waited for it "
                                "for [12] s; .*"));
  }
}

TEST_CASE("a rank that goes on is not lost while others wait for it, until it stops") {
  Group group(2, std::chrono::seconds(2));
  group.status[0].step = group.status[1].step = 5;
  group.status[0].waits = true;
  for (int i = 0; i < 30; ++i) {
    ++group.status[1].changes;
    REQUIRE(group.lost[0].future.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  }
  CHECK_THAT(group.lost[0].text(), Catch::Matchers::Matches(".*others have waited for it for [23] s; .*"));
}

TEST_CASE("a rank has three timeouts for its first step") {
  Group group(2, std::chrono::seconds(1));
  group.status[1].first_step = 5;
  group.status[0].step = group.status[1].step = 5;
  group.status[0].waits = true;
  CHECK_THAT(group.lost[0].text(), Catch::Matchers::Matches(".*others have waited for it for [34] s; .*"));
}

TEST_CASE("ranks that all make no progress are lost") {
  Group group(2, std::chrono::seconds(1));
  group.status[0].step = 5;
  group.status[1].step = 4;
  CHECK_THAT(group.lost[0].text(),
             Catch::Matchers::StartsWith(
                 "76: rank 1 on host1, at step 4: computing; no rank has gone on for 3 s; raise"));
}

namespace {

/// Seconds from the close of a rank's connection, that long after it joined, until rank 0 reports its loss.
double seconds_until_gone(std::chrono::milliseconds after) {
  Lost lost;
  Listener listener(kHost, 0);
  const uint16_t port = listener.endpoint().port;
  const PeerConnectionsRequest request{.identity = {.rank = 0, .ranks = 2},
                                       .host = "host0",
                                       .secret = random_bytes(),
                                       .status = [] { return RankStatus{}; },
                                       .on_lost =
                                           [&](ExitCode code, const std::string& text) {
                                             lost.promise.set_value({code, text});
                                           }};
  auto coordinator = std::async(
      std::launch::async, [&] { return std::make_unique<PeerConnections>(request, std::move(listener)); });
  {
    ManualConnection manual(port);
    const auto welcome = manual.join(HandshakeClient(request.secret, 1, 2, "host1"));
    REQUIRE(welcome);
    CHECK(welcome->kind == FrameKind::welcome);
    manual.connection.send(
        encode(FrameKind::heartbeat,
               BodyWriter().number(9).number(4).number(0).number(1).number(1).number(0).number(0).take()));
    coordinator.wait();
    std::this_thread::sleep_for(after);
  }
  const auto closed = std::chrono::steady_clock::now();
  CHECK(lost.text() == "76: rank 1 on host1 is gone, at step 9: saving");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - closed).count();
}

}  // namespace

TEST_CASE(
    "a connection that closes without a announce_exit is a rank that is gone, which is said before a "
    "launcher "
    "kills") {
  // Between two heartbeats, half a second apart: the heartbeat after the next would come too late.
  std::vector<double> seconds;
  for (const int after : {0, 340, 380, 420, 460})
    seconds.push_back(seconds_until_gone(std::chrono::milliseconds(after)));
  std::ranges::nth_element(seconds, seconds.begin() + 2);
  CHECK(seconds[2] < 0.4);
}

TEST_CASE("rank 0 refuses peers without the secret, and ranks that exist already") {
  Group group(2);
  const auto answer_to = [&](const HandshakeClient& handshake) {
    ManualConnection manual(group.port);
    const auto answer = manual.join(handshake);
    REQUIRE(answer);
    CHECK(answer->kind == FrameKind::refuse);
    CHECK(manual.is_closed());
    return BodyReader(answer->body).text();
  };
  CHECK_THAT(answer_to(HandshakeClient(random_bytes(), 1, 2, "other")),
             Catch::Matchers::ContainsSubstring("another secret"));
  CHECK(answer_to(HandshakeClient(group.secret, 1, 2, "other")) == "rank 1 on host1 has joined already");
  CHECK(answer_to(HandshakeClient(group.secret, 1, 3, "other")) ==
        "it was started with 2 ranks, this one with 3");
  CHECK(answer_to(HandshakeClient(group.secret, 7, 2, "other")) == "there is no place for a rank 7");

  const auto join = [&](const Secret& secret) {
    const PeerConnections late({.identity = {.rank = 1, .ranks = 2},
                                .host = "late",
                                .secret = secret,
                                .status = [] { return RankStatus{}; },
                                .on_lost = [](ExitCode, const std::string&) {}},
                               Endpoint{kHost, group.port});
  };
  CHECK_THROWS_WITH(join(random_bytes()),
                    Catch::Matchers::StartsWith("rank 1 on late cannot join rank 0 at 127.0.0.1 port ") &&
                        Catch::Matchers::ContainsSubstring("it has another secret"));
}

TEST_CASE("a rank joins no other program that listens at rank 0's address") {
  Listener listener(kHost, 0);
  const Secret secret = random_bytes();
  auto member = std::async(std::launch::async, [&, port = listener.endpoint().port] {
    const PeerConnections peers({.identity = {.rank = 1, .ranks = 2},
                                 .host = "host1",
                                 .secret = secret,
                                 .timeout = std::chrono::seconds(1),
                                 .status = [] { return RankStatus{}; },
                                 .on_lost = [](ExitCode, const std::string&) {}},
                                Endpoint{kHost, port});
  });
  const HandshakeServer impostor(random_bytes(), 2);
  std::vector<Connection> connections;
  while (member.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
    FileDescriptor applicant = listener.accept();
    if (applicant.get() >= 0) connections.emplace_back(std::move(applicant)).send(impostor.hello());
    for (Connection& connection : connections) {
      connection.receive();
      if (connection.next())
        connection.send(
            impostor.welcome({.rank = 1, .host = "host1", .nonce = std::string(16, 'n')}, "fake"));
    }
  }
  CHECK_THROWS_WITH(member.get(),
                    Catch::Matchers::ContainsSubstring("it does not know the secret of this run"));
}

TEST_CASE("missing ranks are named, and so is an address that does not answer") {
  const auto request = [](int64_t rank) {
    return PeerConnectionsRequest{.identity = {.rank = rank, .ranks = 3},
                                  .host = "host",
                                  .secret = {},
                                  .timeout = std::chrono::seconds(0),
                                  .status = [] { return RankStatus{}; },
                                  .on_lost = [](ExitCode, const std::string&) {}};
  };
  CHECK_THROWS_WITH(PeerConnections(request(0), Listener(kHost, 0)), "no sign of ranks 1, 2 of 3 within 0 s");
  const uint16_t unused = Listener(kHost, 0).endpoint().port;
  CHECK_THROWS_WITH(
      PeerConnections(request(1), Endpoint{kHost, unused}),
      fmt::format("rank 1 on host: rank 0 does not answer at 127.0.0.1 port {} within 0 s; start all ranks "
                  "together, with the MASTER_ADDR and MASTER_PORT of rank 0",
                  unused));
  CHECK_THROWS_WITH(Listener("no-such-host.invalid", 0),
                    Catch::Matchers::ContainsSubstring("set MASTER_ADDR"));
  const Listener taken(kHost, 0);
  // A stopped rank 0: the system accepts the connection, and nobody answers.
  const auto began = Connection::Clock::now();
  CHECK_THROWS_WITH(PeerConnections(request(1), taken.endpoint()),
                    Catch::Matchers::ContainsSubstring("rank 0 does not answer"));
  CHECK(Connection::Clock::now() - began < std::chrono::seconds(4));
  CHECK_THROWS_WITH(Listener(kHost, taken.endpoint().port),
                    Catch::Matchers::ContainsSubstring("MASTER_PORT"));
}

TEST_CASE("random bytes, half frames and connections held open do not disturb the ranks") {
  Group group(3);
  std::mt19937 random(GENERATE(1, 2));
  std::vector<std::unique_ptr<ManualConnection>> held;
  for (int i = 0; i < 300; ++i) {
    auto manual = std::make_unique<ManualConnection>(group.port);
    std::string bytes(random() % 3000, '\0');
    for (char& each : bytes) each = static_cast<char>(random());
    // Some start like a frame of a known kind.
    if (i % 3 == 0)
      bytes = encode(static_cast<FrameKind>(random() % kFrameKinds), bytes.substr(0, random() % 600));
    if (i % 3 == 1) bytes = bytes.substr(0, random() % 4);
    manual->connection.send(bytes);
    if (held.size() < 200) held.push_back(std::move(manual));
  }
  for (size_t rank = 0; rank < 3; ++rank) group.ranks[rank]->start_all_gather(fmt::format("text {}", rank));
  for (size_t rank = 0; rank < 3; ++rank)
    CHECK(group.ranks[rank]->wait_all_gather(0) == std::vector<std::string>{"text 0", "text 1", "text 2"});
  for (Lost& each : group.lost)
    CHECK(each.future.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
}

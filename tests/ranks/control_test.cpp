// SPDX-License-Identifier: Apache-2.0
#include "core/ranks/control.h"

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

/// What a rank was told of the end of others.
struct Told {
  std::promise<std::pair<ExitCode, std::string>> promise;
  std::future<std::pair<ExitCode, std::string>> future = promise.get_future();

  std::string text() {
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) return "nothing";
    const auto [code, text] = future.get();
    return fmt::format("{}: {}", static_cast<int>(code), text);
  }
};

/// Some ranks in this process.
struct Star {
  explicit Star(size_t count, std::chrono::seconds timeout = std::chrono::seconds(20))
      : told(count), where(count) {
    Listener listener(kHost, 0);
    port = listener.endpoint().port;
    std::vector<std::future<std::unique_ptr<Control>>> others;
    for (size_t rank = 1; rank < count; ++rank) {
      others.push_back(std::async(std::launch::async, [this, rank, count, timeout] {
        return std::make_unique<Control>(request(rank, count, timeout), Endpoint{kHost, port});
      }));
    }
    ranks.push_back(std::make_unique<Control>(request(0, count, timeout), std::move(listener)));
    for (auto& each : others) ranks.push_back(each.get());
  }

  ControlRequest request(size_t rank, size_t count, std::chrono::seconds timeout) {
    Identity identity{.rank = static_cast<int64_t>(rank), .ranks = static_cast<int64_t>(count)};
    return {.identity = identity,
            .host = fmt::format("host{}", rank),
            .secret = secret,
            .timeout = timeout,
            .whereabouts = [this, rank] { return where[rank].ask(); },
            .on_lost =
                [this, rank](ExitCode code, const std::string& text) {
                  told[rank].promise.set_value({code, text});
                }};
  }

  /// Where a rank says that it is; one that is frozen does not answer.
  struct Place {
    std::atomic<bool> is_frozen = false;
    std::atomic<int64_t> step = 0, first_step = 1;
    std::atomic<bool> waits = false;
    Whereabouts ask() const {
      while (is_frozen) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return {.step = step, .doing = Doing::computing, .waits = waits, .first_step = first_step};
    }
  };

  Secret secret = random_bytes();
  uint16_t port = 0;
  std::vector<Told> told;
  std::vector<Place> where;
  std::vector<std::unique_ptr<Control>> ranks;
};

/// A connection that the test drives by hand.
struct Puppet {
  explicit Puppet(uint16_t port) : line(connect_to({kHost, port})) { REQUIRE(line.number() >= 0); }

  std::optional<Frame> await() {
    const auto end = Line::Clock::now() + std::chrono::seconds(10);
    while (Line::Clock::now() < end) {
      if (auto frame = line.next()) return frame;
      if (!line.receive()) return line.next();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return std::nullopt;
  }

  /// Joins as that rank; the answer.
  std::optional<Frame> join(Visitor visitor) {
    const auto hello = await();
    REQUIRE(hello);
    line.send(visitor.join(*hello));
    return await();
  }

  /// Whether the other side closes it.
  bool is_closed() {
    const auto end = Line::Clock::now() + std::chrono::seconds(10);
    while (Line::Clock::now() < end) {
      if (!line.receive()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }

  Line line;
};

}  // namespace

TEST_CASE("a rank that fails can let rank 0 end first") {
  using namespace std::chrono_literals;
  Star star(2);
  star.ranks[1]->farewell(ExitCode::data, "rank 1 on host1: no file");
  CHECK(star.told[0].text() == "65: rank 1 on host1: no file");
  const auto began = std::chrono::steady_clock::now();
  star.ranks[1]->await_end_of_first(300ms);
  CHECK(std::chrono::steady_clock::now() - began >= 300ms);
  const auto ending = std::async(std::launch::async, [&] { star.ranks[0].reset(); });
  star.ranks[1]->await_end_of_first(60s);
  CHECK(std::chrono::steady_clock::now() - began < 30s);
}

TEST_CASE("every rank gets every rank's text, in the order in which they were given") {
  const size_t count = GENERATE(2, 3, 7);
  Star star(count);
  std::vector<std::future<bool>> agreed;
  for (size_t rank = 0; rank < count; ++rank) {
    agreed.push_back(std::async(std::launch::async, [&, rank] {
      std::vector<int64_t> rounds;
      const auto text = [](size_t from, int round) {
        return std::string(static_cast<size_t>(round) * 40'000, 'x') + fmt::format("{} of {}", round, from);
      };
      bool right = true;
      for (int round = 0; round < 6; ++round) rounds.push_back(star.ranks[rank]->give(text(rank, round)));
      for (int round = 0; round < 6; ++round) {
        const auto texts = star.ranks[rank]->take(rounds[static_cast<size_t>(round)]);
        right = right && texts.size() == count;
        for (size_t from = 0; from < texts.size(); ++from) right = right && texts[from] == text(from, round);
      }
      return right;
    }));
  }
  for (auto& each : agreed) CHECK(each.get());
}

TEST_CASE("ranks that end in turn are not lost") {
  Star star(3);
  star.ranks.clear();
  for (Told& each : star.told)
    CHECK(each.future.wait_for(std::chrono::milliseconds(700)) == std::future_status::timeout);
}

TEST_CASE("the rank that the others wait for is named") {
  Star star(3);
  star.where[0].step = star.where[1].step = star.where[2].step = 17;
  star.where[0].waits = star.where[2].waits = true;
  for (const size_t asking : {0U, 2U}) {
    const auto end = Line::Clock::now() + std::chrono::seconds(10);
    while (star.ranks[asking]->laggard() != "rank 1 on host1, at step 17: computing" &&
           Line::Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(star.ranks[asking]->laggard() == "rank 1 on host1, at step 17: computing");
  }
}

TEST_CASE("a rank that leaves takes all others along, with its code and its reason") {
  Star star(3);
  star.ranks[2]->farewell(ExitCode::data, "data.path: no such file");
  CHECK(star.told[0].text() == "65: data.path: no such file");
  CHECK(star.told[1].text() == "65: data.path: no such file");
}

TEST_CASE("a rank that is silent is named after the timeout") {
  const size_t silent = GENERATE(0, 1);
  Star star(2, std::chrono::seconds(2));
  star.where[silent].step = 5;
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // it says so
  star.where[silent].is_frozen = true;
  const std::string text = star.told[1 - silent].text();
  CHECK_THAT(text, Catch::Matchers::StartsWith(
                       fmt::format("76: rank {0} on host{0} has not been heard of for ", silent)) &&
                       Catch::Matchers::ContainsSubstring("at step 5: computing"));
  star.where[silent].is_frozen = false;
}

TEST_CASE("a rank that keeps the others waiting longer than the timeout is named") {
  Star star(2, std::chrono::seconds(1));
  star.where[0].step = star.where[1].step = 5;
  star.where[0].waits = true;
  for (Told& each : star.told) {
    CHECK_THAT(each.text(), Catch::Matchers::Matches(
                                "76: rank 1 on host1, at step 5: computing; others have waited for it "
                                "for [12] s; .*"));
  }
}

TEST_CASE("in its first step a rank has three timeouts") {
  Star star(2, std::chrono::seconds(1));
  star.where[1].first_step = 5;
  star.where[0].step = star.where[1].step = 5;
  star.where[0].waits = true;
  CHECK_THAT(star.told[0].text(), Catch::Matchers::Matches(".*others have waited for it for [34] s; .*"));
}

TEST_CASE("ranks that all stand still are not waited for") {
  Star star(2, std::chrono::seconds(1));
  star.where[0].step = 5;
  star.where[1].step = 4;
  CHECK_THAT(star.told[0].text(),
             Catch::Matchers::StartsWith(
                 "76: rank 1 on host1, at step 4: computing; no rank has gone on for 3 s; raise"));
}

namespace {

/// Seconds from the close of a rank's connection, so long after it joined, until rank 0 says that it is gone.
double seconds_until_gone(std::chrono::milliseconds after) {
  Told told;
  Listener listener(kHost, 0);
  const uint16_t port = listener.endpoint().port;
  const ControlRequest request{.identity = {.rank = 0, .ranks = 2},
                               .host = "host0",
                               .secret = random_bytes(),
                               .whereabouts = [] { return Whereabouts{}; },
                               .on_lost =
                                   [&](ExitCode code, const std::string& text) {
                                     told.promise.set_value({code, text});
                                   }};
  auto hub =
      std::async(std::launch::async, [&] { return std::make_unique<Control>(request, std::move(listener)); });
  {
    Puppet puppet(port);
    const auto welcome = puppet.join(Visitor(request.secret, 1, 2, "host1"));
    REQUIRE(welcome);
    CHECK(welcome->kind == FrameKind::welcome);
    puppet.line.send(
        encode(FrameKind::position, BodyWriter().number(9).number(4).number(0).number(1).number(1).take()));
    hub.wait();
    std::this_thread::sleep_for(after);
  }
  const auto closed = std::chrono::steady_clock::now();
  CHECK(told.text() == "76: rank 1 on host1 is gone, at step 9: saving");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - closed).count();
}

}  // namespace

TEST_CASE(
    "a connection that closes without a farewell is a rank that is gone, which is said before a launcher "
    "kills") {
  // Between two beats, half a second apart, at moments from which the next beat but one would be late.
  std::vector<double> seconds;
  for (const int after : {0, 340, 380, 420, 460})
    seconds.push_back(seconds_until_gone(std::chrono::milliseconds(after)));
  std::ranges::nth_element(seconds, seconds.begin() + 2);
  CHECK(seconds[2] < 0.4);
}

TEST_CASE("rank 0 lets nobody in who does not know the secret, or has no place") {
  Star star(2);
  const auto answer_to = [&](const Visitor& visitor) {
    Puppet puppet(star.port);
    const auto answer = puppet.join(visitor);
    REQUIRE(answer);
    CHECK(answer->kind == FrameKind::refuse);
    CHECK(puppet.is_closed());
    return BodyReader(answer->body).text();
  };
  CHECK_THAT(answer_to(Visitor(random_bytes(), 1, 2, "other")),
             Catch::Matchers::ContainsSubstring("another secret"));
  CHECK(answer_to(Visitor(star.secret, 1, 2, "other")) == "rank 1 on host1 has joined already");
  CHECK(answer_to(Visitor(star.secret, 1, 3, "other")) == "it was started with 2 ranks, this one with 3");
  CHECK(answer_to(Visitor(star.secret, 7, 2, "other")) == "there is no place for a rank 7");

  const auto join = [&](const Secret& secret) {
    const Control late({.identity = {.rank = 1, .ranks = 2},
                        .host = "late",
                        .secret = secret,
                        .whereabouts = [] { return Whereabouts{}; },
                        .on_lost = [](ExitCode, const std::string&) {}},
                       Endpoint{kHost, star.port});
  };
  CHECK_THROWS_WITH(join(random_bytes()),
                    Catch::Matchers::StartsWith("rank 1 on late cannot join rank 0 at 127.0.0.1 port ") &&
                        Catch::Matchers::ContainsSubstring("it has another secret"));
}

TEST_CASE("a rank joins no stranger that listens where rank 0 should") {
  Listener listener(kHost, 0);
  const Secret secret = random_bytes();
  auto spoke = std::async(std::launch::async, [&, port = listener.endpoint().port] {
    const Control control({.identity = {.rank = 1, .ranks = 2},
                           .host = "host1",
                           .secret = secret,
                           .timeout = std::chrono::seconds(1),
                           .whereabouts = [] { return Whereabouts{}; },
                           .on_lost = [](ExitCode, const std::string&) {}},
                          Endpoint{kHost, port});
  });
  const Doorman stranger(random_bytes(), 2);
  std::vector<Line> lines;
  while (spoke.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
    Descriptor guest = listener.accept();
    if (guest.number() >= 0) lines.emplace_back(std::move(guest)).send(stranger.hello());
    for (Line& line : lines) {
      line.receive();
      if (line.next())
        line.send(stranger.welcome({.rank = 1, .host = "host1", .nonce = std::string(16, 'n')}, "fake"));
    }
  }
  CHECK_THROWS_WITH(spoke.get(),
                    Catch::Matchers::ContainsSubstring("it does not know the secret of this run"));
}

TEST_CASE("who is missing is named, and where nobody answers") {
  const auto request = [](int64_t rank) {
    return ControlRequest{.identity = {.rank = rank, .ranks = 3},
                          .host = "host",
                          .secret = {},
                          .timeout = std::chrono::seconds(0),
                          .whereabouts = [] { return Whereabouts{}; },
                          .on_lost = [](ExitCode, const std::string&) {}};
  };
  CHECK_THROWS_WITH(Control(request(0), Listener(kHost, 0)), "no sign of ranks 1, 2 of 3 within 0 s");
  const uint16_t unused = Listener(kHost, 0).endpoint().port;
  CHECK_THROWS_WITH(
      Control(request(1), Endpoint{kHost, unused}),
      fmt::format("rank 1 on host: rank 0 does not answer at 127.0.0.1 port {} within 0 s; start all ranks "
                  "together, with the MASTER_ADDR and MASTER_PORT of rank 0",
                  unused));
  CHECK_THROWS_WITH(Listener("no-such-host.invalid", 0),
                    Catch::Matchers::ContainsSubstring("set MASTER_ADDR"));
  const Listener taken(kHost, 0);
  // A rank 0 that is stopped: the system accepts, and nobody answers.
  const auto began = Line::Clock::now();
  CHECK_THROWS_WITH(Control(request(1), taken.endpoint()),
                    Catch::Matchers::ContainsSubstring("rank 0 does not answer"));
  CHECK(Line::Clock::now() - began < std::chrono::seconds(4));
  CHECK_THROWS_WITH(Listener(kHost, taken.endpoint().port),
                    Catch::Matchers::ContainsSubstring("MASTER_PORT"));
}

TEST_CASE("random bytes, half frames and connections held open do not disturb the ranks") {
  Star star(3);
  std::mt19937 random(GENERATE(1, 2));
  std::vector<std::unique_ptr<Puppet>> held;
  for (int i = 0; i < 300; ++i) {
    auto puppet = std::make_unique<Puppet>(star.port);
    std::string bytes(random() % 3000, '\0');
    for (char& each : bytes) each = static_cast<char>(random());
    // Some begin like a frame of a kind that exists.
    if (i % 3 == 0)
      bytes = encode(static_cast<FrameKind>(random() % kFrameKinds), bytes.substr(0, random() % 600));
    if (i % 3 == 1) bytes = bytes.substr(0, random() % 4);
    puppet->line.send(bytes);
    if (held.size() < 200) held.push_back(std::move(puppet));
  }
  for (size_t rank = 0; rank < 3; ++rank) star.ranks[rank]->give(fmt::format("text {}", rank));
  for (size_t rank = 0; rank < 3; ++rank)
    CHECK(star.ranks[rank]->take(0) == std::vector<std::string>{"text 0", "text 1", "text 2"});
  for (Told& each : star.told)
    CHECK(each.future.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
}

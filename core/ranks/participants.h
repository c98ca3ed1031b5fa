// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ranks/handshake.h"
#include "core/ranks/peer_connections.h"

namespace trainer {

constexpr std::chrono::milliseconds kHeartbeatInterval(500);
/// A rank that ends may take others along. The reason may arrive a moment after its connection has closed,
/// and is the better message.
constexpr std::chrono::milliseconds kClosedGrace(200);

/// How a process takes part in the exchange of heartbeats and texts. PeerConnections calls it with its lock
/// held, so nothing here blocks.
class Participant {
 public:
  /// Why this process must end.
  struct Loss {
    ExitCode code;
    std::string text;
  };

  Participant() = default;
  Participant(const Participant&) = delete;
  Participant& operator=(const Participant&) = delete;
  virtual ~Participant() = default;

  virtual bool is_complete() const = 0;
  /// The ranks that have not joined: "rank 2", "ranks 2, 3".
  virtual std::string missing() const = 0;
  /// Every open connection.
  virtual std::vector<Connection*> connections() = 0;
  /// Those to peers that have proven the secret.
  virtual std::vector<Connection*> peers() = 0;
  /// The listening socket, or -1.
  virtual int listening_fd() const { return -1; }
  virtual void accept_connection() {}
  /// The connection has something to read.
  virtual void read(Connection& connection) = 0;
  /// This process was suspended for so long, so its peers' silence does not count.
  virtual void discount_silence(Connection::Clock::duration gap) = 0;
  /// Called every kHeartbeatInterval, and more often once a connection has closed.
  virtual void heartbeat(const RankStatus& own) = 0;
  /// Whether a peer's connection has closed without an announcement.
  virtual bool has_closed() const = 0;
  virtual void contribute(int64_t round, const std::string& text) = 0;
  /// Sends a request to another rank.
  virtual void ask(int64_t rank, const std::string& request) = 0;
  /// Sends a line of this rank's log to rank 0.
  virtual void send_line(const std::string& text) = 0;
  /// All ranks, on rank 0.
  virtual std::vector<RankOverview> overview() const = 0;
  /// Answers the requests of rank 0 from now on.
  void answer_with(std::function<std::string(const std::string&)> answer) { answers_ = std::move(answer); }

  const std::string& straggler() const { return straggler_; }
  const std::optional<Loss>& loss() const { return loss_; }
  bool has_gathered(int64_t round) const { return gathered_.contains(round); }
  std::vector<std::string> take(int64_t round);
  /// To the last request.
  std::optional<std::string> take_answer() { return std::exchange(answer_, std::nullopt); }
  void lose(ExitCode code, const std::string& text) {
    if (!loss_) loss_ = {code, text};
  }

 protected:
  std::map<int64_t, std::vector<std::string>> gathered_;  ///< complete rounds that were not taken yet
  std::string straggler_;
  std::optional<Loss> loss_;
  std::optional<std::string> answer_;
  std::function<std::string(const std::string&)> answers_;
};

/// Rank 0, which has a connection to every other rank and watches all of them.
class Coordinator final : public Participant {
 public:
  Coordinator(const PeerConnectionsRequest& request, Listener listener);

  bool is_complete() const override;
  std::string missing() const override;
  std::vector<Connection*> connections() override;
  std::vector<Connection*> peers() override;
  void discount_silence(Connection::Clock::duration gap) override;
  int listening_fd() const override { return is_full_ ? -1 : listener_.fd(); }
  void accept_connection() override;
  void read(Connection& connection) override;
  void heartbeat(const RankStatus& own) override;
  bool has_closed() const override;
  void contribute(int64_t round, const std::string& text) override { collect(0, round, text); }
  void ask(int64_t rank, const std::string& request) override;
  void send_line(const std::string&) override {}
  std::vector<RankOverview> overview() const override;

 private:
  /// A connection that has not proven the secret yet.
  struct Pending {
    Connection connection;
    HandshakeServer handshake;
    Connection::Clock::time_point since;
  };
  struct Peer {
    std::optional<Connection> connection;
    std::string host;
    RankStatus status;
    Connection::Clock::time_point changed = Connection::Clock::now();  ///< when its status last did
    bool has_left = false;                                             ///< and has announced it
    std::optional<Connection::Clock::time_point> closed;               ///< without an announcement
  };

  bool may_still_join(Pending& pending);
  void admit(Pending& pending, const Frame& join);
  void read_peer(size_t rank);
  void handle(size_t rank, const Frame& frame);
  void collect(size_t rank, int64_t round, const std::string& text);
  void send_to_all(const std::string& frame);
  std::string name(size_t rank) const;
  static void update(Peer& peer, const RankStatus& status);
  static bool is_in_step(const Peer& peer);
  void find_lost();
  void find_stuck();
  void find_straggler();

  const PeerConnectionsRequest& request_;
  Listener listener_;
  bool is_full_ = false;        ///< the system gives no further connection for now
  std::vector<Peer> peers_;     ///< by rank; that of rank 0 has no connection
  size_t asked_ = 0;            ///< the rank whose answer has not come; 0: none
  const Peer* last_ = nullptr;  ///< the straggler
  std::list<Pending> pending_;
  std::map<int64_t, std::map<size_t, std::string>> contributions_;  ///< by round and rank
};

/// Another rank, which has a connection to rank 0 alone.
class Member final : public Participant {
 public:
  /// Joins rank 0 at that address, as PeerConnections does.
  Member(const PeerConnectionsRequest& request, const Endpoint& rank_0);

  bool is_complete() const override { return is_complete_; }
  std::string missing() const override { return "others"; }
  std::vector<Connection*> connections() override;
  std::vector<Connection*> peers() override { return connections(); }
  void discount_silence(Connection::Clock::duration gap) override { connection_->discount_silence(gap); }
  void read(Connection& connection) override;
  void heartbeat(const RankStatus& own) override;
  bool has_closed() const override;
  void contribute(int64_t round, const std::string& text) override;
  void ask(int64_t rank, const std::string& request) override;
  void send_line(const std::string& text) override;
  std::vector<RankOverview> overview() const override { return {}; }

 private:
  bool join(const Endpoint& rank_0, Connection::Clock::time_point end);
  void handle(const Frame& frame);
  std::string name() const;

  const PeerConnectionsRequest& request_;
  std::optional<Connection> connection_;
  std::string rank_0_host_;
  RankStatus rank_0_status_;
  bool is_complete_ = false, has_left_ = false;
  std::optional<Connection::Clock::time_point> closed_;
};

/// "rank 3 on HOST".
std::string rank_text(size_t rank, const std::string& host);
/// ", at step 17: computing".
std::string status_text(const RankStatus& status);
std::string encode_status(const RankStatus& status);
RankStatus decode_status(BodyReader& body);

}  // namespace trainer

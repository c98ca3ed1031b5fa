// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ranks/control.h"
#include "core/ranks/handshake.h"

namespace trainer {

/// One end of the star: what it makes of what comes. Control calls it with its lock held; nothing blocks.
class StarEnd {
 public:
  struct Loss {
    ExitCode code;
    std::string text;
  };

  StarEnd() = default;
  StarEnd(const StarEnd&) = delete;
  StarEnd& operator=(const StarEnd&) = delete;
  virtual ~StarEnd() = default;

  virtual bool is_complete() const = 0;
  /// Of those that have not joined: "rank 2", "ranks 2, 3".
  virtual std::string missing() const = 0;
  /// Every open connection.
  virtual std::vector<Line*> lines() = 0;
  /// Where others knock, or -1.
  virtual int door() const { return -1; }
  virtual void open_door() {}
  /// There is something to read.
  virtual void read(Line& line) = 0;
  /// Those that know the secret.
  virtual std::vector<Line*> members() = 0;
  /// This process did not run for so long: nobody else is to blame for that silence.
  virtual void forgive(Line::Clock::duration gap) = 0;
  /// Called about every kBeat, more often once a connection has closed.
  virtual void beat(const Whereabouts& own) = 0;
  /// Whether one of the others' connections has closed without a farewell.
  virtual bool has_closed() const = 0;
  virtual void give(int64_t round, const std::string& text) = 0;

  const std::string& laggard() const { return laggard_; }
  const std::optional<Loss>& loss() const { return loss_; }
  bool has(int64_t round) const { return rounds_.contains(round); }
  std::vector<std::string> take(int64_t round);
  void lose(ExitCode code, const std::string& text) {
    if (!loss_) loss_ = {code, text};
  }

 protected:
  std::map<int64_t, std::vector<std::string>> rounds_;  ///< complete, and not taken yet
  std::string laggard_;
  std::optional<Loss> loss_;
};

constexpr std::chrono::milliseconds kBeat(500);

/// Rank 0.
class Hub final : public StarEnd {
 public:
  Hub(const ControlRequest& request, Listener listener);

  bool is_complete() const override;
  std::string missing() const override;
  std::vector<Line*> lines() override;
  std::vector<Line*> members() override;
  void forgive(Line::Clock::duration gap) override;
  int door() const override { return is_full_ ? -1 : listener_.number(); }
  void open_door() override;
  void read(Line& line) override;
  void beat(const Whereabouts& own) override;
  bool has_closed() const override;
  void give(int64_t round, const std::string& text) override { collect(0, round, text); }

 private:
  /// A connection that has not proven anything.
  struct Stranger {
    Line line;
    Doorman doorman;
    Line::Clock::time_point since;
  };
  struct Peer {
    std::optional<Line> line;
    std::string host;
    Whereabouts where;
    Line::Clock::time_point moved = Line::Clock::now();  ///< when it last said so
    bool has_left = false;                               ///< and said so
    std::optional<Line::Clock::time_point> closed;       ///< without having said so
  };

  bool hears_out(Stranger& stranger);
  void admit(Stranger& stranger, const Frame& join);
  void read_peer(size_t rank);
  void heed(size_t rank, const Frame& frame);
  void collect(size_t rank, int64_t round, const std::string& text);
  void send_to_all(const std::string& frame);
  std::string name(size_t rank) const;
  static void move(Peer& peer, const Whereabouts& where);
  static bool is_in_step(const Peer& peer);
  void find_lost();
  void find_stuck();
  void find_laggard();

  const ControlRequest& request_;
  Listener listener_;
  bool is_full_ = false;        ///< the system gives no further connection for now
  std::vector<Peer> peers_;     ///< by rank; that of rank 0 has no line
  const Peer* last_ = nullptr;  ///< the laggard
  std::list<Stranger> strangers_;
  std::map<int64_t, std::map<size_t, std::string>> given_;  ///< by round and rank
};

/// Another rank.
class Spoke final : public StarEnd {
 public:
  /// Joins rank 0 at that place, as Control does.
  Spoke(const ControlRequest& request, const Endpoint& first);

  bool is_complete() const override { return is_complete_; }
  std::string missing() const override { return "others"; }
  std::vector<Line*> lines() override;
  std::vector<Line*> members() override { return lines(); }
  void forgive(Line::Clock::duration gap) override { line_->forgive(gap); }
  void read(Line& line) override;
  void beat(const Whereabouts& own) override;
  bool has_closed() const override;
  void give(int64_t round, const std::string& text) override;

 private:
  bool join(const Endpoint& first, Line::Clock::time_point end);
  void heed(const Frame& frame);
  std::string name() const;

  const ControlRequest& request_;
  std::optional<Line> line_;
  std::string first_host_;
  Whereabouts first_where_;  ///< where rank 0 is
  bool is_complete_ = false, has_left_ = false;
  std::optional<Line::Clock::time_point> closed_;
};

/// "rank 3 on HOST".
std::string rank_text(size_t rank, const std::string& host);
/// ", at step 17: computing".
std::string where_text(const Whereabouts& where);
std::string encode_where(const Whereabouts& where);
Whereabouts decode_where(BodyReader& body);

/// A rank that ends may take others along; what ends it may reach this process a moment later, and be the
/// better reason.
constexpr std::chrono::milliseconds kPatienceWithClosed(200);

}  // namespace trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// Streams that execute enqueued work on the host: when a caller waits for it, or as early as possible. CUDA
// leaves the types of its handles open; these are the stand-in's.

namespace trainer::standin {

/// One call of cudaEventRecord.
struct Record {
  CUstream_st* stream = nullptr;
  uint64_t number = 0;  ///< later calls have larger ones
  bool done = false;
  double seconds = 0;  ///< when it was done, by the stand-in's clock
};

/// Memory that enqueued work reads or writes.
struct Range {
  const void* begin = nullptr;
  size_t bytes = 0;
};

/// The time of any work. Times are made up, so that decisions by them are reproducible.
constexpr double kShortest = 1e-3;

/// The next item of a stream: one of these.
struct Item {
  std::string name;  ///< of the call that enqueued it
  std::function<void()> work;
  std::shared_ptr<Record> record;   ///< it is done
  std::shared_ptr<Record> awaited;  ///< nothing after this begins before that is done
  CUevent_st* event = nullptr;      ///< in a graph: recorded again by each launch
  CUstream_st* branch = nullptr;    ///< in a graph: the stream that joined the capture
  uint64_t mark = 0;                ///< in a graph: a branch's mark for others, not 0
  uint64_t awaited_mark = 0;        ///< in a graph: nothing after this begins before that is done
  std::vector<Range> ranges;        ///< that must stay allocated, if they are known
  double seconds = kShortest;       ///< that it takes
};

}  // namespace trainer::standin

struct CUevent_st {
  std::shared_ptr<trainer::standin::Record> last;
  bool is_timed = false;
  bool is_captured = false;            ///< recorded last in a stream that was captured
  CUgraph_st* graph = nullptr;         ///< then: the work that was captured there
  CUstream_st* captured_on = nullptr;  ///< and the stream
  uint64_t mark = 0;                   ///< and the item that marks it
};
struct CUgraph_st {
  std::vector<trainer::standin::Item> items;
  std::map<CUstream_st*, bool> is_joined;  ///< of each stream but the first: whether that waits for all of it
  uint64_t marks = 0;
};
struct CUgraphExec_st {
  std::vector<trainer::standin::Item> items;
};
struct CUstream_st {
  int device = 0;  ///< its owner
  std::deque<trainer::standin::Item> queue;
  std::shared_ptr<CUgraph_st> capture;    ///< enqueued work goes there instead
  CUstream_st* capture_origin = nullptr;  ///< the stream where the capture began
  std::thread::id capturer;
  bool is_capture_valid = true;
  bool has_unpinned_copy = false;  ///< the next call must wait for the stream
};

namespace trainer::standin {

/// When streams execute enqueued work. `late`: when a caller waits for it, and only as much as that needs. In
/// the other orders some streams work as early as they may: all but the first made (`copies_first`), the
/// first made (`copies_last`), or all.
enum class Order { late, copies_first, copies_last, early };

/// TRAINER_STANDIN_ORDER, or `late`.
Order order_from_environment();

class Streams {
 public:
  static Streams& all();

  void set_order(Order order) { order_ = order; }
  CUstream_st* create();
  void destroy(CUstream_st* stream);
  /// Whether this thread captures a stream.
  bool is_capturing() const;
  /// This thread's captured work can no longer become a graph.
  void invalidate_captures();

  /// Ends the capture that began on that stream, on all streams that have joined it.
  std::shared_ptr<CUgraph_st> end_capture(CUstream_st* origin);

  /// The null stream does it at once.
  void enqueue(CUstream_st* stream, Item item);
  /// Executes the work that the record waits for.
  void finish(const Record& record);
  void finish(CUstream_st* stream);
  void finish_all();
  /// The call that enqueued work on memory of this range, if it is not done; else empty.
  std::string user_of(const void* begin, size_t bytes) const;

 private:
  void perform(const Item& item);
  /// Executes the next item, unless one that it awaits is not done.
  bool step(CUstream_st* stream);
  void advance();

  double clock_ = 0;                                   ///< time of all work so far
  std::vector<std::unique_ptr<CUstream_st>> streams_;  ///< in the order in which they were made
  Order order_ = order_from_environment();
};

}  // namespace trainer::standin

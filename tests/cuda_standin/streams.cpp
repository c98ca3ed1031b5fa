// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_standin/streams.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace trainer::standin {
namespace {

bool overlap(const Range& range, const void* begin, size_t bytes) {
  const auto *first = static_cast<const std::byte*>(range.begin),
             *other = static_cast<const std::byte*>(begin);
  return first < other + bytes && other < first + range.bytes;
}

}  // namespace

Order order_from_environment() {
  const char* text = std::getenv("TRAINER_STANDIN_ORDER");
  const std::string name = text == nullptr ? "late" : text;
  if (name == "late") return Order::late;
  if (name == "copies_first") return Order::copies_first;
  if (name == "copies_last") return Order::copies_last;
  if (name == "early") return Order::early;
  throw std::invalid_argument("TRAINER_STANDIN_ORDER: late, copies_first, copies_last or early, not " + name);
}

Streams& Streams::all() {
  static Streams only;
  return only;
}

CUstream_st* Streams::create() {
  return streams_.emplace_back(std::make_unique<CUstream_st>()).get();
}

void Streams::destroy(CUstream_st* stream) {
  finish(stream);
  std::erase_if(streams_, [&](const auto& one) { return one.get() == stream; });
}

bool Streams::is_capturing() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const auto& one) {
    return one->capture != nullptr && one->capturer == std::this_thread::get_id();
  });
}

std::shared_ptr<CUgraph_st> Streams::end_capture(CUstream_st* origin) {
  std::shared_ptr<CUgraph_st> graph = origin->capture;
  for (const auto& one : streams_) {
    if (one->capture == graph) one->capture = nullptr;
  }
  return graph;
}

void Streams::invalidate_captures() {
  for (const auto& one : streams_) {
    if (one->capturer == std::this_thread::get_id()) one->is_capture_valid = false;
  }
}

void Streams::enqueue(CUstream_st* stream, Item item) {
  if (stream == nullptr) {
    perform(item);
    return;
  }
  if (stream->capture != nullptr) {
    item.branch = stream == stream->capture_origin ? nullptr : stream;
    if (item.branch != nullptr && item.mark == 0) stream->capture->is_joined[stream] = false;
    stream->capture->items.push_back(std::move(item));
    return;
  }
  stream->queue.push_back(std::move(item));
  advance();
}

void Streams::perform(const Item& item) {
  if (item.work) {
    item.work();
    clock_ += item.seconds;
  }
  if (!item.record) return;
  item.record->done = true;
  item.record->seconds = clock_;
}

bool Streams::step(CUstream_st* stream) {
  if (stream->queue.empty()) return false;
  if (const auto& awaited = stream->queue.front().awaited; awaited && !awaited->done) return false;
  const Item item = std::move(stream->queue.front());
  stream->queue.pop_front();
  perform(item);
  return true;
}

void Streams::advance() {
  if (order_ == Order::late) return;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (order_ != Order::early && (i == 0) != (order_ == Order::copies_last)) continue;
      while (step(streams_[i].get())) moved = true;
    }
  }
}

void Streams::finish(const Record& record) {
  while (!record.done) {
    if (step(record.stream)) continue;
    if (record.stream->queue.empty()) throw std::logic_error("an event is awaited that nobody records");
    finish(*std::shared_ptr(record.stream->queue.front().awaited));
  }
}

void Streams::finish(CUstream_st* stream) {
  if (stream == nullptr) return;
  while (!stream->queue.empty()) {
    if (!step(stream)) finish(*std::shared_ptr(stream->queue.front().awaited));
  }
}

void Streams::finish_all() {
  for (const auto& one : streams_) finish(one.get());
}

std::string Streams::user_of(const void* begin, size_t bytes) const {
  for (const auto& stream : streams_) {
    for (const Item& item : stream->queue) {
      if (std::any_of(item.ranges.begin(), item.ranges.end(),
                      [&](const Range& range) { return overlap(range, begin, bytes); }))
        return item.name;
    }
  }
  return "";
}

}  // namespace trainer::standin

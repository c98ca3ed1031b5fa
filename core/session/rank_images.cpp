// SPDX-License-Identifier: Apache-2.0
#include "core/session/rank_images.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/ranks/frames.h"

namespace trainer {
namespace {

// A request is its kind, a tensor's name, the first byte and, to read, their number, or to write, the bytes.
enum class Kind : uint8_t { read, write };

BodyWriter begin_request(Kind kind, const std::string& tensor, int64_t begin) {
  BodyWriter request;
  request.number(static_cast<uint64_t>(kind)).text(tensor).number(static_cast<uint64_t>(begin));
  return request;
}

std::string_view chars_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void RemoteImages::read(int64_t rank, const std::string& tensor, int64_t begin, std::span<std::byte> bytes) {
  const std::string found =
      membership_.ask(rank, begin_request(Kind::read, tensor, begin).number(bytes.size()).take());
  if (found.size() != bytes.size()) throw std::logic_error("a rank gives other bytes than it was asked for");
  std::memcpy(bytes.data(), found.data(), found.size());
}

void RemoteImages::write(int64_t rank, const std::string& tensor, int64_t begin,
                         std::span<const std::byte> bytes) {
  membership_.ask(rank, begin_request(Kind::write, tensor, begin).text(chars_of(bytes)).take());
}

OwnImage::OwnImage(const Membership& membership, Executable& executable, const CheckpointSettings& settings)
    : membership_(membership) {
  const Plan& plan = executable.plan();
  if (!StateImage::has_share(plan, plan.rank)) return;
  image_.emplace(executable, Checkpoints::image_memory(plan, settings), nullptr, StateImage::Extent::divided);
  membership_.answer_with([this](const std::string& request) { return answer(request); });
}

OwnImage::~OwnImage() {
  if (image_) membership_.answer_with({});
}

void OwnImage::take() {
  const std::lock_guard lock(mutex_);
  if (image_) image_->take();
}

void OwnImage::restore() {
  const std::lock_guard lock(mutex_);
  if (image_) image_->restore();
}

std::string OwnImage::answer(const std::string& request) {
  const std::lock_guard lock(mutex_);
  BodyReader body(request);
  const auto kind = static_cast<Kind>(body.below(2));
  const std::string tensor = body.text();
  const auto begin = static_cast<int64_t>(body.number());
  if (kind == Kind::write) {
    const std::string bytes = body.text();
    body.end();
    image_->write_own(tensor, begin, std::as_bytes(std::span(bytes)));
    return "";
  }
  std::string found(static_cast<size_t>(body.below(FrameReader::kMax / 2)), '\0');
  body.end();
  image_->read_own(tensor, begin, std::as_writable_bytes(std::span(found)));
  return found;
}

}  // namespace trainer

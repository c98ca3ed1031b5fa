// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/faults.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace faults {
namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// As launchers say it; "" in other processes.
std::string own_rank() {
  const std::string rank = setting("RANK");
  if (!rank.empty()) return rank;
  const std::string of_open_mpi = setting("OMPI_COMM_WORLD_RANK");
  return of_open_mpi.empty() ? setting("PMI_RANK") : of_open_mpi;
}

/// In seconds.
std::string now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::to_string(static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec));
}

int append_to(const std::string& path) {
  return next<int(const char*, int, ...)>("open")(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                                                  0666);
}

}  // namespace

Faults& Faults::instance() {
  static auto* faults = new Faults;
  return *faults;
}

Faults::Faults()
    : path_(setting("FAULT_PATH")),
      calls_(setting("FAULT_CALLS")),
      action_(setting("FAULT_ACTION")),
      until_(setting("FAULT_UNTIL")),
      always_(!setting("FAULT_ALWAYS").empty()),
      is_of_this_rank_(setting("FAULT_RANK").empty() || setting("FAULT_RANK") == own_rank()),
      at_(std::atol(setting("FAULT_AT").c_str())) {
  if (setting("FAULT_LOG").empty() || !is_of_this_rank_) return;
  log_ = append_to(setting("FAULT_LOG"));
  data_ = append_to(setting("FAULT_LOG") + ".data");
}

void Faults::opened(int fd, const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (fd >= 0 && static_cast<size_t>(fd) < kMostFiles) paths_[static_cast<size_t>(fd)] = path;
}

std::string Faults::path_of(int fd) {
  const std::lock_guard lock(mutex_);
  return fd >= 0 && static_cast<size_t>(fd) < kMostFiles ? paths_[static_cast<size_t>(fd)] : std::string();
}

int Faults::before(const char* call, const std::string& path, const std::string& detail, const void* data,
                   size_t bytes) {
  std::unique_lock lock(mutex_);
  if (!is_of_this_rank_ || !is_counted(call, path)) return 0;
  ++count_;
  const bool hit = at_ > 0 && (count_ == at_ || (always_ && count_ > at_));
  log(std::to_string(count_) + "\t" + call + "\t" + path + "\t" + detail + "\t" + (hit ? action_ : "") +
      "\t" + now() + "\n");
  if (data_ >= 0 && bytes > 0) static_cast<void>(!write_(data_, data, bytes));
  if (!hit) return 0;
  lock.unlock();  // other threads continue meanwhile
  return act();
}

bool Faults::is_counted(const char* call, const std::string& path) const {
  if (path_.empty() || (path_ != "*" && path.find(path_) == std::string::npos)) return false;
  return calls_.empty() || ("," + calls_ + ",").find("," + std::string(call) + ",") != std::string::npos;
}

void Faults::log(const std::string& line) const {
  if (log_ >= 0) static_cast<void>(!write_(log_, line.data(), line.size()));
}

int Faults::act() const {
  while (!until_.empty() && ::access(until_.c_str(), F_OK) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (action_ == "kill") ::kill(::getpid(), SIGKILL);
  if (action_ == "segv") ::kill(::getpid(), SIGSEGV);
  if (action_ == "stop") ::kill(::getpid(), SIGSTOP);
  if (action_ == "exit") std::exit(0);
  while (action_ == "stall") ::pause();
  if (action_ == "slow") {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atol(setting("FAULT_MS").c_str())));
    return 0;
  }
  if (action_ == "flip") return kFlip;
  return action_ == "short" ? kHalf : std::atoi(action_.c_str());
}

}  // namespace faults

// SPDX-License-Identifier: Apache-2.0
#include "cuda/cudnn/oracle.h"

#include <cudnn_ops.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace trainer::cuda::cudnn {
namespace {

bool send_all(int socket, const void* data, size_t bytes) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, size_t bytes) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t received = ::recv(socket, at, bytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    at += received;
    bytes -= static_cast<size_t>(received);
  }
  return true;
}

/// Possible folders of the toolkit's libraries: the one that is named, that of cuDNN, that of the build.
std::vector<std::filesystem::path> toolkit_folders() {
  std::vector<std::filesystem::path> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* home = std::getenv(variable);
    if (home == nullptr) continue;
    for (const char* folder : {"lib64", "lib"}) folders.push_back(std::filesystem::path(home) / folder);
  }
  Dl_info cudnn{};
  if (::dladdr(reinterpret_cast<void*>(&cudnnGetVersion), &cudnn) != 0)
    folders.push_back(std::filesystem::path(cudnn.dli_fname).parent_path());
  folders.emplace_back(TRAINER_CUDA_LIBRARIES);
  return folders;
}

/// The toolkit's libcuda.so, which has every function and does nothing; empty if there is none.
std::string stub_of_the_driver() {
  for (const auto& folder : toolkit_folders()) {
    std::error_code unreadable;
    const auto file = folder / "stubs" / "libcuda.so";
    if (std::filesystem::exists(file, unreadable)) return file;
  }
  return "";
}

/// cuDNN opens libcuda.so.1 by that name, and the loader returns the library already loaded under it. Without
/// one cuDNN omits the engines that it would compile, and so orders the rest wrongly. Never closed.
void load_driver() {
  if (::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  const std::string stub = stub_of_the_driver();
  if (!stub.empty()) static_cast<void>(::dlopen(stub.c_str(), RTLD_NOW | RTLD_GLOBAL));
}

/// cuDNN opens and closes the runtime compiler for every question, which took a third of the time. An open
/// library opens at once. Never closed.
void hold_runtime_compiler() {
  const std::string name = fmt::format("libnvrtc.so.{}", cudnnGetCudartVersion() / 1000);
  for (const auto& folder : toolkit_folders()) {
    if (::dlopen((folder / name).c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) return;
  }
}

/// First line: the refusal, or nothing. Then "engine workspace fallback tensor_cores" line by line.
std::string to_text(const Answer& answer) {
  std::string text = answer.refusal + "\n";
  for (const EngineChoice& choice : answer.choices)
    text += fmt::format("{} {} {:d} {:d}\n", choice.text, choice.workspace_bytes, choice.fallback,
                        choice.tensor_cores);
  return text;
}

Answer to_answer(const std::string& text) {
  Answer answer;
  std::istringstream lines(text);
  std::getline(lines, answer.refusal);
  EngineChoice choice;
  while (lines >> choice.text >> choice.workspace_bytes >> choice.fallback >> choice.tensor_cores)
    answer.choices.push_back(choice);
  return answer;
}

Answer answer_to(const Graph& graph, const Descriptor& device) {
  try {
    return {.choices = engine_choices(graph, {.properties = &device}), .refusal = ""};
  } catch (const std::exception& problem) {
    return {.choices = {}, .refusal = problem.what()};
  }
}

/// The process: answers until its client has gone.
void serve(int socket, const std::string& json) {
  load_driver();
  hold_runtime_compiler();
  std::unique_ptr<Descriptor> device;
  std::string refusal;
  try {
    device = std::make_unique<Descriptor>(described_device(json));
  } catch (const std::exception& problem) {
    refusal = fmt::format("cuDNN does not take the device's description: {}", problem.what());
  }
  Graph graph;
  while (receive_all(socket, &graph, sizeof graph)) {
    const std::string text =
        to_text(device ? answer_to(graph, *device) : Answer{.choices = {}, .refusal = refusal});
    const uint64_t size = text.size();
    if (!send_all(socket, &size, sizeof size) || !send_all(socket, text.data(), text.size())) return;
  }
}

}  // namespace

Oracle::Oracle(std::string json) : json_(std::move(json)) {
  start();
}

bool Oracle::knows_compiled_engines() {
  if (!stub_of_the_driver().empty()) return true;
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

Oracle::~Oracle() {
  stop();
}

void Oracle::start() {
  static_assert(std::is_trivially_copyable_v<Graph>);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  process_ = ::fork();
  if (process_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The program's reactions to signals do not apply to this process.
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT})
      ::signal(signal, SIG_DFL);
    ::close(ends[0]);
    serve(ends[1], json_);
    ::_exit(0);
  }
  ::close(ends[1]);
  socket_ = ends[0];
}

void Oracle::stop() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  ::close(socket_);
  process_ = socket_ = -1;
}

std::string Oracle::obituary() {
  int status = 0;
  ::waitpid(process_, &status, 0);
  ::close(socket_);
  process_ = socket_ = -1;
  return WIFSIGNALED(status)
             ? fmt::format("cuDNN crashed when asked about it ({})", ::strsignal(WTERMSIG(status)))
             : fmt::format("cuDNN ended the process that asked it (exit code {})", WEXITSTATUS(status));
}

Answer Oracle::ask(const Graph& graph) {
  if (process_ < 0) start();
  uint64_t size = 0;
  if (!send_all(socket_, &graph, sizeof graph) || !receive_all(socket_, &size, sizeof size))
    return {.choices = {}, .refusal = obituary()};
  std::string text(size, '\0');
  if (!receive_all(socket_, text.data(), text.size())) return {.choices = {}, .refusal = obituary()};
  return to_answer(text);
}

}  // namespace trainer::cuda::cudnn

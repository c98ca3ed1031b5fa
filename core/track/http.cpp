// SPDX-License-Identifier: Apache-2.0
#include "core/track/http.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "core/base/printable.h"
#include "core/base/version.h"
#include "core/track/curl_library.h"

namespace trainer {
namespace {

/// The tracker's own answers have kilobytes; a run with a thousand metrics has a few hundred.
constexpr size_t kMostAnswerBytes = size_t{8} << 20;

constexpr long kConnectSeconds = 10;
/// A server that takes this long over a request may still answer. A slow link is no reason to give up.
constexpr long kSilentSeconds = 60;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// A line break would begin another header.
void require_printable(const std::string& value, const char* name) {
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; };
  if (std::ranges::any_of(value, is_control))
    throw Error(ExitCode::usage,
                fmt::format("{} contains a line break or another control character; set it again", name));
}

/// Children of the program do not inherit it.
curl_socket_t open_socket(void* /*unused*/, curlsocktype /*purpose*/, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

template <class Value>
void set(CURL* curl, CURLoption option, Value value) {
  if (curl_library().easy_setopt(curl, option, value) != CURLE_OK)
    throw std::logic_error(fmt::format("libcurl does not take option {}", static_cast<int>(option)));
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_library().slist_free_all(list); }
};

}  // namespace

struct HttpClient::Answer {
  std::string body;
  bool is_too_long = false;
};

Credentials credentials_from_environment() {
  Credentials found{.token = variable("MLFLOW_TRACKING_TOKEN"),
                    .user = variable("MLFLOW_TRACKING_USERNAME"),
                    .password = variable("MLFLOW_TRACKING_PASSWORD"),
                    .authorities = variable("MLFLOW_TRACKING_SERVER_CERT_PATH")};
  if (found.authorities.empty()) found.authorities = variable("SSL_CERT_FILE");
  require_printable(found.token, "MLFLOW_TRACKING_TOKEN");
  require_printable(found.user, "MLFLOW_TRACKING_USERNAME");
  require_printable(found.password, "MLFLOW_TRACKING_PASSWORD");
  return found;
}

HttpClient::HttpClient(Credentials credentials, std::function<bool()> is_cancelled)
    : credentials_(std::move(credentials)),
      is_cancelled_(std::move(is_cancelled)),
      curl_(nullptr, [](void*) {}) {
  static const CURLcode started = curl_library().global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) throw std::bad_alloc();
  curl_ = {curl_library().easy_init(), curl_library().easy_cleanup};
  if (!curl_) throw std::bad_alloc();
}

HttpClient::~HttpClient() = default;

size_t HttpClient::take(char* bytes, size_t size, size_t count, void* answer) {
  auto& into = *static_cast<Answer*>(answer);
  into.is_too_long = into.body.size() + size * count > kMostAnswerBytes;
  if (into.is_too_long) return 0;
  into.body.append(bytes, size * count);
  return size * count;
}

int HttpClient::ask_cancelled(void* client, int64_t /*unused*/, int64_t /*unused*/, int64_t /*unused*/,
                              int64_t /*unused*/) {
  return static_cast<HttpClient*>(client)->is_cancelled_() ? 1 : 0;
}

HttpResponse HttpClient::send(const HttpRequest& request) {
  CURL* curl = curl_.get();
  curl_library().easy_reset(curl);  // the connection stays
  std::array<char, CURL_ERROR_SIZE> problem{};
  Answer answer;
  set(curl, CURLOPT_ERRORBUFFER, problem.data());
  set(curl, CURLOPT_URL, request.url.c_str());
  set(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  set(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  set(curl, CURLOPT_USERAGENT, fmt::format("trainer/{}", kVersion).c_str());
  set(curl, CURLOPT_NOSIGNAL, 1L);    // signals belong to the run
  set(curl, CURLOPT_QUICK_EXIT, 1L);  // a name server that hangs would delay the end
  set(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(curl, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
  set(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  set(curl, CURLOPT_WRITEFUNCTION, &HttpClient::take);
  set(curl, CURLOPT_WRITEDATA, static_cast<void*>(&answer));
  set(curl, CURLOPT_NOPROGRESS, 0L);
  set(curl, CURLOPT_XFERINFOFUNCTION, &HttpClient::ask_cancelled);
  set(curl, CURLOPT_XFERINFODATA, static_cast<void*>(this));
  if (!credentials_.authorities.empty()) set(curl, CURLOPT_CAINFO, credentials_.authorities.c_str());
  if (!credentials_.token.empty()) {
    set(curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    set(curl, CURLOPT_XOAUTH2_BEARER, credentials_.token.c_str());
  } else if (!credentials_.user.empty()) {
    set(curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
    set(curl, CURLOPT_USERNAME, credentials_.user.c_str());
    set(curl, CURLOPT_PASSWORD, credentials_.password.c_str());
  } else {
    set(curl, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
  }
  std::unique_ptr<curl_slist, FreeList> headers;
  if (!request.content_type.empty()) {
    // `Expect: 100-continue` would cost a second with servers that do not know it.
    headers.reset(curl_library().slist_append(nullptr, "Expect:"));
    headers.reset(curl_library().slist_append(headers.release(),
                                              fmt::format("Content-Type: {}", request.content_type).c_str()));
    set(curl, CURLOPT_HTTPHEADER, headers.get());
    set(curl, CURLOPT_POSTFIELDS, request.body.data());
    set(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  }
  const CURLcode code = curl_library().easy_perform(curl);
  long status = 0;
  curl_library().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_library().easy_reset(curl);  // it must not keep what ends with this function
  if (answer.is_too_long) throw Error(ExitCode::io, "its answer has more than 8 MiB");
  if (code == CURLE_ABORTED_BY_CALLBACK) throw Error(ExitCode::io, "it did not answer in time");
  if (code != CURLE_OK)
    throw Error(ExitCode::io,
                one_line(problem[0] != '\0' ? problem.data() : curl_library().easy_strerror(code)));
  return {status, std::move(answer.body)};
}

}  // namespace trainer

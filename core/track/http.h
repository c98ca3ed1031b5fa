// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/error.h"

namespace trainer {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::string body;          ///< sent if there is a content type
  std::string content_type;  ///< of the body; empty: there is none
};

struct HttpResponse {
  int64_t status = 0;
  std::string body;
};

/// Proofs of identity, from the environment. They are passed to the server only.
struct Credentials {
  std::string token;           ///< MLFLOW_TRACKING_TOKEN
  std::string user, password;  ///< MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD
  std::string authorities;     ///< a file of certificates: MLFLOW_TRACKING_SERVER_CERT_PATH, or SSL_CERT_FILE
};

/// Throws Error (exit 64) if a token has characters that no header may have.
Credentials credentials_from_environment();

/// Requests by HTTP and HTTPS, one after another, over a connection that is kept. Without credentials those
/// of ~/.netrc are used. Certificates are the system's unless given, proxies those of the environment
/// (https_proxy), and redirects are not followed. For one thread.
class HttpClient {
 public:
  /// `is_cancelled` is asked several times a second while a request is under way, and ends it.
  HttpClient(Credentials credentials, std::function<bool()> is_cancelled);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Throws Error (exit 74) if no answer comes: the host is unknown or refuses, its certificate is not valid,
  /// nothing moves for a minute, or the request is cancelled.
  HttpResponse send(const HttpRequest& request);

 private:
  struct Answer;
  static size_t take(char* bytes, size_t size, size_t count, void* answer);
  static int ask_cancelled(void* client, int64_t, int64_t, int64_t, int64_t);

  Credentials credentials_;
  std::function<bool()> is_cancelled_;
  std::unique_ptr<void, void (*)(void*)> curl_;
};

}  // namespace trainer

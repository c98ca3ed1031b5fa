// SPDX-License-Identifier: Apache-2.0
#include "core/train/measured_nodes.h"

#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "core/base/error.h"
#include "core/graph/ops/unary.h"
#include "tests/catch.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

Node relu_at(const std::string& path) {
  return {.op = std::make_shared<Unary>(elementwise::Function(elementwise::Relu{})),
          .inputs = {},
          .outputs = {},
          .origin = {.where = {}, .path = path}};
}

std::string event(const std::string& name, double microseconds, double bytes, double flops, int rank = 0) {
  return fmt::format(
      R"({{"name": "{}", "cat": "forward", "ph": "X", "ts": 0, "dur": {}, "pid": {}, "tid": 2,
           "args": {{"implementation": "x", "bytes": {}, "flops": {}}}}})",
      name, microseconds, rank, bytes, flops);
}
const std::string kStepEnds =
    R"({"name": "step 3", "cat": "step", "ph": "X", "ts": 0, "dur": 1, "pid": 0, "tid": 0})";

class TraceFile {
 public:
  explicit TraceFile(const std::string& text)
      : path_(fs::temp_directory_path() / "measured_nodes_test.json") {
    std::ofstream(path_) << text;
  }
  ~TraceFile() { fs::remove(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string trace_of(const std::vector<std::string>& events) {
  return fmt::format(R"({{"displayTimeUnit": "ms", "traceEvents": [{}]}})", fmt::join(events, ","));
}

}  // namespace

TEST_CASE("a node takes the median of its measured times, in proportion to its work") {
  std::vector<std::string> events;
  for (const double factor : {1.0, 3.0, 2.0}) {  // of three steps with two micro-batches each
    for (int batch = 0; batch < 2; ++batch) {
      events.push_back(event("relu a", 10 * factor, 100, 0));
      events.push_back(event("relu a", 20 * factor, 100, 0));
    }
    events.push_back(event("relu a", 1e6, 100, 0, 1));  // of another rank
    events.push_back(kStepEnds);
  }
  const TraceFile file(trace_of(events));
  const MeasuredNodes nodes(file.path());
  const Node a = relu_at("a");
  CHECK(nodes.seconds(a, {.bytes = 100}, 0, 2) == Approx(20e-6));
  CHECK(nodes.seconds(a, {.bytes = 100}, 1, 2) == Approx(40e-6));
  CHECK(nodes.seconds(a, {.bytes = 50}, 1, 2) == Approx(20e-6));
  CHECK(nodes.has(a));
  // One that was not measured takes the mean time a byte: 60 and 120 and 180 us of 1200 bytes.
  CHECK_FALSE(nodes.has(relu_at("b")));
  CHECK(nodes.seconds(relu_at("b"), {.bytes = 1000}, 0, 1) == Approx(300e-6));
}

TEST_CASE("work is compared by FLOPs where both have some, and an entry may have other numbers of nodes") {
  const TraceFile file(trace_of({event("relu a", 10, 100, 1000), event("relu a", 30, 100, 1000),
                                 event("relu a", 50, 100, 1000), kStepEnds}));
  const MeasuredNodes nodes(file.path());
  CHECK(nodes.seconds(relu_at("a"), {.bytes = 700, .flops = 2000}, 0, 1) == Approx(60e-6));
  CHECK(nodes.seconds(relu_at("a"), {.bytes = 100, .flops = 1000}, 0, 2) == Approx(10e-6));
  CHECK(nodes.seconds(relu_at("a"), {.bytes = 100, .flops = 1000}, 1, 2) == Approx(30e-6));
  CHECK(nodes.seconds(relu_at("a"), {.bytes = 100, .flops = 1000}, 4, 5) == Approx(50e-6));
}

TEST_CASE("what is no profile is refused with its file") {
  for (const auto& [text, problem] :
       {std::pair{"", "it is not a profile"},
        {"[]", "it is not a profile"},
        {R"({"traceEvents": 3})", "it is not a profile"},
        {R"({"traceEvents": []})", "it has no operations of rank 0"},
        {R"({"traceEvents": [{"name": "relu a", "ph": "X", "pid": 0, "tid": 2, "args": {}}]})",
         "an older release wrote it"}}) {
    const TraceFile file(text);
    try {
      const MeasuredNodes nodes(file.path());
      FAIL(text);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::data);
      CHECK_THAT(error.what(), ContainsSubstring(file.path().string()) && ContainsSubstring(problem) &&
                                   ContainsSubstring("--profile"));
    }
  }
}

}  // namespace trainer

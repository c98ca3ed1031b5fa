// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>
#include "tests/catch.h"

#include "core/base/checksum.h"
#include "core/base/error.h"
#include "core/base/text_cache.h"
#include "cuda/cudnn/library.h"
#include "tests/cuda_standin/dnn.h"
#include "tests/cuda_standin/surroundings.h"

using namespace trainer;
using namespace trainer::cuda::cudnn;
using standin::expect_refusal;
using standin::Surroundings;

namespace {

ConvolutionGraph small_graph() {
  return {.x = {1, 4, 4, 4}, .w = {4, 4, 1, 1}, .y = {1, 4, 4, 4}, .stride = {1, 1}, .dilation = {1, 1}};
}

}  // namespace

TEST_CASE("cuDNN wants its workspace at 256 bytes and tensors as promised, and no capture when it is asked") {
  const Surroundings s;
  const auto library = Library::on_device(s.stream, "a stand-in");
  ConvolutionGraph graph = small_graph();
  CHECK(s.captured([&] { CHECK(library->ask(graph).choices.empty()); }) == cudaErrorStreamCaptureInvalidated);
  expect_refusal("cuDNN: heuristics are asked while a stream is captured");
  graph.deterministic = true;  // another one: answers are remembered
  const EngineChoice engine = library->usable(graph, 1).at(0);
  REQUIRE(engine.workspace_bytes > 0);
  void* workspace = nullptr;
  cudaMalloc(&workspace, static_cast<size_t>(engine.workspace_bytes) + 64);
  const auto run = [&](std::ptrdiff_t skipped, std::ptrdiff_t workspace_skipped) {
    auto* data = static_cast<std::byte*>(s.device) + skipped;
    library->plan(graph, engine.text)
        ->run(addresses({{kX, data}, {kW, data + 1024}, {kY, data + 2048}},
                        static_cast<std::byte*>(workspace) + workspace_skipped));
  };
  CHECK_NOTHROW(run(0, 0));
  CHECK_THROWS_AS(run(0, 64), Error);
  expect_refusal("cuDNN: a workspace that is missing or not aligned to 256 bytes");
  CHECK_THROWS_AS(run(8, 0), Error);
  expect_refusal("aligned to less than was promised");
  cudaStreamSynchronize(s.stream);
  cudaFree(workspace);
}

TEST_CASE("a plan that another process has kept is read, or made anew where the library does not take it") {
  struct Memory final : TextCache {
    std::optional<std::string> find(std::string_view key) override {
      const auto found = texts.find(std::string(key));
      return found == texts.end() ? std::nullopt : std::optional(found->second);
    }
    void put(std::string_view key, std::string_view text) override {
      texts[std::string(key)] = text;
      ++puts;
    }
    std::map<std::string, std::string> texts;
    int puts = 0;
  };
  const Surroundings s;
  const auto cache = std::make_shared<Memory>();
  const ConvolutionGraph graph = small_graph();
  const auto open = [&](const std::string& machine) {
    return Library::on_device(s.stream, "a stand-in", cache, machine);
  };
  const auto first = open("one");
  const std::string engine = first->usable(graph, 1).at(0).text;
  const int64_t workspace = first->plan(graph, engine)->workspace_bytes();
  CHECK(cache->puts == 0);
  first->share(graph, engine);
  first->share(graph, engine);
  REQUIRE(cache->puts == 1);

  std::string& text = cache->texts.begin()->second;
  const std::string whole = text;
  const auto second = open("one");
  CHECK(second->plan(graph, engine)->workspace_bytes() == workspace);
  second->share(graph, engine);
  CHECK(cache->puts == 1);
  for (const std::string& damaged : {std::string("of another release"), whole.substr(0, whole.size() / 2)}) {
    text = damaged;
    const auto third = open("one");
    CHECK(third->plan(graph, engine)->workspace_bytes() == workspace);
    third->share(graph, engine);
    CHECK(text == whole);
  }
  open("two")->share(graph, engine);
  CHECK(cache->texts.size() == 2);
}

TEST_CASE("sums behind a convolution are added to what is there, and only engines that fuse make them") {
  const Surroundings s;
  const auto library = Library::on_device(s.stream, "a stand-in");
  ConvolutionGraph graph = small_graph();
  graph.dtype = DType::f16;
  const size_t alone = library->ask(graph).choices.size();
  graph.moments = true;
  REQUIRE(!library->ask(graph).choices.empty());
  CHECK(library->ask(graph).choices.size() < alone);
  const EngineChoice engine = library->usable(graph, 1).at(0);
  auto* data = static_cast<std::byte*>(s.device);
  void* workspace = nullptr;
  cudaMalloc(&workspace, static_cast<size_t>(engine.workspace_bytes));
  const std::vector<uint16_t> ones(64, 0x3C00);
  std::array<float, 4> sums{1, 2, 3, 4}, squares = sums;
  std::memcpy(data, ones.data(), 128);  // the stand-in's device memory is the host's
  std::memcpy(data + 512, ones.data(), 32);
  std::memcpy(data + 1536, sums.data(), 16);
  std::memcpy(data + 1792, squares.data(), 16);
  library->plan(graph, engine.text)
      ->run(addresses(
          {{kX, data}, {kW, data + 512}, {kY, data + 1024}, {kSums, data + 1536}, {kSquares, data + 1792}},
          workspace));
  cudaStreamSynchronize(s.stream);
  std::memcpy(sums.data(), data + 1536, 16);
  std::memcpy(squares.data(), data + 1792, 16);
  // y is 4 everywhere, 16 values a channel.
  CHECK(sums == std::array<float, 4>{65, 66, 67, 68});
  CHECK(squares == std::array<float, 4>{257, 258, 259, 260});
  cudaFree(workspace);
}

TEST_CASE("what cuDNN is told of a convolution is what kept plans were made of") {
  using Kind = ConvolutionGraph::Kind;
  std::string told;
  for (const auto kind : {Kind::forward, Kind::backward_data, Kind::backward_weights}) {
    for (int variant = 0; variant < 4; ++variant) {
      const bool forward = kind == Kind::forward;
      ConvolutionGraph graph{.kind = kind,
                             .dtype = variant == 0   ? DType::f32
                                      : variant == 1 ? DType::bf16
                                                     : DType::f16,
                             .bias_dtype = variant == 3 ? DType::f16 : DType::f32,
                             .x = {2, 4, 9, 7},
                             .w = {6, 2, 3, 2},
                             .y = {2, 6, 6, 3},
                             .padding = {2, 1},
                             .stride = {2, 3},
                             .dilation = {1, 2},
                             .bias = forward && variant % 2 == 1,
                             .relu = forward && variant >= 2,
                             .x_alignment = variant == 1 ? 4 : 16};
      if (variant != 3) graph.dw_dtype = graph.dtype;
      const Descriptor operations = operation_graph(graph, nullptr);
      told += standin::text_of(**static_cast<standin::ObjectPointer*>(operations.get()));
    }
  }
  INFO("raise kGraphRevision, and write the new checksum here");
  CHECK(kGraphRevision == 1);
  CHECK(checksum(std::as_bytes(std::span(told.data(), told.size()))) == 0x8131d8b1e9caf4cd);
  ConvolutionGraph measuring = small_graph();
  measuring.moments = true;
  const Descriptor operations = operation_graph(measuring, nullptr);
  told = standin::text_of(**static_cast<standin::ObjectPointer*>(operations.get()));
  CHECK(checksum(std::as_bytes(std::span(told.data(), told.size()))) == 0x14c50932470838cb);
}

TEST_CASE("what cuDNN is told of attention is what kept plans were made of") {
  using Kind = AttentionGraph::Kind;
  std::string told;
  for (const auto kind : {Kind::forward, Kind::backward}) {
    for (int variant = 0; variant < 4; ++variant) {
      const bool packed = variant % 2 == 0, odd = variant >= 2;
      const AttentionGraph graph{.kind = kind,
                                 .dtype = odd ? DType::bf16 : DType::f16,
                                 .samples = 2,
                                 .positions = 9,
                                 .heads = 4,
                                 .kv_heads = packed ? 4 : 2,
                                 .size = 8,
                                 .q_row = packed ? 96 : 32,
                                 .kv_row = packed ? 96 : 16,
                                 .causal = odd,
                                 .log_sum = kind == Kind::forward && !odd,
                                 .deterministic = kind == Kind::backward && odd};
      const Descriptor operations = operation_graph(graph, nullptr);
      told += standin::text_of(**static_cast<standin::ObjectPointer*>(operations.get()));
    }
  }
  INFO("raise kGraphRevision, and write the new checksum here");
  CHECK(checksum(std::as_bytes(std::span(told.data(), told.size()))) == 0xa84b6528ffb9ed52);
}

TEST_CASE("a plan of attention wants its tensors as promised") {
  const Surroundings s;
  const auto library = Library::on_device(s.stream, "a stand-in");
  const AttentionGraph graph{
      .samples = 1, .positions = 2, .heads = 1, .kv_heads = 1, .size = 8, .q_row = 24, .kv_row = 24};
  const EngineChoice engine = library->usable(graph, 1).at(0);
  void* workspace = nullptr;
  cudaMalloc(&workspace, static_cast<size_t>(engine.workspace_bytes));
  float scale = 1;
  const auto run = [&](std::ptrdiff_t skipped) {
    auto* data = static_cast<std::byte*>(s.device) + skipped;
    const Descriptor places = addresses({{AttentionGraph::kQuery, data},
                                         {AttentionGraph::kKey, data + 16},
                                         {AttentionGraph::kValue, data + 32},
                                         {AttentionGraph::kResult, data + 1024},
                                         {AttentionGraph::kScale, &scale}},
                                        workspace);
    library->plan(graph, engine.text)->run(places);
  };
  CHECK_NOTHROW(run(0));
  CHECK_THROWS_AS(run(8), Error);
  expect_refusal("aligned to less than was promised");
  cudaStreamSynchronize(s.stream);
  cudaFree(workspace);
}

// SPDX-License-Identifier: Apache-2.0
#include "cuda/cudnn/descriptor.h"

#include <csignal>
#include "tests/catch.h"

#include "core/base/error.h"
#include "cuda/cudnn/library.h"
#include "tests/cudnn/devices.h"

namespace trainer::cuda::cudnn {
namespace {

using Catch::Matchers::ContainsSubstring;

ConvolutionGraph small_convolution() {
  ConvolutionGraph graph;
  graph.dtype = DType::f16;
  graph.x = {8, 16, 12, 12};
  graph.w = {32, 16, 3, 3};
  graph.y = {8, 32, 12, 12};
  graph.padding = graph.stride = graph.dilation = {1, 1};
  return graph;
}

}  // namespace

TEST_CASE("attributes come back as they were set") {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor of the test");
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_HALF)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<int64_t>{2, 3, 4, 5})
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<int64_t>{60, 1, 15, 3})
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{7})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  tensor.finalize();
  CHECK(tensor.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID) == 7);
  CHECK(tensor.values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES) == std::vector<int64_t>{60, 1, 15, 3});
  CHECK(tensor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_HALF);
  CHECK(tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL));
}

TEST_CASE("a refused call names the object and gives cuDNN's words") {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor of the test");
  try {
    tensor.finalize();
    FAIL("a tensor without sizes was taken");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::internal);
    CHECK_THAT(error.what(),
               ContainsSubstring("a tensor of the test: cuDNN returned CUDNN_STATUS_BAD_PARAM"));
  }
  CHECK_THROWS_WITH(tensor.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT),
                    ContainsSubstring("a tensor of the test, attribute 100: cuDNN returned CUDNN_STATUS_"));
}

TEST_CASE("a part of cuDNN that is not installed is told as that, exit 69") {
  try {
    check(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, "anything");
    FAIL("a failure passed");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::no_device);
    CHECK_THAT(error.what(),
               ContainsSubstring("cuDNN is incomplete: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED") &&
                   ContainsSubstring("next to libcudnn.so.9"));
  }
}

TEST_CASE("a described device's engines come best first, with knobs and workspace, the same every time") {
  const std::string json = shipped_device("h200").properties;
  Oracle oracle(json);
  const Answer answer = oracle.ask(small_convolution());
  CHECK(answer.refusal.empty());
  REQUIRE(answer.choices.size() > 8);
  CHECK(!answer.choices.front().fallback);
  CHECK(answer.choices.back().fallback);
  bool knobs = false;
  for (const EngineChoice& choice : answer.choices)
    knobs = knobs || choice.text.find(':') != std::string::npos;
  CHECK(knobs);

  Oracle another(json);
  const Answer again = another.ask(small_convolution());
  REQUIRE(again.choices.size() == answer.choices.size());
  for (size_t i = 0; i < again.choices.size(); ++i) {
    CHECK(again.choices[i].text == answer.choices[i].text);
    CHECK(again.choices[i].workspace_bytes == answer.choices[i].workspace_bytes);
  }
}

TEST_CASE("a graph that cannot be is refused, and the next question is answered") {
  Oracle oracle(shipped_device("h200").properties);
  ConvolutionGraph wrong = small_convolution();
  wrong.y = {8, 32, 5, 5};
  const Answer refused = oracle.ask(wrong);
  CHECK(refused.choices.empty());
  CHECK_THAT(refused.refusal, ContainsSubstring("cuDNN returned CUDNN_STATUS_BAD_PARAM"));
  CHECK(!oracle.ask(small_convolution()).choices.empty());
}

TEST_CASE("a crash inside cuDNN is a refusal that names the signal, and the next question is answered") {
  Oracle oracle(shipped_device("h200").properties);
  CHECK(!oracle.ask(small_convolution()).choices.empty());  // it listens now
  REQUIRE(::kill(oracle.process(), SIGSEGV) == 0);
  CHECK(oracle.ask(small_convolution()).refusal == "cuDNN crashed when asked about it (Segmentation fault)");
  CHECK(!oracle.ask(small_convolution()).choices.empty());
}

TEST_CASE("a gradient in f32 from f16 is cast by own kernels because only compiled engines convert it") {
  Oracle oracle(shipped_device(GENERATE("a100", "h200", "b200")).properties);
  ConvolutionGraph graph = small_convolution();
  graph.kind = ConvolutionGraph::Kind::backward_weights;
  graph.dw_dtype = DType::f16;
  CHECK(!graph.converts());
  const size_t many = oracle.ask(graph).choices.size();
  graph.dw_dtype = DType::f32;
  CHECK(graph.converts());
  const Answer converting = oracle.ask(graph);
  CHECK(converting.refusal.empty());
  CHECK(!converting.choices.empty());
  CHECK(converting.choices.size() < many);
}

TEST_CASE("graphs that differ in anything have different texts") {
  const ConvolutionGraph graph = small_convolution();
  std::vector<ConvolutionGraph> others(10, graph);
  others[0].kind = ConvolutionGraph::Kind::backward_data;
  others[1].dtype = DType::bf16;
  others[2].x[0] = 9;
  others[3].dilation[1] = 2;
  others[4].bias = true;
  others[5].relu = true;
  others[6].x_alignment = 4;
  others[7].tf32 = true;
  others[8].deterministic = true;
  others[9].moments = true;
  for (const ConvolutionGraph& other : others) CHECK(other.text() != graph.text());
  ConvolutionGraph gradient = others[0];
  gradient.kind = ConvolutionGraph::Kind::backward_weights;
  CHECK(gradient.text().ends_with(" to f32"));
  CHECK(graph.text() ==
        "forward f16 x=8x16x12x12 w=32x16x3x3 y=8x32x12x12 padding=1x1 stride=1x1 dilation=1x1");
}

TEST_CASE("a library remembers what it was asked, and offers no more than is wanted") {
  const auto library = Library::described(shipped_device("h200").properties, "NVIDIA H200");
  CHECK_THAT(library->title(), ContainsSubstring("cuDNN 9.") && ContainsSubstring(", NVIDIA H200"));
  CHECK(!library->on_device());
  const Answer& first = library->ask(small_convolution());
  CHECK(&library->ask(small_convolution()) == &first);
  const auto three = library->usable(small_convolution(), 3);
  REQUIRE(three.size() == 3);
  CHECK(three[0].text == first.choices[0].text);
}

}  // namespace trainer::cuda::cudnn

// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <vector>
#include "tests/catch.h"

#include "tests/cuda_emulation/device.h"
#include "tests/cuda_standin/refusals.h"
#include "tests/cuda_standin/streams.h"
#include "tests/cuda_standin/surroundings.h"

// Each refusal meets the mistake that it is made for, and a correct call beside it.

using namespace trainer;
using standin::expect_refusal;
using standin::Order;
using standin::Surroundings;

namespace {

emulation::Grid grid_of(void (*kernel)(const void*)) {
  return {
      .enter = kernel, .destroy = [](const void*) {}, .call = nullptr, .call_bytes = 0, .kernel = nullptr};
}

struct Product {
  explicit Product(cudaDataType_t type = CUDA_R_32F) {
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&how, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&matrix, type, 4, 4, 4);
    cublasLtMatmulPreferenceCreate(&preference);
    const uint64_t most = 1 << 20;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                         sizeof most);
  }
  ~Product() {
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(matrix);
    cublasLtMatmulDescDestroy(how);
    cublasLtDestroy(handle);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    REQUIRE(cublasLtMatmulDescSetAttribute(how, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  }
  void add_up_in_f32() {
    const uint32_t in_f32 = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &in_f32,
                                         sizeof in_f32);
  }
  cublasStatus_t ask(int most = 1) {
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, how, matrix, matrix, matrix, matrix, preference, most,
                                          results.data(), &count);
  }
  cublasStatus_t check(size_t number) {
    return cublasLtMatmulAlgoCheck(handle, how, matrix, matrix, matrix, matrix, &results[number].algo,
                                   &results[number]);
  }
  cublasStatus_t run(std::byte* data, void* workspace, cudaStream_t stream, int64_t to = 512,
                     float beta = 0) const {
    const float one = 1;
    return cublasLtMatmul(handle, how, &one, data, matrix, data + 256, matrix, &beta, data + 512, matrix,
                          data + to, matrix, &result.algo, workspace, result.workspaceSize, stream);
  }

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t how = nullptr;
  cublasLtMatrixLayout_t matrix = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  std::array<cublasLtMatmulHeuristicResult_t, 4> results{};
  cublasLtMatmulHeuristicResult_t& result = results[0];
};

}  // namespace

TEST_CASE("a capture is lost by allocations, waits, heuristics and the legacy stream, and takes work") {
  const Surroundings s;
  Product product;
  const std::vector<std::pair<std::string, std::function<void()>>> mistakes{
      {"cudaMalloc",
       [] {
         void* memory = nullptr;
         cudaMalloc(&memory, 1);
       }},
      {"cudaHostAlloc",
       [] {
         void* memory = nullptr;
         cudaHostAlloc(&memory, 1, cudaHostAllocDefault);
       }},
      {"cudaFree", [] { cudaFree(nullptr); }},
      {"cudaStreamSynchronize", [&] { cudaStreamSynchronize(s.stream); }},
      {"cudaEventSynchronize", [&] { cudaEventSynchronize(s.events[0]); }},
      {"heuristics", [&] { CHECK(product.ask() != CUBLAS_STATUS_SUCCESS); }},
      {"legacy stream",
       [&] { CHECK(cudaMemsetAsync(s.device, 0, 1, nullptr) == cudaErrorStreamCaptureImplicit); }},
      {"not pinned", [&] {
         char host = 0;
         s.copy(&host, 1);
       }}};
  for (const auto& [words, mistake] : mistakes) {
    INFO(words);
    standin::forget_refusal();
    CHECK(s.captured(mistake) == cudaErrorStreamCaptureInvalidated);
    expect_refusal(words);
  }
  standin::forget_refusal();
  CHECK(s.captured([&] { s.copy(s.pinned); }) == cudaSuccess);
  CHECK(standin::last_refusal().empty());
}

TEST_CASE("a product in a low type may not add up the parts of a split sum in that type") {
  Product product(CUDA_R_16F);
  CHECK(product.ask() != CUBLAS_STATUS_SUCCESS);
  expect_refusal("its parts added up in a low type");
  product.add_up_in_f32();
  CHECK(product.ask() == CUBLAS_STATUS_SUCCESS);
  CHECK(Product().ask() == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("an asynchronous copy wants pinned memory, or a wait behind it") {
  const Surroundings s;
  std::vector<char> host(Surroundings::kBytes);
  CHECK(s.copy(host.data()) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s.stream) == cudaSuccess);
  CHECK(s.copy(s.pinned) == cudaSuccess);
  CHECK(s.copy(s.pinned) == cudaSuccess);
  CHECK(s.copy(host.data()) == cudaSuccess);
  CHECK(s.copy(s.pinned) == cudaErrorInvalidValue);
  expect_refusal("memory that is not pinned");
  cudaStreamSynchronize(s.stream);  // which reads the host's memory
}

TEST_CASE("memory that an enqueued copy works on may not be freed") {
  const Surroundings s;
  void *device = nullptr, *pinned = nullptr;
  for (const bool early : {false, true}) {
    standin::forget_refusal();
    cudaMalloc(&device, 64);
    cudaHostAlloc(&pinned, 64, cudaHostAllocDefault);
    cudaMemcpyAsync(device, pinned, 64, cudaMemcpyHostToDevice, s.stream);
    if (!early) cudaStreamSynchronize(s.stream);
    CHECK((cudaFreeHost(pinned) == cudaSuccess) == !early);
    if (early) expect_refusal("cudaFreeHost of memory that an enqueued cudaMemcpyAsync works on");
    standin::forget_refusal();
    CHECK(cudaFree(device) == cudaSuccess);
  }
  CHECK(cudaMemcpyAsync(device, s.pinned, 64, cudaMemcpyHostToDevice, s.stream) == cudaErrorInvalidValue);
  expect_refusal("not allocated");
}

TEST_CASE("a time is that of two events that are done, and not recorded again") {
  const Surroundings s;
  float time = 0;
  const auto record = [&](int i) { cudaEventRecord(s.events[i], s.stream); };
  record(0);
  s.copy(s.pinned);
  record(1);
  CHECK(cudaEventQuery(s.events[1]) == cudaErrorNotReady);
  cudaEventSynchronize(s.events[1]);
  CHECK(cudaEventElapsedTime(&time, s.events[0], s.events[1]) == cudaSuccess);
  CHECK(time > 0);
  record(1);
  CHECK(cudaEventElapsedTime(&time, s.events[0], s.events[1]) == cudaErrorNotReady);
  expect_refusal("recorded again");
  record(0);
  cudaStreamSynchronize(s.stream);
  CHECK(cudaEventElapsedTime(&time, s.events[0], s.events[1]) == cudaErrorInvalidValue);
  expect_refusal("recorded again");
}

TEST_CASE("a grid has at most 65,535 blocks in y and z, and a block 48 KiB of shared memory") {
  const auto nothing = grid_of([](const void*) { emulation::wait_for_previous_kernels(); });
  const Surroundings s;
  CHECK(emulation::launch_grid(s.stream, nothing, {1, 65535, 1}, {1, 1, 1}) == cudaSuccess);
  for (const dim3& blocks : {dim3{1, 65536, 1}, dim3{1, 1, 65536}}) {
    CHECK(emulation::launch_grid(s.stream, nothing, blocks, {1, 1, 1}) == cudaErrorInvalidConfiguration);
    expect_refusal("a grid of 1x");
  }
  static const char key = 0;
  const auto greedy = grid_of([](const void*) {
    emulation::wait_for_previous_kernels();
    emulation::shared_variable(&key, size_t{50} << 10);
  });
  CHECK(emulation::launch_grid(s.stream, greedy, {1, 1, 1}, {1, 1, 1}) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s.stream) == cudaErrorLaunchFailure);
  expect_refusal("48 KiB");
}

TEST_CASE("cuBLASLt takes a bias, or sums up its gradient, only in the type of the product") {
  for (const cublasLtEpilogue_t epilogue :
       {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    for (const int32_t of_bias : {int32_t{CUDA_R_16F}, int32_t{CUDA_R_32F}, -1}) {
      for (const cudaDataType_t of_product : {CUDA_R_16F, CUDA_R_32F}) {
        CAPTURE(int{epilogue}, of_bias, int{of_product});
        Product product(of_product);
        product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
        product.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, of_bias);
        product.add_up_in_f32();
        standin::forget_refusal();
        const bool fits = of_bias == -1 || of_bias == of_product;
        CHECK(product.ask() == (fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED));
        if (fits) CHECK(standin::last_refusal().empty());
        if (!fits) expect_refusal("of another type than the product");
      }
    }
  }
}

TEST_CASE("some of cuBLASLt's algorithms split a sum, if they are told how to add up its parts") {
  Product product;
  REQUIRE(product.ask(4) == CUBLAS_STATUS_SUCCESS);
  const auto split = [&](size_t number, int32_t parts, uint32_t reduction) {
    cublasLtMatmulAlgo_t& algorithm = product.results[number].algo;
    cublasLtMatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts);
    cublasLtMatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
                                         sizeof reduction);
    return product.check(number);
  };
  CHECK(split(1, 8, CUBLASLT_REDUCTION_SCHEME_NONE) == CUBLAS_STATUS_INVALID_VALUE);
  expect_refusal("without a way to add up its parts");
  CHECK(split(0, 8, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == CUBLAS_STATUS_NOT_SUPPORTED);
  const size_t before = product.results[1].workspaceSize;
  CHECK(split(1, 8, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.results[1].workspaceSize == before + 8 * 16 * sizeof(float));
  product.set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{CUBLAS_OP_T});
  CHECK(product.check(1) == CUBLAS_STATUS_INVALID_VALUE);
  expect_refusal("another product");
}

TEST_CASE(
    "cuBLASLt wants its workspace at 256 bytes, matrices as promised and apart, and its own algorithm") {
  const Surroundings s;
  Product product;
  REQUIRE(product.ask() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.result.workspaceSize > 0);
  void* workspace = nullptr;
  cudaMalloc(&workspace, product.result.workspaceSize + 64);
  auto* data = static_cast<std::byte*>(s.device);
  CHECK(product.run(data, workspace, s.stream) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.run(data, static_cast<std::byte*>(workspace) + 64, s.stream) == CUBLAS_STATUS_INVALID_VALUE);
  expect_refusal("not aligned to 256 bytes");
  CHECK(product.run(data + 64, workspace, s.stream) == CUBLAS_STATUS_INVALID_VALUE);
  expect_refusal("less than was promised");
  CHECK(product.run(data, workspace, s.stream, 512, 0.5f) == CUBLAS_STATUS_SUCCESS);
  for (const int64_t factor : {0, 256}) {
    CHECK(product.run(data, workspace, s.stream, factor) == CUBLAS_STATUS_INVALID_VALUE);
    expect_refusal("over what it reads");
  }
  product.set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{CUBLAS_OP_T});
  CHECK(product.run(data, workspace, s.stream) == CUBLAS_STATUS_INVALID_VALUE);
  expect_refusal("another product");
  cudaStreamSynchronize(s.stream);
  cudaFree(workspace);
}

TEST_CASE("a stream takes nothing from a thread that uses another GPU") {
  const Surroundings s;
  CHECK(cudaSetDevice(8) == cudaErrorInvalidDevice);
  CHECK(cudaMemsetAsync(s.device, 0, Surroundings::kBytes, s.stream) == cudaSuccess);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaMemsetAsync(s.device, 0, Surroundings::kBytes, s.stream) == cudaErrorInvalidResourceHandle);
  expect_refusal("on a stream of GPU 0 by a thread that uses GPU 1");
  cudaStream_t other = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  CHECK(cudaMemsetAsync(s.device, 0, Surroundings::kBytes, other) == cudaSuccess);
  cudaStreamDestroy(other);
  cudaSetDevice(0);
}

TEST_CASE("no call is taken in a process that was forked after CUDA began") {
  const Surroundings s;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int count = 0;
    ::_exit(cudaGetDeviceCount(&count) == cudaErrorInitializationError ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a stream that waits for a captured event joins the capture, and must be waited for") {
  const Surroundings s;
  cudaStream_t other = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  auto* numbers = static_cast<std::byte*>(s.pinned);
  numbers[0] = std::byte{1};
  const auto fork = [&] {
    cudaEventRecord(s.events[0], s.stream);
    CHECK(cudaStreamWaitEvent(other, s.events[0], 0) == cudaSuccess);
    CHECK(cudaMemcpyAsync(s.device, s.pinned, 1, cudaMemcpyHostToDevice, other) == cudaSuccess);
    cudaEventRecord(s.events[1], other);
  };
  SECTION("not at all") {
    CHECK(s.captured(fork) == cudaErrorStreamCaptureUnjoined);
    expect_refusal("is not waited for");
  }
  SECTION("not to its end") {
    CHECK(s.captured([&] {
      fork();
      cudaMemcpyAsync(s.device, s.pinned, 1, cudaMemcpyHostToDevice, other);
      cudaStreamWaitEvent(s.stream, s.events[1], 0);
    }) == cudaErrorStreamCaptureUnjoined);
  }
  SECTION("for an event from before") {
    cudaEventRecord(s.events[0], other);
    cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal);
    CHECK(cudaStreamWaitEvent(s.stream, s.events[0], 0) == cudaErrorStreamCaptureIsolation);
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(s.stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  SECTION("as it must be: each launch does it again, and the stream goes on after it") {
    cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal);
    fork();
    CHECK(cudaStreamWaitEvent(s.stream, s.events[1], 0) == cudaSuccess);
    CHECK(cudaMemcpyAsync(numbers + 1, s.device, 1, cudaMemcpyDeviceToHost, s.stream) == cudaSuccess);
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(s.stream, &graph) == cudaSuccess);
    cudaGraphExec_t instance = nullptr;
    REQUIRE(cudaGraphInstantiate(&instance, graph, 0) == cudaSuccess);
    for (const int value : {3, 5}) {
      numbers[0] = static_cast<std::byte>(value);
      CHECK(cudaGraphLaunch(instance, s.stream) == cudaSuccess);
      cudaStreamSynchronize(s.stream);
      CHECK(numbers[1] == static_cast<std::byte>(value));
    }
    cudaGraphExecDestroy(instance);
    cudaGraphDestroy(graph);
  }
  cudaStreamSynchronize(other);
  cudaStreamDestroy(other);
}

TEST_CASE("each order does what it may as early, or as late, as it says") {
  struct Expected {
    Order order;
    bool first, second;  // whether the work of a stream is done without a wait
  };
  for (const auto& [order, first, second] : {Expected{Order::late, false, false},
                                             {Order::copies_first, false, true},
                                             {Order::copies_last, true, false},
                                             {Order::early, true, true}}) {
    const Surroundings s;
    standin::Streams::all().set_order(order);
    cudaStream_t other = nullptr;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventRecord(s.events[0], s.stream);
    cudaEventRecord(s.events[1], other);
    CHECK((cudaEventQuery(s.events[0]) == cudaSuccess) == first);
    CHECK((cudaEventQuery(s.events[1]) == cudaSuccess) == second);
    // The other stream waits for the first, which does not wait.
    cudaEventRecord(s.events[0], s.stream);
    cudaStreamWaitEvent(other, s.events[0], 0);
    cudaEventRecord(s.events[1], other);
    CHECK(cudaEventSynchronize(s.events[1]) == cudaSuccess);
    CHECK(cudaEventQuery(s.events[0]) == cudaSuccess);
    cudaStreamDestroy(other);
  }
}

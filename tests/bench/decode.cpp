// SPDX-License-Identifier: Apache-2.0
// Our side of scripts/bench/decode.py and shards.py: a folder or shards of images to normalised training
// crops. Prints images per second of CPU time, and of elapsed time.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "core/config/fields.h"
#include "core/data/formats.h"
#include "core/data/pipeline.h"

namespace trainer {
namespace {

constexpr const char* kSection = R"(
format: {}
train: {}
workers: {}
augment:
  - random_resized_crop: 224
  - horizontal_flip
  - normalize: {{mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}}
)";

void measure(const char* format, const char* path, int64_t workers, int64_t images) {
  Diagnostics diagnostics;
  DataSection section;
  Fields fields;
  section.declare(fields);
  fields.read(parse_yaml(fmt::format(kSection, format, path, workers), "bench", diagnostics), "data",
              diagnostics);
  diagnostics.throw_if_any();
  const auto source = open_source(section, {.network_shape = {3, 224, 224}, .network_classes = 1000});
  constexpr int64_t kBatch = 50;
  const TrainingOrder order(source->size(), kBatch, false);
  const TrainingBatches batches{1, order, kBatch};
  const RowRequest request{.section = section,
                           .split = Split::train,
                           .network_shape = {3, 224, 224},
                           .network_origin = {},
                           .inputs = {{"images", DType::f32, {3, 224, 224}}, {"labels", DType::i32, {}}},
                           .training = &batches};
  DataPipeline pipeline(BatchMaker(source->rows(request), request.inputs, batches),
                        {.workers = section.worker_count(1), .prefetch = section.prefetch});
  pipeline.next();
  const std::clock_t began = std::clock();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t done = 0; done < images; done += kBatch) pipeline.next();
  const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("{:.2f} {:.2f}\n", static_cast<double>(images) / seconds,
             static_cast<double>(images) / elapsed.count());
}

}  // namespace
}  // namespace trainer

/// PATH WORKERS IMAGES [FORMAT], the number of images a multiple of 50.
int main(int count, char** arguments) {
  if (count != 4 && count != 5) {
    fmt::print(stderr, "usage: bench_decode PATH WORKERS IMAGES [FORMAT]\n");
    return 64;
  }
  try {
    trainer::measure(count == 5 ? arguments[4] : "image_folder", arguments[1], std::atoll(arguments[2]),
                     std::atoll(arguments[3]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}

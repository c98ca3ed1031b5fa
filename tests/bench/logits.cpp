// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "core/recipe/assemble.h"
#include "core/recipe/job.h"
#include "core/run/int8_weights.h"
#include "core/run/weights.h"
#include "cpu/backend.h"
#include "tests/reference/session.h"

// The logits of `trainer predict` on the CPU, for comparisons with exported models.
//   export_logits RECIPE WEIGHTS SAMPLES INPUT OUTPUT [-PASS...] [KEY=VALUE...]
// A pass with a minus is left out.
// INPUT has the network's input, tokens too, and OUTPUT gets its logits: f32, row-major.

namespace trainer {
namespace {

std::vector<float> numbers_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::copy_n(bytes.data(), numbers.size() * sizeof(float), reinterpret_cast<char*>(numbers.data()));
  return numbers;
}

int write_logits(int argc, char** argv) {
  constexpr int kOverrides = 6, kThreads = 2;
  if (argc < kOverrides) throw Error(ExitCode::usage, "needs RECIPE WEIGHTS SAMPLES INPUT OUTPUT");
  std::vector<std::string> disabled, overrides;
  for (const std::string& argument : std::vector<std::string>(argv + kOverrides, argv + argc)) {
    if (argument.starts_with('-'))
      disabled.push_back(argument.substr(1));
    else
      overrides.push_back(argument);
  }
  const auto recipe = Recipe::load(argv[1], overrides);
  const RunSpec spec = RunSpec(recipe).with_micro_batch(std::stoll(argv[3]));
  const Backend backend = make_cpu_backend(kThreads);
  const Job job = make_job(
      spec, *backend.planner,
      {.disabled_passes = disabled, .use = {.purpose = Purpose::predict}, .int8 = int8_network_in(argv[2])});
  Session session(job.program, backend, spec.seed());
  load_trained(session.executable(),
               {.model = argv[2], .averages = {}, .tied = recipe->model.tied_weights()});
  const bool reads_tokens = recipe->model.kind() == InputKind::tokens;
  session.set(reads_tokens ? input_name::kTokens : input_name::kImages, numbers_of(argv[4]));
  session.run(entry_name::kPredict);
  const std::vector<double> logits = session.output(entry_name::kPredict, output_name::kLogits);
  const std::vector<float> written(logits.begin(), logits.end());
  std::ofstream file(argv[5], std::ios::binary);
  file.write(reinterpret_cast<const char*>(written.data()),
             static_cast<std::streamsize>(written.size() * sizeof(float)));
  if (!file.flush()) throw Error(ExitCode::io, "cannot write the logits");
  return 0;
}

}  // namespace
}  // namespace trainer

int main(int argc, char** argv) try {
  return trainer::write_logits(argc, argv);
} catch (const std::exception& problem) {
  std::fprintf(stderr, "export_logits: %s\n", problem.what());
  return 1;
}

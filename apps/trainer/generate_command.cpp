// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>

#include "apps/trainer/commands.h"
#include "apps/trainer/input_part.h"
#include "apps/trainer/rank_output.h"
#include "apps/trainer/standard_streams.h"
#include "apps/trainer/trained_network.h"
#include "apps/trainer/trained_recipe.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/regular_file.h"
#include "core/engine/group_operations.h"
#include "core/host/stop.h"
#include "core/recipe/tokenizer.h"
#include "core/session/membership.h"
#include "core/text/text_stream.h"
#include "core/train/generation.h"

namespace trainer {
namespace {

struct Prompt {
  std::string text;
  std::vector<int32_t> tokens;
  std::string place;  ///< for messages: "the prompt", "prompts.txt:3"
};

Prompt make_prompt(const std::string& text, const std::string& place, const RecipeTokenizer& tokenizer) {
  Prompt prompt{.text = text, .tokens = tokenizer.tokenizer->encode(text), .place = place};
  if (!prompt.tokens.empty()) return prompt;
  if (!tokenizer.end_of_text) {
    throw Error(ExitCode::usage, fmt::format("{} is empty, and the tokenizer has no token that ends a text, "
                                             "after which a new one could begin; write a word or more",
                                             place));
  }
  prompt.tokens = {*tokenizer.end_of_text};
  return prompt;
}

std::string text_of_prompts(const std::string& path) try {
  return read_input(path);
} catch (const Error& problem) {
  throw Error(ExitCode::usage, fmt::format("{}; name a file of prompts", problem.what()));
}

/// Rank 0 reads the file, which may be a stream.
std::vector<Prompt> read_prompts(const GenerateArguments& wanted, const RecipeTokenizer& tokenizer,
                                 ProcessGroup& group) {
  if (wanted.prompts.empty()) return {make_prompt(wanted.prompt, "the prompt", tokenizer)};
  const std::string text = broadcast_from_rank_0(group, [&] { return text_of_prompts(wanted.prompts); });
  std::vector<Prompt> prompts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string place = fmt::format("{}:{}", wanted.prompts, prompts.size() + 1);
    prompts.push_back(make_prompt(text.substr(begin, end - begin), place, tokenizer));
    begin = end + 1;
  }
  if (prompts.empty())
    throw Error(ExitCode::data, wanted.prompts + ": holds no prompt; write one in each line");
  return prompts;
}

/// Throws if a prompt and its continuation do not fit into the positions that the network was trained with.
/// Returns how many are needed.
int64_t positions_for(const std::vector<Prompt>& prompts, int64_t tokens, const Recipe& recipe) {
  const int64_t most = recipe.model.input[0];
  int64_t needed = 0;
  for (const Prompt& prompt : prompts) {
    const auto length = static_cast<int64_t>(prompt.tokens.size());
    if (tokens <= most - length) {  // their sum may be too large for a number
      needed = std::max(needed, length + tokens);
      continue;
    }
    throw Error(ExitCode::usage,
                fmt::format("{} has {} tokens and {} more are wanted, but the network has {} positions "
                            "(model.input); {}",
                            prompt.place, length, tokens, most,
                            length < most ? fmt::format("ask for --tokens {} or fewer", most - length)
                                          : "shorten the prompt"));
  }
  return needed;
}

void check_tokens(const std::vector<Prompt>& prompts, int64_t vocabulary) {
  for (const Prompt& prompt : prompts) {
    const auto beyond =
        std::ranges::find_if(prompt.tokens, [&](int32_t token) { return token >= vocabulary; });
    if (beyond == prompt.tokens.end()) continue;
    throw Error(ExitCode::data,
                fmt::format("{}: token {} is not below {}, the network's outputs; data.tokenizer "
                            "must be the one that it was trained with",
                            prompt.place, *beyond, vocabulary));
  }
}

/// One sequence as it grows.
struct Sample {
  TextStream stream;
  std::vector<int32_t> tokens = {};
  std::string text = {};
  bool has_ended = false;  ///< by the token that ends a text
};

std::string json_line(const Prompt& prompt, int64_t number, const Sample& sample) {
  Json line;
  line["prompt"] = prompt.text;
  line["sample"] = number;
  line["text"] = sample.text;
  line["tokens"] = sample.tokens;
  line["finished"] = sample.has_ended ? "end_of_text" : "length";
  return line.dump(-1, Json::NotUtf8::replace) + "\n";
}

/// Continues prompts and writes the results.
class Writer {
 public:
  /// `sink`: takes the texts; returns whether there is still a reader.
  using Sink = std::function<bool(std::string_view)>;

  Writer(const GenerateArguments& wanted, const RecipeTokenizer& tokenizer, const StopSignals& signals,
         Sink sink)
      : wanted_(wanted), tokenizer_(tokenizer), signals_(signals), sink_(std::move(sink)) {}

  /// Stops early if the reader of the output has gone.
  void continue_all(Generation& generation, std::span<const Prompt> prompts) {
    for (const Prompt& prompt : prompts) {
      run(generation, prompt);
      signals_.throw_if_asked();
      if (reader_gone_) return;
    }
  }

 private:
  bool is_json() const { return wanted_.json || !wanted_.prompts.empty(); }
  bool streams() const { return !is_json() && wanted_.samples == 1; }

  GenerationSettings settings() const {
    GenerationSettings settings{.tokens = wanted_.tokens,
                                .vocabulary = tokenizer_.tokenizer->vocabulary(),
                                .sampling = {wanted_.temperature, wanted_.top_k, wanted_.top_p},
                                .seed = static_cast<uint64_t>(wanted_.seed)};
    if (!wanted_.keep_going) settings.end = tokenizer_.end_of_text;
    return settings;
  }

  void run(Generation& generation, const Prompt& prompt) {
    const GenerationSettings rules = settings();
    std::vector<Sample> samples(static_cast<size_t>(wanted_.samples),
                                {TextStream(*tokenizer_.tokenizer, prompt.tokens)});
    if (streams()) write(printable(prompt.text));
    const auto add = [&](int64_t sequence, int32_t token) {
      Sample& sample = samples[static_cast<size_t>(sequence)];
      sample.tokens.push_back(token);
      sample.has_ended = token == rules.end;
      if (!sample.has_ended) show(sample, sample.stream.add(token));
    };
    continue_prompt(generation, prompt.tokens, rules, add, [&] { return signals_.asked() || reader_gone_; });
    for (Sample& sample : samples) show(sample, sample.stream.finish());
    if (streams()) return write("\n");
    if (signals_.asked()) return;
    for (size_t i = 0; i < samples.size(); ++i) write_sample(prompt, static_cast<int64_t>(i), samples[i]);
  }

  void show(Sample& sample, const std::string& text) {
    sample.text += text;
    if (streams()) write(printable(text));
  }

  void write_sample(const Prompt& prompt, int64_t number, const Sample& sample) {
    write(is_json() ? json_line(prompt, number, sample)
                    : fmt::format("--- sample {}\n{}\n", number, printable(prompt.text + sample.text)));
  }

  void write(const std::string& text) { reader_gone_ = reader_gone_ || !sink_(text); }

  const GenerateArguments& wanted_;
  const RecipeTokenizer& tokenizer_;
  const StopSignals& signals_;
  Sink sink_;
  bool reader_gone_ = false;
};

/// Each rank continues a part of the prompts.
int generate(const std::shared_ptr<const Recipe>& recipe, const Membership& membership,
             const RankIdentity& identity, const Arguments& arguments, StopSignals& signals) {
  const GenerateArguments& wanted = arguments.generate;
  const RecipeTokenizer tokenizer = tokenizer_of(*recipe);
  const std::vector<Prompt> prompts = read_prompts(wanted, tokenizer, membership.group());
  const GenerationSize size{.sequences = wanted.samples,
                            .positions = positions_for(prompts, wanted.tokens, *recipe)};
  const RunSpec spec(recipe, {}, identity.local_ranks);
  TrainedNetwork network(spec, with_weights(recipe, arguments).files, size, identity.local_rank);
  Generation generation(network.executable(), size.positions);
  check_tokens(prompts, generation.vocabulary());
  const PartRange part =
      InputPart{.number = identity.rank + 1, .parts = identity.ranks}.of(std::ssize(prompts));
  const std::span<const Prompt> own =
      std::span(prompts).subspan(static_cast<size_t>(part.first), static_cast<size_t>(part.count));
  signals.watch_loop();
  if (!membership.has_peers()) {
    Writer(wanted, tokenizer, signals, write_at_once).continue_all(generation, own);
    return 0;
  }
  const auto write = [](std::span<const std::byte> bytes) {
    if (!write_at_once({reinterpret_cast<const char*>(bytes.data()), bytes.size()}))
      throw Error(ExitCode::io, "the reader of the standard output has gone, and all ranks end");
  };
  write_in_order(membership, write, [&](const ByteSink& sink) {
    const auto keep = [&](std::string_view text) {
      sink(std::as_bytes(std::span(text)));
      return true;
    };
    Writer(wanted, tokenizer, signals, keep).continue_all(generation, own);
  });
  return 0;
}

}  // namespace

int generate_command(const Arguments& arguments) {
  StopSignals signals(StopSignals::kPass);
  const std::shared_ptr<const Recipe> recipe = named_recipe(arguments);
  forward_program(recipe,
                  {.purpose = Purpose::generate});  // refuses an unsuitable network before anything is read
  if (arguments.generate.prompts.empty()) require_one_process("the continuation of one prompt");
  const RankIdentity identity = launched_as();
  const Membership membership(recipe, identity, false);
  return run_as_rank(membership, [&] { return generate(recipe, membership, identity, arguments, signals); });
}

}  // namespace trainer

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks one line at a time in a copy of the sources, builds, and sees a test fail.

usage: mutations.py [NAME...]    default: all, a few minutes

A mutation that no test detects is printed as SURVIVED, and the exit code is 1. The copy is in build/mutations; unchanged compiled
files come from ccache.
"""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "mutations"
PROGRAMS = ["test_recipe", "test_tasks", "test_data", "test_text", "test_train", "test_engine", "test_step", "test_ops", "test_pruning"]

# name: file, the text before, the text after, the program that must notice, and its cases
MUTATIONS = {
    # Products that read rounded factors.
    "rounds_half_up": ("core/base/activation_levels.h", "return (((clipped + kRounds) - kRounds) - zero) * scale;",
                       "return (static_cast<float>(static_cast<int>(clipped + 0.5f)) - zero) * scale;", "test_ops", "fake_quantize:*"),
    "begins_a_step_late": ("core/graph/ops/fake_quantize.h", "*now >= step;", "*now > step;", "test_ops", "fake_quantize:*"),
    "range_clips_its_batch": ("cpu/fake_quantize.cpp", "used.add(seen);", "", "test_ops", "fake_quantize:*"),
    "targets_are_rounded": ("core/step/fake_quantize.cpp", "is_factor || !is_from_outside(program_.tensor(id).role)", "true", "test_step",
                            "fake_quantize:*"),
    "padded_signs_rounded": ("core/step/fake_quantize.cpp", "product.form.pads && !non_negative[static_cast<size_t>(x)]", "false", "test_step",
                             "fake_quantize:*"),
    "folded_gamma_without_bias": ("core/graph/ops/batch_norm.cpp", "times(db, unit[kFoldedBias])", "zeros", "test_ops", "a folded normalisation*"),
    # Noise, and samples that are left out.
    "noise_by_place_in_batch": ("core/data/batch_maker.cpp", "training_ ? place.index : place.sample", "place.index", "test_data",
                                "evaluation takes*"),
    "noise_of_evaluation_by_seed": ("core/layers/noise.cpp", "random_key(context.training ? context.seed : 0, consumer)",
                                    "random_key(context.seed, consumer)", "test_recipe", "seeds have noise*"),
    "noise_without_scale": ("core/graph/ops/noise.h", "const T noisy = x + T(std) * scale * drawn;", "const T noisy = x + T(std / 255) * drawn;",
                            "test_ops", "normalised channels*"),
    "psnr_of_sums": ("cpu/psnr.cpp", "sum / static_cast<double>(channels * area)", "sum / static_cast<double>(area)", "test_ops",
                     "signal-to-noise*"),
    "excluded_before_the_split": ("core/data/images/kind.cpp", "left_of(numbers.samples, numbers.excluded, section.exclude->resolved, request.split);",
                                  "std::vector(numbers.samples.begin() + std::ssize(numbers.excluded), numbers.samples.end());", "test_data", "excluded samples*"),
    "pairs_of_one_part": ("core/data/images/like_images.cpp", "const int count = distance + 1;", "const int count = std::max(1, distance);",
                          "test_data", "all pairs*"),
    # Tables.
    "statistics_of_all_rows": ("core/data/tables/format.cpp", "return request.split == Split::train ? split.rows : rows_of(Split::train);",
                               "return all_rows(*split.table);", "test_data", "with a part of*"),
    "shifted_categories": ("core/data/tables/source.cpp", "places.push_back(place ? first + 1 + *place : first);",
                           "places.push_back(place ? first + *place : first);", "test_data", "prepared rows*"),
    "statistics_of_excluded_rows": ("core/data/tables/format.cpp", "return without_excluded(rows, split.excluded, section, part);",
                                    "return part == request.split ? without_excluded(rows, split.excluded, section, part) : rows;", "test_data",
                                    "excluded rows*"),
    "unique_values_predict": ("core/data/tables/findings.cpp", "return found.most > found.next + 1 ? rows.size() - found.most : rows.size();",
                           "return rows.size() - found.most;", "test_data", "columns that predict classes*"),
    # Networks that ranks divide.
    "bias_on_every_rank": ("core/step/tensor_parallel.cpp", "node.inputs[Linear::kBias] = on_first_rank(node.inputs[Linear::kBias]);",
                           "node.inputs[Linear::kBias] = for_shared_work(node.inputs[Linear::kBias]);", "test_train", "ranks that share*"),
    "padded_class_counted": ("core/graph/ops/cross_entropy.cpp", "if (cut) valid = std::clamp<int64_t>(all - first, 0, held);",
                             "if (cut) valid = held;", "test_train", "ranks that share*"),
    "wrong_section": ("core/graph/part.cpp", "in_whole += section;", "in_whole += part;", "test_engine", "rank 0 reads*"),
    "tied_gradient_left_out": ("core/step/sum_stages.cpp", "sum = sum == kNone ? gradient : build_.emit<Binary>({sum, gradient}, Binary::Kind::add);",
                               "sum = sum == kNone ? gradient : sum;", "test_train", "*stage*"),
    "norm_counted_twice": ("core/step/clip.cpp", "if (is_of_other) continue;", "if (is_of_other && mesh.stages < 1) continue;", "test_train",
                           "*stage*"),
    "swapped_exchange": ("core/step/schedule_stages.cpp", "return sent_route(each) == std::optional(action.route);",
                         "return sent_route(each).has_value();", "test_train", "*stage*"),
    # Products in 8 bits.
    "zero_point_left_in": ("cpu/quantize.cpp", "bias / y_scale - multiplier * zero_point * static_cast<double>(sum) + shift);",
                           "bias / y_scale + shift);", "test_step", "a network in 8 bits*"),
    "weights_saturate": ("core/base/weight_bits.h", "return (int64_t{1} << (bits - 1)) - 1;", "return (int64_t{1} << (bits - 1)) + 1;",
                         "test_ops", "weights have the bits*"),
    "residual_unscaled": ("core/step/quantize.cpp", "end.residual_factor = added.scale / stored->scale;",
                          "end.residual_factor = 1;", "test_step", "a residual is added*"),
    "relu_of_middle": ("core/step/quantize.cpp", "if (found == bytes_of_.end() || (relu && found->second.zero_point != 0)) return std::nullopt;",
                       "if (found == bytes_of_.end()) return std::nullopt;", "test_step", "a relu is*"),
    "mask_off_by_one": ("core/graph/ops/attention.h", "causal && position + 1 < keys ? position + 1 : keys",
                        "causal && position + 2 < keys ? position + 2 : keys", "test_recipe", "networks:*"),
    "heads_read_wrong_keys": ("cpu/attention/rows.cpp", "offset + block.kv_head * e.size;",
                              "offset + (block.kv_head + 1) % e.kv_heads * e.size;", "test_recipe", "networks:*"),
    "one_query_reads_wrong_keys": ("cpu/attention/few_queries.cpp", "head / use_.group() * e.size;",
                                   "head % e.kv_heads * e.size;", "test_recipe", "networks:*"),
    "stale_cache": ("cpu/append_to_cache.cpp", "if (fitting <= 0) return;", "if (fitting <= 1) return;", "test_recipe",
                    "generation:*,networks:*"),
    "cache_one_late": ("core/train/generation.cpp", "run(decode_, last_input_, last_tokens_, length_ - 1);",
                       "run(decode_, last_input_, last_tokens_, length_);", "test_recipe", "generation:*,networks:*"),
    "rotary_sign": ("cpu/positions.cpp", "sine = sign * sines[i];", "sine = -sign * sines[i];", "test_recipe", "networks:*"),
    "rotary_base": ("core/layers/positions.cpp", "rotary_table(theta_, features, positions)};",
                    "rotary_table(10000, features, positions)};", "test_recipe", "networks:*"),
    "missing_tie": ("core/layers/linear.cpp", "if (weight_of_.empty()) return", "if (true) return", "test_recipe",
                    "networks:*,*hold what*"),
    "wrong_mean": ("core/graph/ops/cross_entropy.cpp", "if (logits.size() == 3) positions = logits[1], classes = logits[2];",
                   "if (logits.size() == 3) positions = logits[1] + 1, classes = logits[2];", "test_recipe", "networks:*"),
    "mean_over_the_wrong_count": ("core/tasks/metric.cpp", "reads_loss ? output_name::kLossWeight : output_name::kValidTargets",
                                  "reads_loss ? output_name::kValidTargets : output_name::kLossWeight", "test_tasks", "*"),
    # Samples in shards, and their order.
    "blocks_begin_at_zero": ("core/data/order.cpp", "return {static_cast<int64_t>(number % static_cast<uint64_t>(size)), size / blocks.block};",
                             "return {static_cast<int64_t>(number % 1), size / blocks.block};", "test_data", "*order by blocks*"),
    "change_of_a_shard_unseen": ("core/data/images/shard_format.cpp", "set_->require_unchanged(sample);", "", "test_data", "shards that have*"),
    "index_of_another_time": ("core/data/images/shard_set.cpp", "path, stamp.bytes, stamp.modified);", "path, stamp.bytes, 0);", "test_data",
                              "shards that have*"),
    "record_unchecked": ("core/data/images/tfrecord.cpp", "const uint32_t sum = masked_crc32c(shard.part(data, length));",
                         "const uint32_t sum = stated;", "test_data", "damaged*"),
    "first_label_kept": ("core/data/images/tfrecord.cpp", "static_cast<int32_t>(*example.label - keys_.first_label);",
                         "static_cast<int32_t>(*example.label);", "test_data", "records of*"),
    "labels_not_shifted": ("core/data/tokens/windows.cpp", "std::copy(window.begin() + 1, window.end(), batch",
                           "std::copy(window.begin(), window.end() - 1, batch", "test_data", "*"),
    "document_begins_late": ("core/data/tokens/windows.cpp", "start = t + 1;", "start = t + 2;", "test_data", "*"),
    "every_piece_is_the_first": ("core/passes/fuse_classifier.cpp", "{whole}, 0, begin, length);", "{whole}, 0, 0 * begin, length);",
                                 "test_recipe", "a classifier*"),
    "muon_without_nesterov": ("core/optim/muon.cpp", "nesterov_ ? build.emit<Lerp>({g, mean}, momentum_) : mean;", "mean;",
                              "test_recipe", "networks:*"),
    # Channels that are removed together.
    "groups_lose_other_channels": ("core/graph/ops/conv2d.cpp", ".channels = of_y, .places", ".channels = y[1], .places", "test_pruning",
                                   "channels:*"),
    "pixels_of_another_channel": ("core/graph/ops/reshape.cpp", "y[to] / x[first]", "1", "test_pruning", "channels:*"),
    "unnamed_channels_removed": ("core/pruning/channel_groups.cpp", "if (!named.contains(element)) stays_",
                                 "if (named.empty()) stays_", "test_pruning", "channels:*"),
    "large_layers_count_more": ("core/pruning/channel_choice.cpp", "sums[i] / mean", "sums[i]", "test_pruning", "kept channels:*"),
    "norm_with_another_eps": ("cpu/layer_norm.cpp", "static_cast<double>(width) + norm.eps)",
                              "static_cast<double>(width) + 10 * norm.eps)", "test_recipe", "networks:*"),
}


def run(command, log):
    with open(log, "w") as file:
        return subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, cwd=COPY / "source").returncode


def fails(command, log):
    """Whether a test fails; threads that wait for one that has failed never end."""
    return run(["timeout", "--signal=KILL", "180", *command], log) != 0


def prepare():
    source = COPY / "source"
    source.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.splitlines()
    for name in listed:
        target = source / name
        if not (ROOT / name).is_file() or (target.is_file() and target.read_bytes() == (ROOT / name).read_bytes()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    os.environ.update(CCACHE_BASEDIR=str(source), CCACHE_NOHASHDIR="1", CCACHE_DEPEND="1", CCACHE_SLOPPINESS="pch_defines,time_macros")
    command = ["cmake", "--preset", "release", "-DTRAINER_TESTS=ON", "-DTRAINER_CUDA=off"]
    build = ["cmake", "--build", "--preset", "release", "-j", str(os.cpu_count()), "--target", *PROGRAMS]
    if run(command, COPY / "configure.log") != 0 or run(build, COPY / "build.log") != 0:
        sys.exit(f"mutations: the sources do not build; see {COPY}/build.log")


def is_noticed(name, change, program, test):
    """Whether test() fails with a change: file, text before, text after. Says so if it did not even fit or build."""
    file, before, after = change
    path = COPY / "source" / file
    text = path.read_text()
    if text.count(before) != 1:
        return f"{file} has '{before}' {text.count(before)} times, expected once"
    path.write_text(text.replace(before, after))
    try:
        if run(["cmake", "--build", "--preset", "release", "--target", program], COPY / f"{name}.build.log") != 0:
            return f"does not build; see {COPY}/{name}.build.log"
        return test()
    finally:
        path.write_text(text)


def names_among(known):
    """Those of the command line, or all."""
    names = sys.argv[1:] or list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"mutations: unknown {', '.join(unknown)}; known are {', '.join(known)}")
    return names


def report(names, notice):
    """Prints what notice(name) says of each mutation; returns whether one is not detected."""
    bad = 0
    for name in names:
        noticed = notice(name)
        bad += noticed is not True
        print(f"{name}: {'a test fails' if noticed is True else noticed or 'SURVIVED'}", flush=True)
    return bad > 0


def main():
    names = names_among(MUTATIONS)
    prepare()
    for program, cases in sorted({MUTATIONS[name][3:] for name in names}):
        if run([f"build/release/bin/{program}", cases], COPY / f"{program}.log") != 0:
            sys.exit(f"mutations: {program} '{cases}' fails without any; see {COPY}/{program}.log")

    def notice(name):
        *change, program, cases = MUTATIONS[name]
        return is_noticed(name, change, program, lambda: fails([f"build/release/bin/{program}", cases], COPY / f"{name}.log"))

    return report(names, notice)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks one line of the ONNX export at a time in a copy of the sources, builds, and sees the comparison with onnxruntime fail.

usage: scripts/export/mutations.py [NAME...]    default: all, some minutes; needs scripts/setup.sh --tests

A mutation that nothing detects is printed as SURVIVED, and the exit code is 1. As scripts/mutations.py, whose copy it uses.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import mutations  # noqa: E402

PYTHON = mutations.ROOT / "build/onnx/bin/python"
NETWORKS = ["images", "sequences"]  # of tests/export

# name: file, the text before, the text after
MUTATIONS = {
    "mask_off_by_one": ("core/export/sequence_forms.cpp", "key < seen.end; ++key", "key + 1 < seen.end; ++key"),
    "rotary_sign": ("core/export/sequence_forms.cpp", 'sines && node.attribute<bool>("inverse") ? -1', 'sines && !node.attribute<bool>("inverse") ? -1'),
    "rotary_table_swapped": ("core/export/sequence_forms.cpp", "(sines ? features / 2 : 0)", "(sines ? 0 : features / 2)"),
    "heads_read_wrong_keys": ("core/export/sequence_forms.cpp", "all.k = node.graph.slice(all.q, 2, of_q, of_q + of_kv)",
                              "all.k = node.graph.slice(all.q, 2, 0, of_kv)"),
    "scale_doubled": ("core/export/sequence_forms.cpp", "const double scale = settings.factor(all.size);", "const double scale = 2 * settings.factor(all.size);"),
    "eps_of_layer_norm": ("core/export/norm_forms.cpp", '{{"axis", int64_t{-1}}, {"epsilon", node.attribute<double>("eps")}}',
                          '{{"axis", int64_t{-1}}}'),
    "eps_of_rms_norm": ("core/export/norm_forms.cpp", "graph.number(eps)", "graph.number(0 * eps)"),
    "eps_of_group_norm": ("core/export/norm_forms.cpp", "filled(graph, groups, 0)},\n                 {{\"epsilon\", node.attribute<double>(\"eps\")}}",
                          "filled(graph, groups, 0)},\n                 {}"),
    "tie_lost": ("core/export/export_program.cpp", "return graph_.weight(tensor.name, tensor.spec.shape);",
                 "return graph_.weight(tensor.name + (graph_.nodes().empty() ? \"\" : \".copy\"), tensor.spec.shape);"),
    "pads_swapped": ("core/export/image_forms.cpp", "{padding[0], padding[1], padding[0], padding[1]}",
                     "{padding[1], padding[0], padding[1], padding[0]}"),
    "pads_not_counted": ("core/export/image_forms.cpp", '"count_include_pad", int64_t{1}', '"count_include_pad", int64_t{0}'),
    "resize_rounds": ("core/export/image_forms.cpp", 'std::string("floor")', 'std::string("ceil")'),
    "resize_corners": ("core/export/image_forms.cpp", 'is_aligned ? "align_corners"', 'is_aligned ? "half_pixel"'),
    "output_padding_forgotten": ("core/export/image_forms.cpp", "added.push_back(y[d + 2] - reached);", "added.push_back(0 * (y[d + 2] - reached));"),
    "rounded_residual_lost": ("core/export/rounding_forms.cpp", "node.x(QuantizedProduct::kResidual), op.end.relu", '"", op.end.relu'),
    "no_room_for_biases": ("core/export/prepared_weights.cpp", "if (makes_room)", "if (makes_room && false)"),
    "name_taken": ("core/export/export_program.cpp", "takes_place && !weights_.has(name) ? name",
                   "(takes_place || true) && !weights_.has(name) ? name"),
    "weight_not_transposed": ("core/export/product_forms.cpp", "is_stored_transposed ? 0 : 1", "is_stored_transposed ? 1 : 0"),
}


def check(log):
    programs = mutations.COPY / "source/build/release/bin"
    checks = ["check.py", "--small", "--bin", str(programs), *NETWORKS], ["rounding.py", str(programs)]
    return max(mutations.run([str(PYTHON), f"scripts/export/{words[0]}", *words[1:]], mutations.COPY / log) for words in checks)


def main():
    names = mutations.names_among(MUTATIONS)
    mutations.PROGRAMS = ["trainer", "export_logits"]
    mutations.prepare()
    if check("export.log") != 0:
        sys.exit(f"mutations: the networks differ without any; see {mutations.COPY}/export.log")
    return mutations.report(names, lambda name: mutations.is_noticed(f"export_{name}", MUTATIONS[name], "trainer",
                                                                     lambda: check(f"export_{name}.log") != 0))


if __name__ == "__main__":
    sys.exit(main())

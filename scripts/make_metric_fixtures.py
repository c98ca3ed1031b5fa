#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures of metrics: what scikit-learn computes of labels and predictions (tests/fixtures/metrics.safetensors),
and how PyTorch's ReduceLROnPlateau follows a metric (plateau.safetensors).

Needs numpy, torch (CPU) and scikit-learn.
"""

import numpy as np
import torch
from sklearn import metrics

from fixture_file import write

MEANS = ["precision", "recall", "f1"]


def case(out, name, classes, labels, predicted):
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    every = list(range(classes))
    scores = metrics.precision_recall_fscore_support(labels, predicted, labels=every, zero_division=0)
    macro = metrics.precision_recall_fscore_support(labels, predicted, average="macro", zero_division=0)
    weighted = metrics.precision_recall_fscore_support(labels, predicted, average="weighted", zero_division=0)
    out[f"{name}/labels"] = labels.astype(np.float64)
    out[f"{name}/predicted"] = predicted.astype(np.float64)
    out[f"{name}/matrix"] = metrics.confusion_matrix(labels, predicted, labels=every).astype(np.float64)
    for i, each in enumerate(MEANS + ["support"]):
        out[f"{name}/{each}"] = scores[i].astype(np.float64)
    for i, each in enumerate(MEANS):
        out[f"{name}/macro_{each}"] = np.array([macro[i]])
        out[f"{name}/weighted_{each}"] = np.array([weighted[i]])
    out[f"{name}/iou"] = metrics.jaccard_score(labels, predicted, labels=every, average=None, zero_division=0)
    out[f"{name}/mean_iou"] = np.array([metrics.jaccard_score(labels, predicted, average="macro", zero_division=0)])
    out[f"{name}/balanced_accuracy"] = np.array([metrics.balanced_accuracy_score(labels, predicted)])
    out[f"{name}/accuracy"] = np.array([metrics.accuracy_score(labels, predicted)])


def set_case(out, name, labels, predicted):
    """Of sets of labels, (N, C)."""
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    out[f"{name}/labels"] = labels.astype(np.float64)
    out[f"{name}/predicted"] = predicted.astype(np.float64)
    out[f"{name}/matrix"] = metrics.multilabel_confusion_matrix(labels, predicted).astype(np.float64)
    for average in [None, "micro", "macro", "weighted"]:
        scores = metrics.precision_recall_fscore_support(labels, predicted, average=average, zero_division=0)
        for i, each in enumerate(MEANS):
            out[f"{name}/{average + '_' if average else ''}{each}"] = np.atleast_1d(scores[i]).astype(np.float64)
        if average is None:
            out[f"{name}/support"] = scores[3].astype(np.float64)
    out[f"{name}/iou"] = metrics.jaccard_score(labels, predicted, average=None, zero_division=0)
    out[f"{name}/accuracy"] = np.array([1 - metrics.hamming_loss(labels, predicted)])
    out[f"{name}/exact_match"] = np.array([metrics.accuracy_score(labels, predicted)])


# The settings in tests/train/plateau_test.cpp.
PLATEAUS = {
    "min_rel": {"factor": 0.5, "patience": 1, "threshold": 0.05},
    "max_rel": {"mode": "max", "factor": 0.1, "patience": 2, "threshold": 0.02},
    "min_abs": {"factor": 0.3, "patience": 0, "threshold": 0.1, "threshold_mode": "abs", "cooldown": 2},
    "max_abs": {"mode": "max", "factor": 0.7, "patience": 1, "threshold": 0.05, "threshold_mode": "abs",
                "cooldown": 1, "min_lr": 0.1 * 0.2},
}


def plateau(out, random, name, options):
    """The rate after each of 20 evaluations of a metric that improves, stands still and is NaN once."""
    sign = -1 if options.get("mode") == "max" else 1
    values = 1 + sign * (2 * np.exp(-np.arange(20) / 3) + 0.1 * random.standard_normal(20))
    values = values.astype(np.float32).astype(np.float64)
    values[11] = np.nan
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    rates = []
    for value in values:
        scheduler.step(value)
        rates.append(optimizer.param_groups[0]["lr"])
    out[f"{name}/values"] = values
    out[f"{name}/rates"] = np.array(rates)


def main():
    random = np.random.default_rng(1)
    out = {}
    labels = random.integers(0, 7, 300)
    predicted = np.where(random.random(300) < 0.6, labels, random.integers(0, 7, 300))
    case(out, "all_classes", 7, labels, predicted)
    # Class 0 is a label and never predicted, 3 is predicted and no label, 4 is neither.
    case(out, "missing_classes", 6, [0, 0, 1, 1, 2, 5, 5, 1], [1, 2, 1, 3, 2, 5, 3, 1])
    case(out, "one_class", 3, [1, 1, 1, 1], [1, 1, 1, 1])
    case(out, "never_right", 2, [0, 1, 1], [1, 0, 0])
    write("metrics", out)
    out = {}
    apart = np.random.default_rng(2)
    labels = (apart.random((200, 9)) < 0.3).astype(int)
    set_case(out, "some", labels, np.where(apart.random((200, 9)) < 0.85, labels, 1 - labels))
    # Class 0 is a label and never predicted, 1 is predicted and no label, 2 is neither.
    set_case(out, "missing", [[1, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1]], [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]])
    set_case(out, "perfect", [[1, 0], [0, 1]], [[1, 0], [0, 1]])
    set_case(out, "no_labels", [[0, 0, 0]], [[0, 0, 0]])
    write("label_set_metrics", out)
    out = {}
    for name, options in PLATEAUS.items():
        plateau(out, random, name, options)
        print(name, out[f"{name}/rates"])
    write("plateau", out)


main()

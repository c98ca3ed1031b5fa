#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/metrics.safetensors: what scikit-learn computes of labels and predictions.

Needs numpy, torch (for fixture_file) and scikit-learn.
"""

import numpy as np
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


main()

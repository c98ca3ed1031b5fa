#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The check of packaging/ refuses what is wrong: each row changes a manifest in one place and names what must be found.

  build/kubernetes/bin/python tests/packaging/wrong.py
"""

import re
import sys

from check import ROOT, check_file, with_gpu

WRONG = [
    # file, text to replace, replacement, part of what must be found
    ("runs.yaml", "storage: 50Gi", "storage: [50Gi]", "is not"),
    ("runs.yaml", "accessModes:", "accessMode:", "accessMode"),
    ("job.yaml", "backoffLimit: 6", "backoffLimit: six", "'six' is not of type 'integer'"),
    ("job.yaml", "mountPath: /recipe", "mountpath: /recipe", "'mountPath' is a required property"),
    ("job.yaml", "# nvidia.com/gpu: \"1\"", "# nvidia.com/gpu: [1]", "[1]"),
    ("job.yaml", "restartPolicy: Never", "restartPolicy: OnFailure", "podFailurePolicy needs restartPolicy: Never"),
    ("job.yaml", "[64, 65, 69,", "[64, 65,", "the program's final codes are [64, 65, 69, 70, 71, 74, 78]"),
    ("job.yaml", "74, 78]", "74, 75, 78]", "FailJob for"),
    ("job.yaml", "[76, 137, 143]", "[76, 137]", "started again after [75, 76, 137]"),
    ("job.yaml", "type: DisruptionTarget", "type: Ready", "a disruption counts as a failure"),
    ("job.yaml", "containerName: trainer", "containerName: main", "which the pod has not"),
    ("job.yaml", "PeriodSeconds: 120", "PeriodSeconds: 30", "more than run.grace_period"),
    ("job.yaml", "run.grace_period=110s", "run.grace=110s", "run.grace: no key of a recipe"),
    ("job.yaml", "run.grace_period=110s", "run.grace_period=[1]", "run.grace_period: "),
    ("job.yaml", "output_dir=/runs/train", "output_dir=/run/train", "is on no volume"),
    ("job.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "runs as root"),
    ("job.yaml", "fsGroup: 1000", "fsGroup: 2000", "fsGroup is not the image's group"),
    ("job.yaml", "name: runs\n              mountPath", "name: run\n              mountPath", "the volume run, which the pod has not"),
    ("mpijob.yaml", "restartPolicy: Never", "restartPolicy: ExitCode", "'ExitCode' is not one of"),
    ("mpijob.yaml", "slotsPerWorker: 2", "slotsperworker: 2", "slotsperworker"),
    ("mpijob.yaml", "slotsPerWorker: 2", "slotsPerWorker: 4", "parallelism.data=4 of 2 pods with 4 slots"),
    ("mpijob.yaml", "device.threads=4", "device.threads=8", "does not divide a pod's cores"),
    ("mpijob.yaml", "device.type=cpu", "device.type=cuda", "device.type=cuda, expected cpu"),
    ("mpijob.yaml", "max_restarts=20", "max_restarts=0", "lost ranks do not start again"),
    ("mpijob.yaml", "max_restarts=20", "max_restarts=many", "run.max_restarts: 'many'"),
    ("mpijob.yaml", "lib/trainer/.ssh", "lib/trainer", "sshAuthMountPath is not sshd's"),
    ("mpijob.yaml", "port: 2222", "port: 22", "sshd listens on port 2222"),
    ("mpijob.yaml", "command: [stop_ranks]", "command: [sleep, '5']", "nothing saves the run"),
    ("mpijob.yaml", "sshd_trainer_config]", "sshd_config]", "the image has no /etc/ssh/sshd_config"),
    ("mpijob.yaml", "/etc/mpi/hostfile", "/etc/hosts", "expected /etc/mpi/hostfile"),
    ("mpijob.yaml", "medium: Memory", "medium: [Memory]", "Pod.spec.volumes[3].emptyDir.medium"),
    ("trainjob.yaml", "numNodes: 1 ", "numNodes: 2 ", "1 was expected"),
    ("trainjob.yaml", "numProcPerNode: 2", "numProcPerNode: auto", "'auto' is not of type 'integer'"),
    ("trainjob.yaml", "name: trainer-mpi\n  trainer", "name: mpi\n  trainer", "runtimeRef names another runtime"),
    ("trainjob.yaml", "- name: node # Kubeflow", "- name: launcher # Kubeflow", "containers with the name node"),
    ("trainjob.yaml", "status: Ready", "status: Running", "'Running' is not one of"),
    ("trainjob.yaml", "[64, 65, 69,", "[65, 69,", "FailJob for [65, 69, 70, 71, 74, 78]"),
    ("trainjob.yaml", "type: DisruptionTarget", "type: Other", "a disruption counts as a failure"),
]


def main():
    wrong = 0
    for file, before, after, expected in WRONG:
        text = (ROOT / "packaging/kubernetes" / file).read_text()
        assert before in text, f"{file} has no {before!r}"
        problems = check_file(with_gpu(re.sub(re.escape(before), lambda _: after, text)))
        if not any(expected in problem for problem in problems):
            print(f"{file}: {after!r} instead of {before!r} is not refused with {expected!r}: {problems}")
            wrong += 1
    print(f"{len(WRONG)} changes, {wrong} not refused as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

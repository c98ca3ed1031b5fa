#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks packaging/: each manifest against Kubernetes' schemas and those of Kubeflow's kinds in schemas/, and against what
the program and the image have: exit codes, keys of a recipe, paths, the port of ssh. A GPU's line is also checked.

  build/kubernetes/bin/python tests/packaging/check.py [FOLDER]    (of manifests; default: packaging/kubernetes)
"""

import json
import re
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = "1.37"
SCHEMAS = {schema["properties"]["kind"]["const"]: schema
           for schema in (json.loads(file.read_text()) for file in (Path(__file__).parent / "schemas").glob("*.json"))}
RECIPE = json.loads((ROOT / "docs/recipe.schema.json").read_text())
KEY = re.compile(r"([a-z_]+(?:\.[a-z_]+)+)=(.*)")
# What a restart continues: saved, and a lost rank (core/base/error.h); KILL and TERM, as a shell has them.
AGAIN, KILLED = {75, 76}, {128 + 9, 128 + 15}


def read(path):
    return (ROOT / path).read_text()


def exit_codes():
    """The program's exit codes, without 0."""
    table = re.search(r"enum class ExitCode \{(.*?)\};", read("core/base/error.h"), re.S)[1]
    return {int(code) for code in re.findall(r"= (\d+),", table)} - {0}


def jobs_of(manifest):
    """Each job's name and body: of a Job, of the launcher's in an MPIJob, and of a runtime's."""
    spec = manifest["spec"]
    if manifest["kind"] == "Job":
        return {manifest["metadata"]["name"]: spec}
    if manifest["kind"] == "TrainingRuntime":
        return {job["name"]: job["template"]["spec"] for job in spec["template"]["spec"]["replicatedJobs"]}
    return {}


def pods_of(manifest):
    pods = {name: job["template"] for name, job in jobs_of(manifest).items()}
    if manifest["kind"] == "MPIJob":
        pods = {name.lower(): replica["template"] for name, replica in manifest["spec"]["mpiReplicaSpecs"].items()}
    return pods


def check_schema(manifest):
    if manifest["kind"] in SCHEMAS:
        for problem in jsonschema.Draft202012Validator(SCHEMAS[manifest["kind"]]).iter_errors(manifest):
            yield f"{problem.json_path}: {problem.message}"
        built_in = [("v1", "Pod", pod["spec"]) for pod in pods_of(manifest).values()]
        built_in += [("batch/v1", "Job", job) for job in jobs_of(manifest).values()]
        if manifest["kind"] == "MPIJob":  # the replica says it
            built_in = [(version, kind, {**spec, "restartPolicy": "Never"}) for version, kind, spec in built_in]
    else:
        built_in = [(manifest["apiVersion"], manifest["kind"], manifest["spec"])]
    for version, kind, spec in built_in:
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": "name"}, "spec": spec}
        try:
            kubernetes_validate.validate(body, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as problem:
            yield f"{kind}{problem.json_path[1:]}: {problem.message}"


def check_restarts(manifest):
    """Kubernetes' own rules too, which are in no schema: no restart within a pod, and containers that exist."""
    for name, job in jobs_of(manifest).items():
        rules = job.get("podFailurePolicy", {}).get("rules", [])
        codes = {}
        for rule in rules:
            for code in rule.get("onExitCodes", {}).get("values", []):
                codes.setdefault(code, rule["action"])
            container = rule.get("onExitCodes", {}).get("containerName")
            if container and container not in [each["name"] for each in job["template"]["spec"]["containers"]]:
                yield f"{name}: podFailurePolicy names the container {container}, which the pod has not"
        if rules and job["template"]["spec"].get("restartPolicy") != "Never":
            yield f"{name}: podFailurePolicy needs restartPolicy: Never"
        if not any(rule["action"] == "Ignore" and {"type": "DisruptionTarget", "status": "True"} in rule.get("onPodConditions", []) for rule in rules):
            yield f"{name}: a disruption counts as a failure"
        if not codes and name == "node":  # runs sshd
            continue
        final = {code for code, action in codes.items() if action == "FailJob"}
        again = {code for code, action in codes.items() if action in ("Ignore", "Count")}
        if final != exit_codes() - AGAIN:
            yield f"{name}: FailJob for {sorted(final)}; the program's final codes are {sorted(exit_codes() - AGAIN)}"
        if again != AGAIN | KILLED:
            yield f"{name}: started again after {sorted(again)}, expected {sorted(AGAIN | KILLED)}"


def keys_of(manifest):
    """The recipe's keys in the arguments of the program."""
    texts = [text for pod in pods_of(manifest).values() for container in pod["spec"]["containers"] for text in container.get("args", [])]
    texts += manifest["spec"].get("trainer", {}).get("args", []) if manifest["kind"] == "TrainJob" else []
    return dict(found.groups() for found in map(KEY.fullmatch, texts) if found)


def check_keys(keys):
    for key, value in keys.items():
        part = RECIPE
        for name in key.split("."):
            part = part.get("properties", {}).get(name)
            if part is None:
                yield f"{key}: no key of a recipe"
                break
        else:
            problems = jsonschema.Draft7Validator({**part, "definitions": RECIPE["definitions"]}).iter_errors(yaml.safe_load(value))
            yield from (f"{key}: {problem.message}" for problem in problems)


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|min)", text).groups()
    return int(number) * {"s": 1, "min": 60}[unit]


def check_pods(manifest, keys):
    image = read("packaging/Containerfile")
    port = re.search(r"^Port (\d+)$", read("packaging/ssh/sshd_config"), re.M)[1]
    if f"Port {port}\n" not in read("packaging/ssh/ssh_config"):
        yield "ssh and sshd have different ports"
    for name, pod in pods_of(manifest).items():
        spec = pod["spec"]
        grace = seconds(keys.get("run.grace_period", "25s"))
        if spec.get("terminationGracePeriodSeconds", 30) < grace + 10:
            yield f"{name}: terminationGracePeriodSeconds is not 10 s more than run.grace_period ({grace} s)"
        if not spec["securityContext"].get("runAsNonRoot"):
            yield f"{name}: runs as root"
        if f"--uid {spec['securityContext'].get('fsGroup')} " not in image:
            yield f"{name}: fsGroup is not the image's group"
        volumes = {volume["name"] for volume in spec["volumes"]}
        container = spec["containers"][0]
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        for path, volume in mounts.items():
            if volume not in volumes:
                yield f"{name}: {path} is the volume {volume}, which the pod has not"
        if "/recipe" not in mounts:
            yield f"{name}: the recipe is not mounted"
        if name != "launcher" and Path(keys["run.output_dir"]).parts[1] not in [path.strip("/") for path in mounts]:
            yield f"{name}: run.output_dir={keys['run.output_dir']} is on no volume"
        command = container.get("command", [])
        if command and f" {command[-1]}\n" not in image:
            yield f"{name}: the image has no {command[-1]}"
        if command and container["readinessProbe"]["tcpSocket"]["port"] != int(port):
            yield f"{name}: sshd listens on port {port}"
        hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
        if command and not (hook and f"packaging/ssh/{hook[0]} " in image):
            yield f"{name}: nothing saves the run before sshd ends"


def check_ranks(manifest, keys, slots, nodes, keys_folder, pod):
    host_key = re.search(r"^HostKey (\S+)/id_rsa$", read("packaging/ssh/sshd_config"), re.M)[1]
    if keys_folder != host_key:
        yield f"sshAuthMountPath is not sshd's {host_key}"
    if int(keys["parallelism.data"]) != slots * nodes:
        yield f"parallelism.data={keys['parallelism.data']} of {nodes} pods with {slots} slots"
    if int(keys["device.threads"]) * slots != int(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"]):
        yield f"device.threads={keys['device.threads']} does not divide a pod's cores among {slots} ranks"
    for key, value in {"parallelism.hosts": "/etc/mpi/hostfile", "device.type": "cpu"}.items():
        if keys[key] != value:
            yield f"{key}={keys[key]}, expected {value}"
    if int(keys.get("run.max_restarts", 0)) == 0:
        yield "run.max_restarts: lost ranks do not start again"


def check_file(text):
    """The problems of a file of manifests."""
    manifests = list(yaml.safe_load_all(text))
    shaped = [f"{each['kind']}: {problem}" for each in manifests for problem in check_schema(each)]
    keys = {} if shaped else {key: value for each in manifests for key, value in keys_of(each).items()}
    shaped += check_keys(keys)
    if shaped:  # what follows reads fields without asking
        return shaped
    found = []
    by_kind = {each["kind"]: each["spec"] for each in manifests}
    for each in manifests:
        found += check_restarts(each)
        found += check_pods(each, keys)
    if "MPIJob" in by_kind:
        spec = by_kind["MPIJob"]
        workers = spec["mpiReplicaSpecs"]["Worker"]
        found += check_ranks(spec, keys, spec["slotsPerWorker"], workers["replicas"], spec["sshAuthMountPath"], workers["template"])
    if "TrainJob" in by_kind:
        spec, runtime = by_kind["TrainJob"]["trainer"], by_kind["TrainingRuntime"]
        if by_kind["TrainJob"]["runtimeRef"]["name"] not in [each["metadata"]["name"] for each in manifests]:
            found.append("runtimeRef names another runtime")
        pods = {name: job["template"] for name, job in jobs_of(manifests[0]).items()}
        found += check_ranks(spec, keys, spec["numProcPerNode"], spec["numNodes"], runtime["mlPolicy"]["mpi"]["sshAuthMountPath"], pods["node"])
        # The operator finds the trainer by its label, and mounts keys and hosts into containers of this name.
        if [job["name"] for job in runtime["template"]["spec"]["replicatedJobs"]] != ["node", "launcher"]:
            found.append("Kubeflow's MPI policy needs the jobs node and launcher")
        if any(pod["spec"]["containers"][0]["name"] != "node" for pod in pods.values()):
            found.append("Kubeflow's MPI policy needs containers with the name node")
    return found


def with_gpu(text):
    return re.sub(r"# (nvidia\.com/gpu: )", r"\1", text)


def check_container_files():
    """Each command of apptainer.def is one of Containerfile's, which is the one that is built in trials."""
    image = re.sub(r" \\\n +", " ", read("packaging/Containerfile"))
    recipe = read("packaging/apptainer.def")
    for command in ("scripts/setup.sh --package", "scripts/build.sh -DTRAINER_CUDA=off",
                    "cpack -G DEB --config build/release/CPackConfig.cmake -B /package",
                    "apt-get install -y --no-install-recommends /package/trainer_*.deb libcurl4t64 ca-certificates openmpi-bin openssh-client"):
        for name, text in {"Containerfile": image, "apptainer.def": recipe}.items():
            if command not in text:
                yield f"{name}: no `{command}`"


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "packaging/kubernetes"
    found = list(check_container_files())
    files = sorted(folder.glob("*.yaml"))
    for file in files:
        for text in {file.read_text(), with_gpu(file.read_text())}:
            found += [f"{file}: {problem}" for problem in check_file(text)]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(files)} files of manifests, {len(found)} problems")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())

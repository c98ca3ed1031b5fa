#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws the pictures of reports in docs/: three runs on Fashion-MNIST, one of them in light, in dark and on a phone, and a sweep. Needs Chromium.
# Some minutes; TRAINER names the program, EPOCHS the length of the runs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
trainer=${TRAINER:-$root/build/release/bin/trainer}
most=150000 # bytes of a picture
browser=$(command -v chromium || command -v google-chrome) || { echo "report_screens.sh: install Chromium" >&2; exit 69; }

# Paths in a report are as they were given: relative to an empty folder, so that none of this machine is seen.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for rate in 0.01 0.05 0.2; do
  "$trainer" --config "$root/configs/fashion_mnist_mlp.yaml" "run.output_dir=runs/lr-$rate" "optimizer.lr=$rate" \
    "training.max_duration=${EPOCHS:-3}ep" device.type=cpu 'validation.metrics=[top1, macro_f1]' logging.interval=20ba
done
"$trainer" report runs/lr-0.05 --output run.html
"$trainer" report runs/lr-0.01 runs/lr-0.05 runs/lr-0.2 --output runs.html
"$trainer" sweep --config "$root/configs/fashion_mnist_mlp.yaml" run.output_dir=runs/sweep training.max_duration=468ba device.type=cpu \
  validation.interval=52ba 'sweep={method: tpe, halving: {first: 52ba, factor: 3}, metric: top1, trials: 30, parallel: 2, parameters: [
    {log_uniform: {key: optimizer.lr, from: 1.0e-3, to: 1}}, {choice: {key: optimizer.name, values: [sgd, muon]}},
    {uniform: {key: optimizer.momentum, from: 0, to: 0.99}}, {log_uniform: {key: optimizer.weight_decay, from: 1.0e-6, to: 1.0e-2}}]}'
"$trainer" report runs/sweep --output sweep.html
for page in run.html runs.html sweep.html; do
  if grep -qF -e "$work" -e "$root" -e "$HOME/" "$page"; then echo "report_screens.sh: $page shows a path of this machine" >&2; exit 70; fi
done

# PAGE PICTURE WIDTH HEIGHT [OPTION...]
screen() {
  local page=$1 picture=$2 size=$3,$4
  shift 4
  HOME=$work timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars "--window-size=$size" "$@" \
    "--screenshot=$work/$picture" "file://$work/$page" 2>"$work/log" || { cat "$work/log" >&2; exit 70; }
  local bytes
  bytes=$(stat -c %s "$picture")
  [ "$bytes" -le "$most" ] || { echo "report_screens.sh: $picture has $bytes bytes, more than $most" >&2; exit 70; }
  cp "$picture" "$root/docs/$picture"
  echo "docs/$picture: $bytes bytes"
}
dark=--blink-settings=preferredColorScheme=0
screen run.html report.png 1060 1055
screen run.html report-dark.png 1060 1055 "$dark"
screen run.html report-phone.png 420 1400
screen runs.html report-runs.png 1060 1026
screen sweep.html report-sweep.png 1060 800

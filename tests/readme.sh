#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Follows the README as a newcomer does: each command of its blocks and of its table of commands, in order, each in a fresh
# shell with a home of its own. R.yaml is the README's recipe.
#   tests/readme.sh SOURCES WORKSPACE    (a folder of its own in the build's folder)
set -euo pipefail
sources=$1 workspace=$2
rm -rf "$workspace"
mkdir -p "$workspace/home" "$workspace/trainer"
cd "$workspace"
readme=$sources/README.md

fail() {
  echo "readme: $1" >&2
  exit 1
}

# In place of `git clone`, which needs the network: a copy of the sources.
tar -C "$sources" --exclude=./build --exclude='./build-*' --exclude=./runs --exclude=./.git --exclude=./.cache -c . |
  tar -x -C trainer

# Objects that this test's build has made of the same files are reused; everything else is as after logging in.
environment=("HOME=$workspace/home" "PATH=$workspace/home/.local/bin:$PATH" CUDA_VISIBLE_DEVICES= OMP_WAIT_POLICY=passive
  "ORIGINAL=$sources" "ORIGINAL_BUILD=$(dirname "$workspace")" "COPY=$workspace/trainer" "COPY_BUILD=$workspace/trainer/build/release"
  "CMAKE_CXX_COMPILER_LAUNCHER=$sources/tests/reuse_objects.sh" "CMAKE_CUDA_COMPILER_LAUNCHER=$sources/tests/reuse_objects.sh")
number=0
run() { # FOLDER COMMAND
  local begin=$SECONDS log
  log=$((++number)).log
  (cd "$1" && env -i "${environment[@]}" bash -c "$2") >"$log" 2>&1 </dev/null || fail "\"$2\" ends with $?: $(tail -n 30 "$log")"
  echo "readme: $2 ($((SECONDS - begin)) s)"
}

# Blocks are indented by four. A block that begins with a prompt shows commands after prompts, and their output.
awk '
  /^    / && !within { within = 1; prompted = /^    \$ / }
  !/^    / { within = 0 }
  within && !prompted { sub(/ +#.*/, ""); print substr($0, 5) > "commands.txt" }
  within && sub(/^    \$ /, "") { print > "prompted.txt" }' "$readme"
grep -q '^scripts/quickstart.sh$' commands.txt || fail "no blocks of commands were found"
while read -r command <&3; do
  case $command in
    "git clone … trainer && cd trainer") ;;                                     # done above
    scripts/test.sh) ;;                                                         # which runs this
    scripts/quickstart.sh) run trainer "$command training.max_duration=20ba" ;; # as its head documents
    *) run trainer "$command" ;;
  esac
done 3<commands.txt
grep -q 'cmake --install build/release --prefix ~/.local' 1.log || fail "the quickstart does not say how to install: $(tail -n 8 1.log)"

# Images: in grey, brighter from class to class; with a table of their classes; with a mask of a bright rectangle.
mkdir -p try/folder own/new table/new masks/new
python3 - <<'PYTHON'
import os, struct, zlib

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

def write(path, width, height, brightest):
    draw(path, width, height, lambda x, y: (x * y) % (brightest + 1))

def draw(path, width, height, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    rows = b"".join(b"\0" + bytes(value(x, y) for x in range(width)) for y in range(height))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

write("try/a.png", 28, 28, 255)
write("try/folder/b.png", 28, 28, 255)
for kind, brightest in (("bag", 40), ("sneaker", 120), ("trousers", 250)):
    for number in range(30):
        write(f"own/images/{kind}/{number}.png", 56 + number, 112 - number, brightest)
write("own/new/b100.png", 60, 80, 40)

labels = ["id,breed"]
for number in range(45):
    write(f"table/photos/{number}.png", 40, 40, (40, 120, 250)[number % 3])
    labels.append(f"{number},{('bag', 'sneaker', 'trousers')[number % 3]}")
with open("table/photos/labels.csv", "w") as file:
    file.write("\n".join(labels))
write("table/new/a.png", 40, 40, 40)

for number in range(25):
    left, top = number % 5 * 4, number // 5 * 4
    inside = lambda x, y: left <= x < left + 20 and top <= y < top + 16
    name = f"{number:03}.png"
    draw("masks/new/a.png" if number == 12 else f"masks/signs/images/{name}", 48, 40, lambda x, y: 200 if inside(x, y) else (x + y) % 60)
    if number != 12:
        draw(f"masks/signs/masks/{name}", 48, 40, lambda x, y: int(inside(x, y)))
PYTHON

# A user's own images, up to the class of a new one.
[ "$(wc -l <prompted.txt)" -ge 4 ] || fail "the commands for a user's own images were not found"
while read -r command <&3; do run own "$command"; done 3<prompted.txt
grep -q '"name":"bag"' "$number.log" || fail "the image of a bag is not recognised: $(cat "$number.log")"

# The guide's ways from a table of labels to a gallery, and from masks to overlays.
guide() { # FOLDER SECTION
  local count
  sed -n "/^## $2\$/,/^## /s/^    \\$ //p" "$sources/docs/own-data.md" >"$1.txt"
  count=$(wc -l <"$1.txt")
  { [ "$count" -ge 3 ] && [ "$count" -le 4 ]; } || fail "\"$2\" has $count commands; expected three or four"
  while read -r command <&3; do run "$1" "$command"; done 3<"$1.txt"
}
guide table "Labels from a CSV file"
grep -q 'data:image' table/gallery.html || fail "the gallery has no image"
guide masks "A class for each pixel"
ls masks/out/a_mask.png masks/out/a_overlay.png >/dev/null || fail "no mask or overlay was written"

# The table, with a file or folder for its placeholders. Training is shortened by the key that the recipe explains.
cp -r trainer/configs/models try/
cp trainer/tests/fixtures/foreign/state.pth try/w.pth
# shellcheck disable=SC2016 # the quotes are Markdown's
sed -n '/^```yaml$/,/^```$/p' "$readme" | sed '/^```/d' >try/R.yaml
# shellcheck disable=SC2016
sed -n '/^## Commands/,/^## Guides/s/^| \(`.*`\) |.*/\1/p' "$readme" | grep -o '`trainer [^`]*`' | tr -d '`' >table.txt
[ "$(wc -l <table.txt)" -ge 14 ] || fail "the table of commands was not found"
# A text to learn and to continue.
printf 'Once upon a time\n%.0s' {1..200} >try/text.txt
cat >try/text.yaml <<'YAML'
version: 1
model:
  input: [64]
  input_kind: tokens
  layers:
    - embedding: {vocab_size: 256, features: 16}
    - linear: 48
    - attention: {heads: 2, causal: true}
    - linear: 256
data: {format: text, train: text.txt, val: null}
training: {max_duration: 20ba, global_batch_size: 8}
optimizer: {name: adamw, lr: 0.01}
YAML
while read -r command <&3; do
  case $command in
    "trainer generate "*) run try "trainer --config text.yaml && $command --tokens 20" ;;
    # A finished run is not trained again: another length is another run.
    *" --profile "*) run try "$command training.max_duration=30ba" && ls try/runs/*/trace.json >/dev/null ;;
    "trainer quantize "*) # what gains depends on the processor
      run try "${command/PATH/$(find try/runs -mindepth 1 -maxdepth 1 -printf 'runs/%f\n' | sort | head -n 1)} --all"
      ;;
    "trainer track "*) # there is no server: the message tells how to name one
      run try "! ${command/PATH/$(find try/runs -mindepth 1 -maxdepth 1 -printf 'runs/%f\n' | sort | head -n 1)} >answer 2>&1 && grep logging.mlflow.uri= answer"
      ;;
    "trainer sweep "*)
      run try "$command training.max_duration=20ba 'sweep={method: grid, parameters: [{choice: {key: optimizer.lr, values: [0.01, 0.1]}}]}'"
      ;;
    *--dump-config | "trainer plan "* | "trainer data "*) run try "$command" ;;
    *" --config "*) run try "$command training.max_duration=20ba" ;;
    "trainer init PATH") run try "${command/PATH/../own/images}" ;;
    *) run try "${command/PATH/$(find try/runs -mindepth 1 -maxdepth 1 -printf 'runs/%f\n' | sort | head -n 1)}" ;;
  esac
done 3<table.txt

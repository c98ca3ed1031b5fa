# SPDX-License-Identifier: Apache-2.0
"""Texts to learn, and their files."""
import gzip

DATA, RECIPE = 65, 78
LAYERS = '[embedding: {vocab_size: 256, features: 16}, linear: 48, attention: {heads: 2, causal: true}, linear: 256]'
CASES = [
    (['text.yaml', 'data.train=books'], RECIPE, 'books/**/*.txt'),
    (['text.yaml', 'data.train=books/*.gz'], DATA, 'unpack it with gunzip'),
    (['text.yaml', 'data.train=books/*.jsonl'], DATA, 'jq -r .text'),
    (['text.yaml', 'data.train=books/*.md'], RECIPE, 'books/*.md'),
    (['text.yaml', 'model.layers=' + LAYERS.replace('linear: 48, ', '')], RECIPE, 'put `linear: 48` before it'),
    (['generate', 'text.yaml', '--prompt', 'It', '--tokens', '9'], DATA, 'this recipe has not been trained here'),
    (['predict', 'text.yaml', 'books/1.txt'], RECIPE, 'trainer generate'),
    (['text.yaml', 'data.train=books/**/*.txt', 'run.output_dir=run'], 0, 'done: 3 steps'),
]


def prepare(run):
    for number in range(3):
        run.write(f'books/{number}.txt', 'It was the best of times, it was the worst of times.\n' * 100)
    run.write('books/old/3.txt', 'It was the age of wisdom, it was the age of foolishness.\n' * 100)
    run.write('books/4.txt.gz', gzip.compress(b'It was the epoch of belief.\n' * 100))
    run.write('books/5.jsonl', '{"text": "it was the epoch of incredulity"}\n')
    run.write('text.yaml', f'''version: 1
model:
  input: [64]
  input_kind: tokens
  layers: {LAYERS}
data: {{format: text, train: books/*.txt, val: null}}
training: {{max_duration: 3ba, global_batch_size: 8}}
optimizer: {{name: adamw, lr: 0.01}}
''')

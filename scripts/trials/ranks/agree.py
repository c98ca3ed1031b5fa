# SPDX-License-Identifier: Apache-2.0
"""One rank that was started with another value of a key: the ranks name it, or train to the same bits."""
import json
import re
import subprocess
from functools import partial

from run import RECIPE

from ranks.processes import Ranks, launch_words

# Where a key's description says too little of what it may be.
VALUES = {
    'device.memory': ['1GiB'], 'device.threads': ['2'], 'data.train': ['elsewhere'], 'data.val': ['elsewhere'], 'device.model': ['a100'], 'device.type': ['auto'],
    'model.input': ['[1, 9, 9]'], 'model.layers': ['[flatten, {linear: 5}]'], 'run.output_dir': ['elsewhere'], 'run.resume': ['elsewhere'],
    'checkpoint.keep_best': ['loss'], 'memory.recompute': ['full'], 'parallelism.data': ['2'], 'training.global_batch_size': ['32'],
    'training.precision': ['amp_bf16'], 'data.corruption': ['[gaussian_noise]'],
}
ANY = ['1', '2', '3', '8', '32', '0.5', '0.25', '1.5', '5ba', '3ep', '7s', '1MiB', 'auto', 'loss', 'x', '[1]', '[5ba]', '[loss]', '[top5]', '[csv]', '[bias]',
       '[horizontal_flip]', '[{resize: 9}, {center_crop: 8}]', '[{pattern: "*", lr_factor: 2}]', 'top1']
FOLDER = ['data.format=image_folder', 'data.train=a', 'model.input=[3, 8, 8]', 'data.augment=[{random_resized_crop: 8}]',
          'data.eval_transform=[{resize: 8}, {center_crop: 8}]']
TOKENS = ['data.format=tokens', 'data.train=a', 'data.end_of_text=1', 'model.input_kind=tokens', 'model.input=[8]',
          'model.layers=[{embedding: {vocab_size: 9, features: 4}}, {linear: 9}]']
AUTOENCODER = ['loss=mse', 'validation.metrics=[]', 'model.layers=[{conv2d: {out_channels: 1, kernel_size: 1}}]']
PLATEAU = ['lr_scheduler.name=plateau', 'lr_scheduler.metric=loss']
STEPS = ['lr_scheduler.name=multi_step', 'lr_scheduler.milestones=[3ba]']
# Keys that need others as well.
TOGETHER = {'data.format': FOLDER, 'model.input_kind': TOKENS}
AGREED = '''version: 1
run: {name: agree, seed: 3, output_dir: run}
model: {input: [1, 8, 8], layers: [flatten, linear: 16, tanh, linear: 5]}
data: {format: synthetic, synthetic: {train_samples: 160, val_samples: 40}}
training: {max_duration: 20ba, global_batch_size: 16}
optimizer: {name: sgd, lr: 0.05}
checkpoint: {interval: 4ba}
logging: {interval: 1ba}
device: {type: cpu}
'''
# The command on two ranks, of which one has further words.
ON_TWO = ['-n', '2', 'sh', '-c', '''
if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then
  while IFS= read -r word; do set -- "$@" "$word"; done <words.txt
fi
exec "$@" </dev/null''', 'sh']
SHORT = ['checkpoint.interval', 'device.threads', 'logging.interval', 'run.seed', 'validation.interval']


def resolve(schema, root):
    while '$ref' in schema:
        schema = root['definitions'][schema['$ref'].rsplit('/', 1)[1]]
    return schema


def forms(schema, root):
    """All that a value may be, alternatives flattened."""
    schema = resolve(schema, root)
    return [schema, *(each for one in schema.get('anyOf', []) for each in forms(one, root))]


def keys_of(schema, root, path=''):
    """Path and known values of every key outside of lists; of a component's, those of all its choices."""
    found = {}
    for form in forms(schema, root):
        for name, below in form.get('properties', {}).items():
            inner = keys_of(below, root, f'{path}{name}.')
            words = [word for each in forms(below, root) for word in [*each.get('enum', []), *([each['const']] if 'const' in each else [])]]
            kinds = [kind for each in forms(below, root) for kind in [each.get('type')]]
            if any('boolean' in (kind if isinstance(kind, list) else [kind]) for kind in kinds):
                words += [True, False]
            for key, more in (inner or {f'{path}{name}': words}).items():
                found.setdefault(key, []).extend(more)
    return found


class Keys:
    """The keys of a recipe, and another valid value of each."""

    def __init__(self, run):
        self.run = run
        schema = json.loads(self.output('schema'))
        self.values = keys_of(schema, schema)

    def output(self, *words):
        found = subprocess.run([str(self.run.trials.trainer), *words], cwd=self.run.directory, capture_output=True, text=True)
        return found.stdout if found.returncode == 0 else ''

    def dump(self, words):
        """The whole recipe, by lines without their sources."""
        return re.sub(r'  # .*', '', self.output('--config', 'r.yaml', *words, '--dump-config'))

    def surroundings(self, key):
        """Words for both ranks without which the key is not allowed."""
        yield from ([], FOLDER, TOKENS, AUTOENCODER, PLATEAU, STEPS, ['validation.early_stop.metric=loss'], ['model.initial_weights=w.safetensors'])
        name = key.rpartition('.')[0] + '.name'
        for choice in self.values.get(name, []) if key != name else []:
            yield [f'{name}={choice}']

    def other(self, key):
        """Words for both ranks, and those for one of them; None if no known value fits."""
        own = VALUES.get(key, [])
        values = [*own, *(str(value).lower() if isinstance(value, bool) else str(value) for value in self.values[key]), *ANY]
        for words in self.surroundings(key):
            usual = self.dump(words)
            for value in values:
                word = f'{key}={value}'
                dumped = self.dump([*words, word]) if usual else ''
                if dumped and dumped != usual:
                    return words, [word]
        return ([], TOGETHER[key]) if key in TOGETHER else None


def check(expected, keys, key):
    found = keys.other(key)
    if found is None:
        return f'{key}: no other value is valid in this recipe'
    words, more = found
    word = ' '.join(more)
    run = Ranks(expected.trials, f'agree_{key}', AGREED, words)
    run.write('words.txt', ''.join(f'{each}\n' for each in more))
    code = run.finish('parallelism.timeout=20s', codes={0, RECIPE}, prefix=[*launch_words(expected.trials.options.launcher), *ON_TWO])
    if code == 0:
        run.require(run.weights() == expected.weights(), f'{word} on one rank: the run has other weights')
        return f'{word} on one rank alone: exit code 0, and the same bits'
    changed = '|'.join(re.escape(each.partition('=')[0]) for each in more)
    named = re.search(rf'rank 1 on \S+ has (?:{changed})\S*=.* but rank 0 on \S+ has .*|error: parallelism.data is .*', run.errors)
    run.require(named, f'{word} on one rank: the key is not named')
    return f'{word} on one rank alone: exit code {code}; {named[0][:160]}'


def agree(trials):
    expected = Ranks(trials, 'agreeing', AGREED).train(2)
    keys = Keys(expected)
    return [partial(check, expected, keys, key) for key in (sorted(keys.values) if trials.thorough else SHORT)]

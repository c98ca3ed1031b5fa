# SPDX-License-Identifier: Apache-2.0
"""Every whole number of a recipe, as the schema lists them, with values at which products and sums overflow."""
import json
import subprocess

from run import MEMORY, RECIPE

VALUES = [2**31, 2**32, 2**62, 2**63 - 1, 0, -1]
MORE_VALUES = [2**31 - 1, 2**16, 2**20, 2**24, 2**30, 2**40, 2**63, -2**63, 10**30]
# `trainer plan` of a small network needs less. A recipe that asks for more must be refused, and not take it.
LIMITED = ['timeout', '60', 'sh', '-c', 'ulimit -v 4194304; exec "$@"', 'sh']
FIRST = {'linear': 'flatten, '}  # what the layer reads
REQUIRED = {'integer': 2, 'array': [2, 2], 'number': 0.5}
HEAD = 'version: 1\nmodel: {{input: [2, 8, 8], layers: [{layers}]}}\ndata: {{format: synthetic{data}}}\n'


def types_of(schema):
    """All types that a value may have, references left out."""
    types = schema.get('type', [])
    found = set(types if isinstance(types, list) else [types])
    for choice in schema.get('anyOf', []):
        found |= types_of(choice)
    return found


def texts_of(schema, value):
    """How a recipe may write a number there: alone, in a list, with each unit; nothing if it takes no number."""
    texts = []
    for choice in [schema, *schema.get('anyOf', [])]:
        types, pattern = types_of(choice), choice.get('pattern', '')
        if 'integer' in types:
            texts.append(str(value))
        elif 'array' in types and 'integer' in types_of(choice.get('items', {})):
            length = choice.get('minItems', 3)
            texts += [str([value] * length), str([value] + [1] * (length - 1)), str([1] * (length - 1) + [value])]
        for unit in ('ep', 'ba', 's', 'h'):
            if f'({unit}|' in pattern or f'|{unit}' in pattern:
                texts.append(f'{value}{unit}')
    return list(dict.fromkeys(texts))


def maps_of(schema):
    """The maps among what a component may be."""
    return [choice for choice in [schema, *schema.get('anyOf', [])] if 'properties' in choice]


def components(schema, value):
    """Each parameter of a component with this value, its other required ones beside it, as YAML."""
    for choice in maps_of(schema):
        for key, field in choice['properties'].items():
            for text in texts_of(field, value):
                others = [f'{name}: {REQUIRED[sorted(types_of(choice["properties"][name]) & REQUIRED.keys())[-1]]}'
                          for name in choice.get('required', []) if name != key and name != 'name']
                yield f'{{{", ".join([f"{key}: {text}", *others])}}}'


def recipes_of_parts(schema, value):
    """Of layers and transforms, which are items of lists."""
    for name, definition in schema['definitions'].items():
        if name.startswith('layer_') and name != 'layer_item':
            kind = name.removeprefix('layer_')
            for text in components(definition, value):
                tail = '' if kind == 'linear' else ', flatten, linear: 4'
                yield HEAD.format(layers=f'{FIRST.get(kind, "")}{kind}: {text}{tail}', data='')
    transforms = schema['properties']['data']['properties']['augment']['items']
    for choice in maps_of(transforms):
        for kind, definition in choice['properties'].items():
            for text in components(definition, value):
                yield HEAD.format(layers='flatten, linear: 4', data=f', augment: [{kind}: {text}]')


def recipes_of_products(value):
    """Values that only together are too large, or in a text."""
    yield HEAD.format(layers=f'reshape: [{value}, {value}, -1], flatten, linear: 4', data='')
    yield HEAD.format(layers=f'reshape: [-1, {value}, {value}, {value}], flatten, linear: 4', data='')
    yield HEAD.format(layers='flatten, linear: 4', data='') + f'lr_scheduler: {{name: multi_step, milestones: [{value}ep]}}\n'
    yield HEAD.format(layers='flatten, linear: 4', data='') + f'memory: {{recompute: {value}TiB}}\n'


def recipes_of_templates(value):
    yield HEAD.format(layers=f'{{relu: {{}}, repeat: {value}}}, flatten, linear: 4', data='')
    yield HEAD.format(layers=f'{{relu: {{}}, when: false, repeat: {value}}}, flatten, linear: 4', data='')


def overrides(schema, value, path=''):
    """Of all other keys."""
    for key, field in schema.get('properties', {}).items():
        place = f'{path}{key}'
        for text in texts_of(field, value):
            yield f'{place}={text}'
        for choice in field.get('anyOf', []):  # the components of optimizer, loss and lr_scheduler
            name = choice.get('properties', {}).get('name', {}).get('const')
            for parameter in overrides(choice, value, f'{place}.') if name else ():
                yield f'{place}.name={name} {parameter}'
        if 'properties' in field:
            yield from overrides(field, value, f'{place}.')


def plan(run, words, recipe):
    run.write('r.yaml', recipe)
    run.finish('plan', *words, codes={0, MEMORY, RECIPE}, prefix=LIMITED)


def attacks(trials):
    schema = json.loads(subprocess.run([str(trials.trainer), 'schema'], capture_output=True, check=True).stdout)
    base = HEAD.format(layers='flatten, linear: 4', data='')
    for value in VALUES + (MORE_VALUES if trials.thorough else []):
        texts = [*recipes_of_parts(schema, value), *recipes_of_products(value), *recipes_of_templates(value)]
        for number, text in enumerate(texts):
            yield f'{value} {number} in {text}', plan, [], text
        for number, more in enumerate(overrides(schema, value)):
            yield f'{value} {number}: {more}', plan, more.split(' ', 1) if '.name=' in more else [more], base

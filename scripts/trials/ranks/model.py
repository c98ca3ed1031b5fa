# SPDX-License-Identifier: Apache-2.0
"""One network on several ranks: what they compute together against one process, and the files of each division."""
from functools import partial

from run import require

from ranks.equal import GUARDED, allowed_changes, farthest, spread, stop_after, worst_share
from ranks.guarded import nan_in_shared_operations
from ranks.processes import Ranks
from ranks.rollback import divisions_roll_back
from ranks.saving import rank_0_while_it_saves

SHARDS = 'parallelism.shard_parameters=true'


def tensor(ranks):
    return f'parallelism.tensor={ranks}'


def pipeline(ranks, schedule='1f1b'):
    return [f'parallelism.pipeline={ranks}', f'parallelism.schedule.name={schedule}']


# Ranks with samples of their own, and what else divides the network.
DIVISIONS = {'tensor 2': (1, [tensor(2)]), 'tensor 4': (1, [tensor(4)]), 'tensor 2 x data 2': (2, [tensor(2)]),
             'tensor 2 x shards 2': (2, [tensor(2), SHARDS])}
STAGES = {'pipeline 2': (1, pipeline(2)), 'pipeline 4, gpipe': (1, pipeline(4, 'gpipe')), 'pipeline 2, interleaved': (1, pipeline(2, 'interleaved')),
          'pipeline 2 x data 2': (2, pipeline(2)), 'pipeline 2 x shards 2': (2, [*pipeline(2), SHARDS])}
ONE_SAMPLER = {'pipeline 2': (1, pipeline(2)), 'pipeline 3, gpipe': (1, pipeline(3, 'gpipe')), 'pipeline 2, interleaved': (1, pipeline(2, 'interleaved'))}
EIGHT = {'pipeline 4': (1, pipeline(4)), 'pipeline 2 x tensor 2': (1, [*pipeline(2), tensor(2)]),
         'pipeline 2 x data 2 x tensor 2': (2, [*pipeline(2), tensor(2)]), 'pipeline 2, interleaved x shards 2 x tensor 2': (2, [*pipeline(2, 'interleaved'), tensor(2), SHARDS])}


def divided(trials, name, divisions, *words):
    """Losses of each of these divisions against those of one process, with a norm that limits and averages, and skipped steps."""
    words, first = [*GUARDED, *words], f'{name} beside {next(iter(divisions))}'
    alone = Ranks(trials, f'{first}, whole', name, words).train(1)
    threads = Ranks(trials, f'{first}, two threads', name, words).train(1, 'device.threads=2')
    allowed, shares = allowed_changes(alone.losses(), [threads.losses()]), {}
    for division, (data, more) in divisions.items():
        run, again = (Ranks(trials, f'{name} {division} {turn}', name, [*words, *more]).train(data) for turn in range(2))
        run.require_same(again, f'{name}, {division}: the same command again')
        shares[division] = worst_share(alone.losses(), run.losses(), allowed)
        require(shares[division] <= 1, f'{name}, {division}: losses differ by {shares[division]:.2f} of what is allowed')
        require({tensor: len(data) for tensor, data in run.tensors().items()} == {tensor: len(data) for tensor, data in alone.tensors().items()},
                f'{name}, {division}: tensors of other shapes')
    return (f'{name}: {len(allowed)} losses against one process: ' + ', '.join(f'{division} {share:.2f}' for division, share in shares.items())
            + f' of what is allowed ({allowed[0]:.0e} to {allowed[-1]:.0e})')


def from_weights(trials):
    """Rank 0 alone reads the file of the weights that a run starts with."""
    base = Ranks(trials, 'weights_to_start_with', 'gpt', ['training.max_duration=5ba']).train(1)
    words = ['training.max_duration=3ba', 'logging.interval=1ba', 'training.micro_batch_size=2', 'training.ema={decay: 0.9}']
    fresh = Ranks(trials, 'without_weights', 'gpt', words).train(1).losses()
    words.append(f'model.initial_weights={base.output}')
    alone = Ranks(trials, 'weights_alone', 'gpt', words).train(1).losses()
    require(spread(fresh, [alone])[-1] > 1e-3, 'the weights make no difference')
    changes = {name: spread(alone, [Ranks(trials, f'weights {name}', 'gpt', [*words, *more]).train(data).losses()])[-1]
               for name, (data, more) in {'shards 2': (2, [SHARDS]), 'tensor 2': (1, [tensor(2)]), 'pipeline 2': (1, pipeline(2))}.items()}
    require(max(changes.values()) < 1e-6, f'losses differ by {changes}')
    return 'losses from given weights differ from one process\'s by ' + ', '.join(f'{name} {change:.1e}' for name, change in changes.items())


def in_bf16(trials):
    """Other orders of sums round other numbers up. So losses of divisions may differ by no more than bf16 itself changes."""
    words = [*GUARDED, 'training.micro_batch_size=2']
    low = [*words, 'training.precision=amp_bf16', 'device.emulate_bf16=true']
    exact, alone = Ranks(trials, 'bf16_exact', 'gpt', words).train(1).losses(), Ranks(trials, 'bf16_alone', 'gpt', low).train(1).losses()
    most, told = spread(exact, [alone])[-1], []
    for name, (data, more) in {'shards 2': (2, [SHARDS]), 'tensor 2': (1, [tensor(2)]), 'pipeline 2 x tensor 2': (1, [*pipeline(2), tensor(2)])}.items():
        change = spread(alone, [Ranks(trials, f'bf16 {name}', 'gpt', [*low, *more]).train(data).losses()])[-1]
        require(change <= most, f'bf16, {name}: losses differ by {change:.1e}, and bf16 itself changes {most:.1e}')
        told.append(f'{name} {change:.1e}')
    return f'gpt in bf16: losses against one process differ by {", ".join(told)}; bf16 itself changes {most:.1e}'


def in_turn(trials):
    """A run whose division changes. Queries', keys' and values' biases stay zero: keys' have no gradient, which Adam makes noise of."""
    words = ['training.micro_batch_size=4', 'model.freeze=[qkv.bias]', 'optimizer.lr=0.0003', 'training.max_duration=600ba', 'validation.interval=300ba']
    whole = Ranks(trials, 'whole_gpt', 'gpt', words).train(1)
    run = Ranks(trials, 'divided_in_turn', 'gpt', words)
    steps = [stop_after(run, ranks, 5, *more)
             for ranks, more in ((1, []), (2, [SHARDS]), (1, [tensor(2)]), (1, pipeline(2)), (2, [tensor(2), SHARDS]), (1, [*pipeline(2), tensor(2)]))]
    found = farthest(whole, run.train(1))
    require(found < 1e-4, f'divisions in turn differ by {found:.1e}')
    return f'whole, shards 2, tensor 2, pipeline 2, tensor 2 x shards 2, pipeline 2 x tensor 2 and whole again, stopped after steps {steps}: weights differ by {found:.1e} of an undisturbed run\'s'


def model(trials):
    pieces, thirds = 'training.micro_batch_size=2', 'logging.interval=3ba'  # a step that is skipped has no loss of its own
    return [partial(divided, trials, 'gpt', DIVISIONS), partial(divided, trials, 'llama', DIVISIONS),
            partial(divided, trials, 'mlp', DIVISIONS, 'training.micro_batch_size=16'),
            partial(divided, trials, 'gpt', {**STAGES, **EIGHT}, pieces), partial(divided, trials, 'llama', EIGHT, pieces),
            partial(divided, trials, 'mlp', STAGES, 'training.micro_batch_size=8'), partial(divided, trials, 'cnn', ONE_SAMPLER, 'training.micro_batch_size=8', 'training.max_duration=30ba', thirds),
            partial(divided, trials, 'resnet', {'pipeline 2': (1, pipeline(2))}, thirds),
            partial(in_turn, trials), partial(in_bf16, trials), partial(from_weights, trials), partial(nan_in_shared_operations, trials), partial(divisions_roll_back, trials), partial(rank_0_while_it_saves, trials)]

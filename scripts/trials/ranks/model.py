# SPDX-License-Identifier: Apache-2.0
"""One network on several ranks: what they compute together against one process, and the files of each division."""
from functools import partial

from run import require

from ranks.equal import GUARDED, allowed_changes, farthest, stop_after, worst_share
from ranks.guarded import nan_in_shared_operations
from ranks.processes import Ranks

SHARDS = 'parallelism.shard_parameters=true'


def tensor(ranks):
    return f'parallelism.tensor={ranks}'


# Ranks with samples of their own, and what else divides the network.
DIVISIONS = {'tensor 2': (1, [tensor(2)]), 'tensor 4': (1, [tensor(4)]), 'tensor 2 x data 2': (2, [tensor(2)]),
             'tensor 2 x shards 2': (2, [tensor(2), SHARDS])}


def divided(trials, name, *words):
    """Losses of each division against those of one process, with a norm that limits and averages, and skipped steps."""
    words = [*GUARDED, *words]
    alone = Ranks(trials, f'{name}_whole', name, words).train(1)
    threads = Ranks(trials, f'{name}_two_threads', name, words).train(1, 'device.threads=2')
    allowed, shares = allowed_changes(alone.losses(), [threads.losses()]), {}
    for division, (data, more) in DIVISIONS.items():
        run, again = (Ranks(trials, f'{name} {division} {turn}', name, [*words, *more]).train(data) for turn in range(2))
        run.require_same(again, f'{name}, {division}: the same command again')
        shares[division] = worst_share(alone.losses(), run.losses(), allowed)
        require(shares[division] <= 1, f'{name}, {division}: losses differ by {shares[division]:.2f} of what is allowed')
        require({tensor: len(data) for tensor, data in run.tensors().items()} == {tensor: len(data) for tensor, data in alone.tensors().items()},
                f'{name}, {division}: tensors of other shapes')
    return (f'{name}: {len(allowed)} losses against one process: ' + ', '.join(f'{division} {share:.2f}' for division, share in shares.items())
            + f' of what is allowed ({allowed[0]:.0e} to {allowed[-1]:.0e})')


def in_turn(trials):
    """A run whose division changes. Queries', keys' and values' biases stay zero: keys' have no gradient, which Adam makes noise of."""
    words = ['model.freeze=[qkv.bias]', 'optimizer.lr=0.0003', 'training.max_duration=600ba', 'validation.interval=300ba']
    whole = Ranks(trials, 'whole_gpt', 'gpt', words).train(1)
    run = Ranks(trials, 'divided_in_turn', 'gpt', words)
    steps = [stop_after(run, ranks, 5, *more)
             for ranks, more in ((1, []), (2, [SHARDS]), (1, [tensor(2)]), (2, [tensor(2), SHARDS]), (1, [tensor(4)]))]
    found = farthest(whole, run.train(1))
    require(found < 1e-4, f'divisions in turn differ by {found:.1e}')
    return f'whole, shards 2, tensor 2, both, tensor 4 and whole again, stopped after steps {steps}: weights differ by {found:.1e} of an undisturbed run\'s'


def model(trials):
    return [partial(divided, trials, 'gpt'), partial(divided, trials, 'llama'), partial(divided, trials, 'mlp', 'training.micro_batch_size=16'),
            partial(in_turn, trials), partial(nan_in_shared_operations, trials)]

# SPDX-License-Identifier: Apache-2.0
"""What ranks compute: losses, weights and bits of several numbers of them."""
import shutil
import signal
from functools import partial

from run import RECIPE, SAVED, require

from ranks.guarded import nan_of_one_rank
from ranks.processes import Ranks

GUARDED = ['guards.nonfinite=skip', 'guards.skip_steps=[3, 3, 9, 11]', 'training.ema={decay: 0.9}',
           'optimizer={name: adamw, lr: 0.01, clip_norm: 0.5}']
# With another instruction set: own kernels have the same bits on each, so oneDNN's take their place.
OTHER_WAY = ['runtime.winograd=off']


def farthest(one, other):
    """Largest difference between two runs' weights, relative to a tensor's largest number."""
    a, b = one.tensors(), other.tensors()
    require(a.keys() == b.keys(), 'runs with other tensors')
    worst = 0
    for name in a:
        largest = max(max(map(abs, a[name])), 1e-3)
        worst = max(worst, max(abs(x - y) for x, y in zip(a[name], b[name])) / largest)
    return worst


def spread(reference, others):
    """Of each step, the largest difference of the others' losses so far, relative to the reference's."""
    worst, found = 0, []
    for step, loss in enumerate(reference):
        worst = max([worst, *(abs(other[step] - loss) / max(abs(loss), 1e-3) for other in others)])
        found.append(worst)
    return found


def allowed_changes(losses, others):
    """Rounding grows from step to step in a deep network. Allowed is three times what a second thread or another instruction set has
    changed so far, at least 1e-5."""
    return [max(1e-5, 3 * change) for change in spread(losses, others)]


def worst_share(losses, other, allowed):
    """Of what is allowed, how much another run's losses differ."""
    require(len(losses) == len(other), f'{len(other)} losses, not {len(losses)}')
    return max(change / most for change, most in zip(spread(losses, [other]), allowed))


def on_other_instructions(trials, name, recipe, words):
    return Ranks(trials, f'{name}_instructions', recipe, words).train(1, *OTHER_WAY, environment={'ONEDNN_MAX_CPU_ISA': 'AVX2'})


def compare(trials, name, rows, *words):
    """One process against 2 and 4 ranks, with micro-batches of one size."""
    words = [f'training.micro_batch_size={rows}', *words]
    alone = Ranks(trials, f'{name}_1', name, words).train(1).losses()
    threads = Ranks(trials, f'{name}_threads', name, words).train(1, 'device.threads=2').losses()
    allowed = allowed_changes(alone, [threads, on_other_instructions(trials, name, name, words).losses()])
    shares = []
    for ranks in 2, 4:
        shared = Ranks(trials, f'{name}_{ranks}', name, words).train(ranks)
        again = Ranks(trials, f'{name}_{ranks}_again', name, words).train(ranks)
        require(shared.weights() == again.weights(), f'{name}: {ranks} ranks have other bits the second time')
        shares.append(worst_share(alone, shared.losses(), allowed))
        require(shares[-1] <= 1, f'{name}: losses of {ranks} ranks differ by {shares[-1]:.2f} of what is allowed')
    return (f'{name}: {len(alone)} losses of 2 and 4 ranks differ by at most {shares[0]:.2f} and {shares[1]:.2f} of what is allowed '
            f'({allowed[0]:.0e} to {allowed[-1]:.0e})')


def synchronised(trials, shared_rows, rows, *words):
    """Two ranks that share batch normalisation's statistics against one process with micro-batches of twice the size: losses, and the
    weights after a few steps."""
    name = f'2 ranks x {shared_rows} with sync_batch_norm against 1 x {rows}'
    one = [*words, f'training.micro_batch_size={rows}', 'training.max_duration=6ba']
    alone, other = Ranks(trials, f'sync_{rows}', 'resnet', one).train(1), on_other_instructions(trials, f'sync_{rows}', 'resnet', one)
    two = Ranks(trials, f'sync_2x{shared_rows}', 'resnet',
                [*one, f'training.micro_batch_size={shared_rows}', 'parallelism.sync_batch_norm=true']).train(2)
    share = worst_share(alone.losses(), two.losses(), allowed_changes(alone.losses(), [other.losses()]))
    require(share <= 1, f'{name}: losses differ by {share:.2f} of what is allowed')
    weights, most = farthest(alone, two), max(1e-5, 3 * farthest(alone, other))
    require(weights <= most, f'{name}: weights differ by {weights:.1e}, more than {most:.1e}')
    changes = spread(alone.losses(), [two.losses()])
    return (f'{name}: losses differ by {changes[0]:.1e} at first and {changes[-1]:.1e} at last ({share:.2f} of what is allowed), weights by '
            f'{weights:.1e} (allowed {most:.1e})')


def names_keys(trials):
    """Ranks that change batch normalisation's statistics say so, in one line with both keys that help."""
    for help_, expected in (None, 1), ('training.micro_batch_size=24', 0), ('parallelism.sync_batch_norm=true', 0):
        run = Ranks(trials, f'says_{expected}_{help_}', 'cnn', ['training.max_duration=1ba', *([help_] if help_ else [])]).train(2)
        lines = [line for line in run.errors.splitlines() if 'micro_batch_size' in line and 'sync_batch_norm' in line]
        run.require(len(lines) == expected, f'{len(lines)} lines name sync_batch_norm, not {expected}')
    return 'ranks say that they change batch normalisation, and what keeps it'


def same_bits(trials, name, recipe, *words):
    """Two ranks against one process with two micro-batches."""
    a, b = (Ranks(trials, f'{name}_bits_{ranks}', recipe, words).train(ranks).parameters() for ranks in (1, 2))
    require(a == b, f'{name}: of two ranks these have other bits: {[tensor for tensor in a if a[tensor] != b.get(tensor)]}')
    return f'{name}: two ranks have the parameter bits of one process with two micro-batches'


def low_precision(trials):
    """The same in bf16, if the processor has products of it."""
    bf16 = 'training.precision=amp_bf16'
    probe = Ranks(trials, 'bf16', 'mlp', [bf16, 'training.max_duration=1ba'])
    if probe.finish(codes={0, RECIPE}, says='cannot be computed here') == RECIPE:
        return 'left out: bf16, which this processor does not compute'
    return '\n'.join([same_bits(trials, 'mlp_bf16', 'mlp', 'training.micro_batch_size=32', bf16),
                      same_bits(trials, 'cnn_bf16', 'cnn', 'training.micro_batch_size=24', bf16)])


def changing_numbers(trials):
    """A run that goes on with other numbers of ranks."""
    words = ['training.micro_batch_size=12', 'validation.interval=100ba', 'training.max_duration=8ep']
    growing, whole = Ranks(trials, 'growing', 'smooth', words), Ranks(trials, 'whole', 'smooth', words).train(1)
    stops = [stop_after(growing, ranks, 25) for ranks in (1, 2, 4)]
    found = farthest(whole, growing.train(1))
    require(found < 1e-4, f'1, 2, 4 and 1 ranks in turn differ by {found:.1e}')
    return f'a run on 1, 2, 4 and 1 ranks, stopped after steps {stops}: weights differ by {found:.1e} of an undisturbed run\'s'


def stop_after(run, ranks, steps, *words):
    """Trains until this number of further steps is saved, and stops."""
    process, before = run.begin(ranks, *words), run.saved()
    run.wait_for(process, lambda: run.saved() >= before + steps, f'{steps} steps on {ranks} ranks')
    process.send_signal(signal.SIGTERM)
    run.end(process, {SAVED})
    return run.saved()


def sharded(trials):
    """Ranks that share the optimizer's moments against ranks that all have them: same files, also resumed by other numbers of ranks."""
    shards = 'parallelism.shard_optimizer=true'
    for name, words in ('mlp', GUARDED), ('cnn', []):
        whole, shared = (Ranks(trials, f'{name}_sharded_{bool(more)}', name, [*words, *more]).train(2) for more in ([], [shards]))
        shared.require_same(whole, 'with shard_optimizer the run of two ranks')
    words = ['training.micro_batch_size=8', 'training.global_batch_size=48', 'validation.interval=100ba', 'training.max_duration=8ep']
    whole = Ranks(trials, 'sharded_by_none', 'smooth', words).train(1)
    first = Ranks(trials, 'sharded_by_2', 'smooth', words)
    step = stop_after(first, 2, 25, shards)
    found = []
    for ranks in 1, 2, 3:
        resumed = Ranks(trials, f'sharded_by_2_then_{ranks}', 'smooth', words)
        shutil.copytree(first.output, resumed.output)
        found.append(farthest(whole, resumed.train(ranks, shards)))
        require(found[-1] < 1e-4, f'2 sharded ranks and then {ranks} differ by {found[-1]:.1e}')
    return ('two ranks that share the moments have the weights, moments and metrics of two that all have them; resumed after step '
            f'{step} by 1, 2 and 3 ranks, weights differ by ' + ', '.join(f'{each:.1e}' for each in found) + ' from one process\'s')


def parts(trials):
    """Ranks that hold parts of the parameters: the bits of ranks that hold all, losses where a norm limits, and files of one form."""
    key = 'parallelism.shard_parameters=true'
    for name in 'mlp', 'cnn':
        whole, cut = (Ranks(trials, f'{name}_parts_{bool(more)}', name, more).train(2) for more in ([], [key]))
        cut.require_same(whole, 'with shard_parameters the run of two ranks')
    shares = []
    pairs = 'parallelism.shard_parameters=2'
    for ranks, more in (2, key), (3, key), (4, key), (4, pairs):
        words = [*GUARDED, 'training.global_batch_size=48', 'training.micro_batch_size=4']
        name = f'parts_{ranks}' + ('_in_pairs' if more is pairs else '')
        whole, cut = (Ranks(trials, f'{name}_{bool(more)}', 'mlp', [*words, *more]).train(ranks) for more in ([], [more]))
        again = Ranks(trials, f'{name}_again', 'mlp', [*words, more]).train(ranks)
        cut.require_same(again, 'the same command again')
        shares.append(worst_share(whole.losses(), cut.losses(), [1e-5] * len(whole.losses())))
        require(shares[-1] <= 1, f'losses of {ranks} ranks with parts differ by {shares[-1]:.2f} of what is allowed')
    words = ['training.micro_batch_size=8', 'training.global_batch_size=48', 'validation.interval=100ba', 'training.max_duration=8ep']
    whole = Ranks(trials, 'parts_by_none', 'smooth', words).train(1)
    run = Ranks(trials, 'parts_in_turn', 'smooth', words)
    steps = [stop_after(run, ranks, 15, *more) for ranks, more in ((1, []), (2, [key]), (6, ['parallelism.shard_parameters=3']), (3, [key]), (2, ['parallelism.shard_optimizer=true']))]
    found = farthest(whole, run.train(1))
    require(found < 1e-4, f'1 rank, 2, 6 and 3 with parts, 2 with shared moments and 1 in turn differ by {found:.1e}')
    return ('two ranks that hold parts of the parameters have the files of two that hold all; with a limited norm losses of 2, 3, 4 and twice 2 differ by '
            + ', '.join(f'{share:.2f}' for share in shares) + f' of 1e-5; whole, cut in 2, 3 (two copies), 3 and whole again, stopped after steps {steps}, '
            f'weights differ by {found:.1e} of an undisturbed run\'s')


def equal(trials):
    deep = ['training.global_batch_size=16', 'optimizer.lr=0.001', 'model.input=[3, 16, 16]', 'data.augment=[]']
    micro = 'training.micro_batch_size'
    checks = [partial(sharded, trials), partial(parts, trials), partial(compare, trials, 'mlp', 16), partial(compare, trials, 'cnn', 12),
              partial(changing_numbers, trials), partial(names_keys, trials), partial(same_bits, trials, 'mlp', 'mlp', f'{micro}=32'),
              partial(same_bits, trials, 'cnn', 'cnn', f'{micro}=24'), partial(same_bits, trials, 'guards', 'mlp', f'{micro}=32', *GUARDED),
              partial(nan_of_one_rank, trials), partial(low_precision, trials)]
    if trials.thorough:
        checks += [partial(compare, trials, 'resnet', 4, *deep, 'training.max_duration=12ba'),
                   partial(synchronised, trials, 4, 8, *deep), partial(synchronised, trials, 8, 16, *deep),
                   partial(same_bits, trials, 'resnet', 'resnet', f'{micro}=2', 'training.max_duration=6ba')]
    return checks

# SPDX-License-Identifier: Apache-2.0
"""What ranks compute: losses, weights and bits of several numbers of them."""
import shutil
import signal
import time
from functools import partial

from guarded import nan_of_one_rank
from processes import PATIENCE, REFUSED, SAVED, Ranks, side_by_side
from runs import require

GUARDED = ['guards.nonfinite=skip', 'guards.skip_steps=[3, 3, 9, 11]', 'training.ema={decay: 0.9}',
           'optimizer={name: adamw, lr: 0.01, clip_norm: 0.5}']


# With another instruction set: own kernels have the same bits on each, so oneDNN's take their place.
OTHER_WAY = ['runtime.winograd=off']


def farthest(one, other, ignored=()):
    """Largest difference between two runs' weights, relative to a tensor's largest number."""
    a, b = one.tensors(), other.tensors()
    require(a.keys() == b.keys(), 'runs with other tensors')
    worst = 0
    for name in a:
        if any(part in name for part in ignored):
            continue
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


def compare(scratch, name, recipe, rows, *words):
    """One process against 2 and 4 ranks, with micro-batches of one size.

    Rounding grows from step to step in a deep network. Allowed is three times what a second thread or another instruction set has
    changed so far, at least 1e-5.
    """
    words = [f'training.micro_batch_size={rows}', *words]
    alone = Ranks(scratch, f'{name}_1', recipe, *words).train(1).losses()
    threads = Ranks(scratch, f'{name}_threads', recipe, *words).train(1, 'device.threads=2').losses()
    other = Ranks(scratch, f'{name}_instructions', recipe, *words).train(1, *OTHER_WAY, environment={'ONEDNN_MAX_CPU_ISA': 'AVX2'}).losses()
    allowed = [max(1e-5, 3 * change) for change in spread(alone, [threads, other])]
    shares = []
    for ranks in 2, 4:
        shared = Ranks(scratch, f'{name}_{ranks}', recipe, *words).train(ranks)
        again = Ranks(scratch, f'{name}_{ranks}_again', recipe, *words).train(ranks)
        require(shared.weights() == again.weights(), f'{name}: {ranks} ranks have other bits the second time')
        require(len(shared.losses()) == len(alone), f'{name}: {ranks} ranks log another number of losses')
        changes = spread(alone, [shared.losses()])
        shares.append(max(change / most for change, most in zip(changes, allowed)))
        require(shares[-1] <= 1, f'{name}: losses of {ranks} ranks differ by {shares[-1]:.2f} of what is allowed')
    return (f'{name}: {len(alone)} losses of 2 and 4 ranks differ by at most {shares[0]:.2f} and {shares[1]:.2f} of what is allowed '
          f'({allowed[0]:.0e} to {allowed[-1]:.0e})')


def synchronised(scratch, name, recipe, steps, *words):
    """Two ranks that share batch normalisation's statistics against one process with micro-batches of twice the size.

    Rounding grows in a deep network: compared are losses by what another instruction set has changed so far, at least 1e-5, and the
    weights after a few steps.
    """
    pairs, lines = [('4', '8'), ('8', '16')], []
    for shared_rows, rows in pairs:
        one = [*words, f'training.micro_batch_size={rows}', f'training.max_duration={steps}ba']
        alone = Ranks(scratch, f'{name}_{rows}', recipe, *one).train(1)
        other = Ranks(scratch, f'{name}_{rows}_instructions', recipe, *one).train(1, *OTHER_WAY, environment={'ONEDNN_MAX_CPU_ISA': 'AVX2'})
        two = Ranks(scratch, f'{name}_2x{shared_rows}', recipe, *words, f'training.micro_batch_size={shared_rows}',
                    f'training.max_duration={steps}ba', 'parallelism.sync_batch_norm=true').train(2)
        allowed = [max(1e-5, 3 * change) for change in spread(alone.losses(), [other.losses()])]
        changes = spread(alone.losses(), [two.losses()])
        worst = max(change / most for change, most in zip(changes, allowed))
        require(worst <= 1, f'{name}: synchronised losses differ by {worst:.2f} of what is allowed')
        weights, most = farthest(alone, two), max(1e-5, 3 * farthest(alone, other))
        require(weights <= most, f'{name}: synchronised weights differ by {weights:.1e}, more than {most:.1e}')
        lines.append(f'{name}: 2 ranks x {shared_rows} with sync_batch_norm against 1 x {rows}: losses differ by {changes[0]:.1e} at first '
              f'and {max(changes):.1e} at last ({worst:.2f} of what is allowed), weights by {weights:.1e} (allowed {most:.1e})')
    return '\n'.join(lines)


def names_keys(scratch, recipe):
    """Ranks that change batch normalisation's statistics say so, in one line with both keys that help."""
    for help_, expected in (None, 1), ('training.micro_batch_size=24', 0), ('parallelism.sync_batch_norm=true', 0):
        run = Ranks(scratch, f'says_{expected}_{help_}', recipe, 'training.max_duration=1ba', *([help_] if help_ else [])).train(2)
        lines = [line for line in run.errors.splitlines() if 'micro_batch_size' in line and 'sync_batch_norm' in line]
        require(len(lines) == expected, f'{help_}: {len(lines)} lines name sync_batch_norm, not {expected}:\n{run.errors}')
    return 'ranks say that they change batch normalisation, and what keeps it'


def same_bits(scratch, name, recipe, *words):
    """Two ranks against one process with two micro-batches: running statistics may differ in the last bits, parameters not."""
    alone = Ranks(scratch, f'{name}_alone', recipe, *words).train(1)
    pair = Ranks(scratch, f'{name}_pair', recipe, *words).train(2)
    a, b = alone.tensors(), pair.tensors()
    for tensor in a:
        if 'running' not in tensor:
            require(a[tensor] == b[tensor], f'{name}: {tensor} of two ranks has other bits')
    return f'{name}: two ranks have the parameter bits of one process with two micro-batches'


def low_precision(scratch, recipes):
    """The same in bf16, where the processor has products of it."""
    bf16 = 'training.precision=amp_bf16'
    probe = Ranks(scratch, 'bf16', recipes['mlp'], bf16, 'training.max_duration=1ba')
    process = probe.start(1)
    if process.wait(PATIENCE) == REFUSED and 'cannot be computed here' in probe.errors:
        return 'left out: bf16, which this processor does not compute'
    require(process.wait() == 0, f'bf16:\n{probe.errors}')
    return '\n'.join([same_bits(scratch, 'mlp_bf16', recipes['mlp'], 'training.micro_batch_size=32', bf16),
                      same_bits(scratch, 'cnn_bf16', recipes['cnn'], 'training.micro_batch_size=24', bf16)])


def changing_numbers(scratch, recipe):
    """A run that goes on with other numbers of ranks. Later on, a few samples decide, and rounding grows to what can be seen."""
    words = ['training.micro_batch_size=12', 'validation.interval=100ba', 'training.max_duration=8ep']
    growing = Ranks(scratch, 'growing', recipe, *words)
    whole = Ranks(scratch, 'whole', recipe, *words).train(1)
    stops = [stop_after(growing, ranks, 25) for ranks in (1, 2, 4)]
    growing.train(1)
    found = farthest(whole, growing)
    require(found < 1e-4, f'1, 2, 4 and 1 ranks in turn differ by {found:.1e}')
    return f'a run on 1, 2, 4 and 1 ranks, stopped after steps {stops}: weights differ by {found:.1e} of an undisturbed run\'s'


def equal(scratch, recipes, options):
    deep = ['training.global_batch_size=16', 'optimizer.lr=0.001', 'model.input=[3, 16, 16]', 'data.augment=[]']
    mlp, cnn, resnet = (partial(same_bits, scratch, name, recipes[name]) for name in ('mlp', 'cnn', 'resnet'))
    checks = [partial(sharded, scratch, recipes), partial(compare, scratch, 'mlp', recipes['mlp'], 16),
              partial(compare, scratch, 'cnn', recipes['cnn'], 12), partial(changing_numbers, scratch, recipes['cnn']),
              partial(names_keys, scratch, recipes['cnn']), partial(mlp, 'training.micro_batch_size=32'),
              partial(cnn, 'training.micro_batch_size=24'),
              partial(same_bits, scratch, 'guards', recipes['mlp'], 'training.micro_batch_size=32', *GUARDED),
              partial(nan_of_one_rank, scratch), partial(low_precision, scratch, recipes)]
    if not options.short:
        checks += [partial(compare, scratch, 'resnet', recipes['resnet'], 4, *deep, 'training.max_duration=12ba'),
                   partial(synchronised, scratch, 'sync', recipes['resnet'], 6, *deep),
                   partial(resnet, 'training.micro_batch_size=2', 'training.max_duration=6ba')]
    side_by_side(checks)


def stop_after(run, ranks, steps, *more):
    """Trains until so many more steps are saved, and stops."""
    process, before = run.start(ranks, *more), run.saved()
    while run.saved() < before + steps:
        require(process.poll() is None, f'{run.directory.name} on {ranks} ranks:\n{run.errors}')
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    require(process.wait(PATIENCE) == SAVED, f'{run.directory.name} on {ranks} ranks:\n{run.errors}')
    return run.saved()


def sharded(scratch, recipes):
    """Ranks that share the optimizer's moments against ranks that all have them: same files, also resumed by other numbers of ranks."""
    shards = 'parallelism.shard_optimizer=true'
    for name, recipe, words in ('mlp', 'mlp', GUARDED), ('cnn', 'cnn', []):
        whole = Ranks(scratch, f'{name}_whole', recipes[recipe], *words).train(2)
        shared = Ranks(scratch, f'{name}_sharded', recipes[recipe], shards, *words).train(2)
        require(shared.weights() == whole.weights(), f'{name}: with shard_optimizer two ranks have other weights')
        require(shared.moments() == whole.moments(), f'{name}: with shard_optimizer two ranks save other moments')
        require(shared.numbers() == whole.numbers(), f'{name}: with shard_optimizer two ranks have other metrics')
    words = ['training.micro_batch_size=8', 'training.global_batch_size=48', 'validation.interval=100ba', 'training.max_duration=8ep']
    whole = Ranks(scratch, 'sharded_by_none', recipes['cnn'], *words).train(1)
    first = Ranks(scratch, 'sharded_by_2', recipes['cnn'], *words)
    step = stop_after(first, 2, 25, shards)
    found = []
    for ranks in 1, 2, 3:
        resumed = Ranks(scratch, f'sharded_by_2_then_{ranks}', recipes['cnn'], *words)
        shutil.copytree(first.directory / 'run', resumed.directory / 'run')
        resumed.train(ranks, shards)
        found.append(farthest(whole, resumed))
        require(found[-1] < 1e-4, f'2 sharded ranks and then {ranks} differ by {found[-1]:.1e}')
    return ('two ranks that share the moments have the weights, moments and metrics of two that all have them; resumed after step '
          f'{step} by 1, 2 and 3 ranks, weights differ by ' + ', '.join(f'{each:.1e}' for each in found) + ' from one process\'s')

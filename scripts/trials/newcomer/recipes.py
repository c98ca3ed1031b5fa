# SPDX-License-Identifier: Apache-2.0
"""Keys and values of a recipe, given on the command line."""
from newcomer.commands import RECIPE, prepare  # noqa: F401


def case(override, says):
    return ['clothes.yaml', override], RECIPE, says


CASES = [
    case('epochs=3', "recipes call it 'training.max_duration', such as 10ep"),
    case('batch_size=8', "recipes call it 'training.global_batch_size'"),
    case('lr=0.1', "'lr' belongs under 'optimizer'"),
    case('optimizer={name: sgd, momentun: 0.9}', "did you mean 'momentum'?"),
    case('optimizer={name: adam, betas: [0.9, 0.95]}', "recipes call it 'optimizer.beta1'"),
    case('optimizer=Adam', "did you mean 'adam'?"),
    case('optimizer.lr=fast', "expected a number, found 'fast'"),
    case('optimizer.lr=-1', 'must be at least 0, got -1'),
    case('training.max_duration=3', 'expected a duration such as 10ep (epochs)'),
    case('training.gradient_accumulation_steps=4', "recipes call it 'training.micro_batch_size'"),
    case('training.global_batch_size=0', 'must be at least 1'),
    case('training.precision=bfloat16', "did you mean 'amp_bf16'?"),
    case('device=cuda', 'did you mean device.type=cuda?'),
    case('device.type=gpu', "did you mean 'cuda'?"),
    case('lr_scheduler=StepLR', "did you mean 'multi_step'?"),
    case('lr_scheduler.warmup_ratio=0.1', "recipes call it 'lr_scheduler.warmup'"),
    case('loss=ce', "did you mean 'cross_entropy'?"),
    case('data.format=mnist', "did you mean 'idx'?"),
    case('model=resnet81', "did you mean 'resnet18'?"),
    case('data.train=nowhere', 'there is no file nowhere'),
    case('validation.metrics=[accuracy]', 'set validation.metrics to some of: top1'),
]

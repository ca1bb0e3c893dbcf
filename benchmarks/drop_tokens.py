"""How much time dropped tokens save: processor time of a run with pixels masked, divided by that with tokens dropped.

python benchmarks/drop_tokens.py                     # a ViT-S with random weights, patches of 16 pixels
python benchmarks/drop_tokens.py hf:FOLDER           # any encoder that DropTokens suits
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings

import torch
import transformers

import cocoax
from cocoax.cautions import Caution
from cocoax.data import photo


def vit_small() -> cocoax.Encoder:
    """Return a vision transformer of the size S, with random weights."""
    torch.manual_seed(0)
    size = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536}
    model = transformers.ViTModel(transformers.ViTConfig(**size), add_pooling_layer=False)
    preprocess = cocoax.ImagePreprocess(256, 224, (0.5,) * 3, (0.5,) * 3)
    return cocoax.wrap(model, preprocess, name="ViT-S/16, random weights")


def main(name: str | None = None, samples: int = 48, rounds: int = 3) -> None:
    """Measure both in turn, so that whatever else the machine does falls on both."""
    torch.set_num_threads(1)
    encoder = vit_small() if name is None else cocoax.load(name)
    explicand = encoder.explicand(photo("cat"))
    seconds: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for removal in (cocoax.Blur(), cocoax.DropTokens()):
            begun = time.process_time()
            cocoax.Rise(samples=samples, grid=7, seed=number, baseline=removal).run(encoder, explicand, progress=False)
            if number:  # the first round warms up
                seconds.setdefault(type(removal).__name__, []).append((time.process_time() - begun) / samples)
    ratios = [blurred / dropped for blurred, dropped in zip(seconds["Blur"], seconds["DropTokens"], strict=True)]
    for how, times in seconds.items():
        print(f"{how:11s} {1000 * statistics.median(times):.1f} ms of processor time for each mask")
    print(f"{encoder.name}: {statistics.median(ratios):.2f} times as fast ({', '.join(f'{ratio:.2f}' for ratio in ratios)})")


if __name__ == "__main__":
    warnings.simplefilter("ignore", Caution)
    main(*sys.argv[1:2])

"""Every figure of docs/how-to/text.md, measured: decisive words, deletion against random, speed, agreement with Captum.

python examples/measure_text.py [--timings]
"""

from __future__ import annotations

import csv
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import captum.attr
import torch

import cocoax

SAMPLES = 300
FRACTION = 0.2
PARAGRAPH = (
    "The violinist parked her car behind the house and carried the instrument into the kitchen, where her brother was "
    "reading about the price of oil. They talked for a while about the weather, the new neighbours and the broken telescope "
    "in the attic."
)


@dataclass(frozen=True)
class DecisiveWord:
    """A text that has to do with a topic, rather than with another, because of a single word."""

    text: str
    topic: str
    rather_than: str
    word: str


def decisive_words() -> list[DecisiveWord]:
    """Return 48 pairs of a text and a topic: 24 sentences about two things each, once for either thing."""
    lines = Path(__file__).with_name("decisive_words.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [
        DecisiveWord(text, *pair)
        for text, topic, word, other, its_word in csv.reader(lines, delimiter="\t")
        for pair in ((topic, other, word), (other, topic, its_word))
    ]


@dataclass(frozen=True)
class Rates:
    """Shares of the pairs, for one way to remove words."""

    contrastive: float
    corpus: float
    label_free: float
    deletion_beats_random: float


def targets_of(encoder: cocoax.Encoder, pair: DecisiveWord) -> list[cocoax.Target]:
    """Contrastive, corpus-only and label-free."""
    corpus, foil = (encoder.reference([topic], progress=False) for topic in (pair.topic, pair.rather_than))
    return [
        cocoax.contrastive_corpus_similarity(corpus, foil),
        cocoax.corpus_similarity(corpus),
        cocoax.representation_similarity(),
    ]


def rates(encoder: cocoax.Encoder, pairs: list[DecisiveWord], removal: str, draws: int = 50) -> Rates:
    """How often the decisive word comes first; how often cutting out the top 20 % of the words lowers the score more than
    cutting out as many random ones does on average.
    """
    first = torch.zeros(3)
    beaten = 0
    method = cocoax.Rise(samples=SAMPLES, baseline=removal)
    runs = {text: method.run(encoder, text, progress=False) for text in {pair.text for pair in pairs}}  # for both questions
    for number, pair in enumerate(pairs):
        asked = targets_of(encoder, pair)
        results = runs[pair.text].explain(asked)
        first += torch.tensor([float([word for word, _ in result.top(1, "positive")] == [pair.word]) for result in results])
        words = len(results[0].values)
        count = math.ceil(FRACTION * words)
        generator = torch.Generator().manual_seed(number)
        orders = [results[0].values.argsort(descending=True)]
        orders += [torch.randperm(words, generator=generator) for _ in range(draws)]
        kept = torch.ones(len(orders), words)
        for row, order in zip(kept, orders, strict=True):
            row[order[:count]] = 0
        texts = cocoax.Deletion(0).remove(encoder.explicand(pair.text), kept)
        scores = asked[0].score(encoder.encode(texts))
        beaten += bool(scores[0] < scores[1:].mean())
    return Rates(*(first / len(pairs)).tolist(), beaten / len(pairs))


def layer_ig(encoder: cocoax.TextEncoder, text: str, target: cocoax.Target, steps: int = 50) -> torch.Tensor:
    """Captum's LayerIntegratedGradients of the token embeddings, from the mask token, summed over each word."""
    explicand = encoder.explicand(text)
    assert explicand.feature_ids is not None
    assert encoder.inputs.mask is not None
    masked = torch.where(explicand.feature_ids >= 0, encoder.inputs.mask, explicand.tensor)
    layer = captum.attr.LayerIntegratedGradients(target.as_module(encoder), encoder.embedding_layer)
    found = layer.attribute(explicand.tensor[None], baselines=masked[None], n_steps=steps)
    return explicand.per_feature(found.sum(-1).detach()).float()


def areas(encoder: cocoax.TextEncoder, pairs: list[DecisiveWord]) -> dict[str, tuple[float, float]]:
    """Mean areas under the insertion and deletion curves of the contrastive similarity, for several methods."""
    methods: dict[str, cocoax.Method] = {
        "Rise": cocoax.Rise(samples=SAMPLES),
        "KernelShap": cocoax.KernelShap(samples=SAMPLES),
        "IntegratedGradients": cocoax.IntegratedGradients(),
        "random": cocoax.RandomAttribution(),
    }
    names = [*methods, "Captum's LayerIntegratedGradients"]
    sums = torch.zeros(len(names), 2)
    for pair in pairs:
        target = targets_of(encoder, pair)[0]
        found = [method.explain(encoder, pair.text, target, progress=False) for method in methods.values()]
        found.append(layer_ig(encoder, pair.text, target))
        for row, curve in zip(sums, cocoax.curves(encoder, pair.text, found, target, progress=False), strict=True):
            row += torch.tensor([curve["insertion"].auc, curve["deletion"].auc])
    return {name: (float(row[0]), float(row[1])) for name, row in zip(names, sums / len(pairs), strict=True)}


def captum_difference(encoder: cocoax.TextEncoder, pairs: list[DecisiveWord]) -> tuple[float, float]:
    """The largest difference from Captum's LayerIntegratedGradients, and from completeness."""
    apart = incomplete = 0.0
    for pair in pairs:
        target = targets_of(encoder, pair)[0]
        result = cocoax.IntegratedGradients().explain(encoder, pair.text, target, progress=False)
        expected = layer_ig(encoder, pair.text, target)
        apart = max(apart, float((result.values - expected).abs().max()))
        incomplete = max(incomplete, abs(float(result.values.sum()) - result.score + result.baseline_score))
    return apart, incomplete


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def overhead(encoder: cocoax.TextEncoder, removal: str, samples: int = 500, repeats: int = 5) -> list[float]:
    """A run that answers eight targets, against the bare network on the same texts (distinct ones, ordered by length)."""
    corpus = encoder.reference(["classical music"], progress=False)
    topics = ["traffic", "food", "science", "weather", "money", "family", "houses"]
    foils = [encoder.reference([topic], progress=False) for topic in topics]
    asked = [cocoax.contrastive_corpus_similarity(corpus, foil) for foil in foils] + [cocoax.corpus_similarity(corpus)]
    method = cocoax.Rise(samples=samples, baseline=removal)
    run = method.run(encoder, PARAGRAPH, progress=False)
    mask = encoder.inputs.mask
    kinds = {"mask": cocoax.MaskToken(mask), "deletion": cocoax.Deletion(0), "attention": cocoax.AttentionMask(0)}
    texts = kinds[removal].remove(run.explicand, torch.unique(run.masks.full(slice(0, samples)), dim=0))
    texts.sort(key=lambda text: text.shape[-1])
    size = encoder.batch_size(texts[0])
    batches = [encoder.collate(texts[start : start + size]) for start in range(0, len(texts), size)]

    def bare() -> None:
        with torch.no_grad():
            for batch in batches:
                encoder.module(batch)

    bare()
    ratios = []
    for _ in range(repeats):
        whole = timed(lambda: method.run(encoder, PARAGRAPH, progress=False).explain(asked))
        ratios.append(whole / timed(bare))
    return ratios


def main(timings: bool) -> None:
    """Print everything."""
    encoder = cocoax.load("minilm")
    assert isinstance(encoder, cocoax.TextEncoder)
    if timings:
        for removal in ("mask", "deletion", "attention"):
            ratios = overhead(encoder, removal)
            spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
            print(f"{removal:10} run with 8 targets / bare network: {median(ratios):.3f} ({spread})", flush=True)
        return
    pairs = decisive_words()
    for removal in ("mask", "deletion", "attention"):
        print(f"{removal:10} {rates(encoder, pairs, removal)}", flush=True)
    apart, incomplete = captum_difference(encoder, pairs[::4])
    print(f"integrated gradients: {apart:.1e} from Captum's, incomplete by {incomplete:.1e}", flush=True)
    for name, (insertion, deletion) in areas(encoder, pairs[::2]).items():
        print(f"{name:34} insertion {insertion:+.3f}, deletion {deletion:+.3f}")


if __name__ == "__main__":
    main("--timings" in sys.argv[1:])

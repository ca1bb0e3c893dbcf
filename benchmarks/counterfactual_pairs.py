"""How small counterfactuals are: pairs of ImageNet photos, sentences and wines, beside a greedy search and random order.

    python benchmarks/counterfactual_pairs.py photos FOLDER IMAGENET_SAMPLES [--pairs 50] [--side 64]
    python benchmarks/counterfactual_pairs.py sentences FOLDER
    python benchmarks/counterfactual_pairs.py wines FOLDER

Photos: EfficientNet-Lite0 at 64 x 64 or 224 x 224 pixels, 4 x 4 cells; the target is the similarity to the one photo rather
than to the other, which is the distractor, so that exchanging everything always flips it. *Greedy* exchanges, one after the
other, the cell that lowers the score most with what is offered for it, the same as ours has, and has as many forward passes
as ours took; when they are used up, the rest follows in the order of the last scores. *Random* exchanges cells in random
order, each with a random offer, five times. Sentences and wines are the same with words and columns. Results are appended
to a file, so that it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cocoax
from cocoax.encoders.families.starter import EFFICIENTNET_PREPROCESS

GRID = (4, 4)
TOPICS = {
    "music": (
        "The orchestra tuned its instruments before the concert.",
        "She practised the violin sonata for three hours.",
        "The choir sang an old hymn in the cathedral.",
        "His guitar needs new strings before the show.",
        "The pianist played a quiet nocturne at the end.",
        "A drummer keeps the rhythm of the whole band.",
        "They recorded their second album in a small studio.",
        "The conductor raised his baton and the symphony began.",
        "Everyone danced when the jazz trio came on stage.",
        "Her voice reached the highest notes of the opera.",
    ),
    "food": (
        "Stir the soup slowly until the cream melts.",
        "The bakery sells fresh bread every morning.",
        "He grilled the fish with lemon and garlic.",
        "Add a pinch of salt to the boiling pasta.",
        "Grandmother's apple cake was gone in minutes.",
        "The chef chopped onions for the evening menu.",
        "We ordered a pizza with olives and mushrooms.",
        "This cheese tastes best with a ripe pear.",
        "Breakfast was porridge with honey and walnuts.",
        "The restaurant ran out of roasted potatoes.",
    ),
    "traffic": (
        "A lorry blocked two lanes of the motorway.",
        "The bus was late because of the roadworks.",
        "He parked his car in front of the garage.",
        "Cyclists wait at the red light by the bridge.",
        "The tunnel is closed for vehicles until Monday.",
        "Drivers honked in the long queue at the toll.",
        "She missed the exit and turned at the roundabout.",
        "The tram derailed near the central station.",
        "Snow slowed the morning commute on every street.",
        "The police stopped a speeding motorcycle.",
    ),
    "medicine": (
        "The nurse changed the bandage twice a day.",
        "Her doctor prescribed antibiotics for the infection.",
        "The surgeon operated on the knee for an hour.",
        "Patients with a fever should rest and drink.",
        "The vaccine protects children against measles.",
        "He broke his arm and went to the hospital.",
        "Blood pressure should be measured in the morning.",
        "The dentist found a small cavity in the tooth.",
        "An ambulance brought the injured man to the clinic.",
        "The pills help against the pain in her back.",
    ),
}


class Play:
    """What greedy and random order need: parts exchanged one by one, each with one of the offers that there are for it."""

    def __init__(self, score: Callable[[np.ndarray], np.ndarray], offered: np.ndarray) -> None:
        self.score, self.offered = score, offered

    def greedy(self, calls: int) -> int:
        """Return how many parts are exchanged until the score is below 0; as many as there are and one if never."""
        chosen = np.zeros(len(self.offered), int)
        order: list[tuple[int, int]] = []
        while not chosen.all():
            left = [(part, offer + 1) for part, offer in np.argwhere(self.offered).tolist() if not chosen[part]]
            if calls >= len(left) > 0:
                tries = np.repeat(chosen[None], len(left), 0)
                for row, (part, offer) in zip(tries, left, strict=True):
                    row[part] = offer
                scores = self.score(tries)
                calls -= len(left)
                order = [left[index] for index in np.argsort(scores, kind="stable")]
            order = [pair for pair in order if not chosen[pair[0]]]
            if not order:
                break
            chosen[order[0][0]] = order[0][1]
            if self.score(chosen[None])[0] < 0:
                return int((chosen > 0).sum())
        return len(chosen) + 1

    def random(self, seed: int, times: int = 5) -> float:
        """Return the mean over random orders and offers."""
        needed = []
        parts = len(self.offered)
        for number in range(times):
            random = np.random.default_rng([seed, number])
            offers = np.array([random.choice(np.flatnonzero(own)) + 1 if own.any() else 0 for own in self.offered])
            ranks = random.permutation(parts)
            flipped = np.flatnonzero(self.score((ranks[None] <= np.arange(parts)[:, None]) * offers) < 0)
            needed.append(int(flipped[0]) + 1 if len(flipped) else parts + 1)
        return float(np.mean(needed))


def compare(
    encoder: cocoax.Encoder, item: Any, target: cocoax.Target, distractors: Any, seed: int, **options: Any
) -> dict[str, Any]:
    """Return a record of one input."""
    try:
        found = cocoax.counterfactual(encoder, item, target, distractors, seed=seed, **options)
    except ValueError as error:
        return {"flipped": False, "why": str(error)}
    exchange = found[0].exchange

    def score(choices: np.ndarray) -> np.ndarray:
        possible = exchange.possible(choices)
        scores = np.full(len(choices), found.score)
        if possible.any():
            made = exchange.made(choices[possible])
            size = encoder.batch_size(made[0])
            parts = [encoder.encode(made[start : start + size]) for start in range(0, len(made), size)]
            scores[possible] = target.score(torch.cat(parts)).double().numpy()
        return scores

    play = Play(score, exchange.offered)
    sizes = {"greedy": play.greedy(found.calls), "random": play.random(seed)}
    return {
        "flipped": found[0].score < 0,
        "parts": len(exchange.offered),
        "ours": len(found.changes),
        **sizes,
        "calls": found.calls,
    }


def photos(folder: Path, pictures: Path, pairs: int, side: int) -> list[dict[str, Any]]:
    """Compare on pairs of photos of different classes."""
    base = cocoax.load("efficientnet-lite0")
    preprocess = replace(EFFICIENTNET_PREPROCESS, resize=round(side * 256 / 224), crop=side)
    encoder = cocoax.Encoder(base.module, preprocess, name=f"efficientnet-lite0 at {side}")
    files = sorted(pictures.glob("*.*"))
    chosen = np.random.default_rng(16).permutation(len(files))[: 2 * pairs].reshape(-1, 2)
    return resumed(
        folder / f"photos-{side}-all-offers.jsonl", len(chosen), lambda number: _pair(encoder, files, chosen[number], number)
    )


def _pair(encoder: cocoax.Encoder, files: list[Path], pair: np.ndarray, number: int) -> dict[str, Any]:
    own, other = (files[index] for index in pair)
    target = cocoax.contrastive_corpus_similarity(encoder.reference([own]), encoder.reference([other]))
    return compare(encoder, own, target, [other], number, grid=GRID)


def sentences(folder: Path) -> list[dict[str, Any]]:
    """Compare on forty sentences: each of its topic, without it, rather than of the next topic."""
    encoder = cocoax.load("minilm")
    names = list(TOPICS)
    cases = [(topic, number) for topic in names for number in range(10)]

    def case(index: int) -> dict[str, Any]:
        topic, number = cases[index]
        own = [text for other, text in enumerate(TOPICS[topic]) if other != number]
        foil = TOPICS[names[(names.index(topic) + 1) % len(names)]]
        target = cocoax.contrastive_corpus_similarity(encoder.reference(own), encoder.reference(foil))
        return compare(encoder, TOPICS[topic][number], target, foil, index)

    return resumed(folder / "sentences.jsonl", len(cases), case)


def wines(folder: Path) -> list[dict[str, Any]]:
    """Compare on wines of scikit-learn: each of its cultivar rather than of the next; columns are standardised."""
    from sklearn.datasets import load_wine

    data = load_wine()
    middle, scale = (torch.tensor(each).float() for each in (data.data.mean(0), data.data.std(0)))
    encoder = cocoax.TabularEncoder(
        torch.nn.Identity(),
        columns=data.feature_names,
        preprocess=lambda row: (row - middle) / scale,
        background=data.data,
        name="wines",
    )
    groups = [data.data[data.target == number] for number in range(3)]

    def case(index: int) -> dict[str, Any]:
        kind, number = index % 3, index // 3
        target = cocoax.contrastive_corpus_similarity(
            encoder.reference(groups[kind]), encoder.reference(groups[(kind + 1) % 3])
        )
        return compare(encoder, groups[kind][number], target, groups[(kind + 1) % 3], index, integer=["magnesium", "proline"])

    return resumed(folder / "wines.jsonl", 60, case)


def resumed(file: Path, count: int, case: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a record for each case, those in the file first; each is appended to it when it is done."""
    file.parent.mkdir(parents=True, exist_ok=True)
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    for number in range(len(records), count):
        records.append(case(number))
        with file.open("a") as open_file:
            open_file.write(json.dumps(records[-1]) + "\n")
    return records


def summary(records: list[dict[str, Any]]) -> None:
    """Print how often it flips, and how many parts each way takes."""
    nothing = [record for record in records if "nothing to flip" in record.get("why", "")]
    asked = [record for record in records if record not in nothing]
    flipped = [record for record in asked if record["flipped"]]
    print(f"{len(records)} inputs, {len(nothing)} with nothing to flip; of the others {len(flipped)} of {len(asked)} flip")
    for name in ("ours", "greedy", "random"):
        values = np.array([record[name] for record in flipped], float)
        print(f"{name}: median {np.median(values):.3g}, mean {values.mean():.3g} of {flipped[0]['parts']} parts")
    fewer = np.array([record["ours"] - record["greedy"] for record in flipped])
    print(f"fewer than greedy {np.mean(fewer < 0):.0%}, as many {np.mean(fewer == 0):.0%}, more {np.mean(fewer > 0):.0%}")
    print(f"forward passes: median {np.median([record['calls'] for record in flipped]):.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("photos", "sentences", "wines"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("pictures", type=Path, nargs="?")
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--side", type=int, choices=(64, 224), default=64)
    arguments = parser.parse_args()
    if arguments.what == "photos":
        summary(photos(arguments.folder, arguments.pictures, arguments.pairs, arguments.side))
    else:
        summary({"sentences": sentences, "wines": wines}[arguments.what](arguments.folder))

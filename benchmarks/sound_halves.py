"""Does an explanation find the half of a recording that a voice speaks in?

    python benchmarks/sound_halves.py FOLDER OTHER_FOLDER [--clips 100] [--untrained 5] [--initial 5]

Each folder holds recordings (WAV, FLAC, OGG) of one voice, or of one kind of sound, of which the loudest 1.5 s are used, all
made equally loud. A clip is one piece from each folder, in random order; the question is "the first folder rather than the
second", from other recordings of both. Printed is the share of clips in whose map the half from the first folder has the
higher mean. ``--untrained`` and ``--initial`` repeat it with random weights: what is found then needs no knowledge of voices.
"""

from __future__ import annotations

import argparse
import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

import cocoax
from cocoax.evaluation.sanity import randomised
from cocoax.evaluation.statistics import wilson
from cocoax.inputs.sound import one_channel, read_file, sound_files
from cocoax.seeding import stream

RATE = 16_000
PIECE = RATE * 3 // 2
SEGMENTS = 40
LEVEL = 10 ** (-26 / 20)  # root mean square of every piece
QUIET = 1e-3  # below this, a recording is silence
FEWEST, MOST = 10, 100  # recordings of a reference
LONGEST = 600.0


@dataclass(frozen=True)
class Voice:
    """Pieces ``[n, PIECE]`` of different recordings: those that clips are made of, and those of the reference."""

    name: str
    clips: np.ndarray
    others: np.ndarray


def voice(folder: Path, clips: int, random: np.random.Generator) -> Voice:
    """Read a folder and divide its recordings, in random order, into those of clips and the others."""
    pieces = [piece for path in sound_files(folder) if (piece := loudest_piece(path)) is not None]
    if len(pieces) < 2 * FEWEST:
        raise SystemExit(f"{folder} has {len(pieces)} recordings of 1.5 s or more; at least {2 * FEWEST} are needed.")
    mixed = np.stack(pieces)[random.permutation(len(pieces))]
    own = min(clips, len(mixed) * 2 // 3)
    return Voice(folder.name, mixed[:own], mixed[own : own + MOST])


def loudest_piece(path: Path) -> np.ndarray | None:
    """Return the loudest 1.5 s of a recording, levelled; None if it is shorter or silent."""
    recorded, rate = read_file(path, LONGEST)
    if len(recorded) < rate * PIECE / RATE:
        return None
    samples = one_channel(recorded, rate, RATE, LONGEST, str(path)).numpy()
    power = np.concatenate([[0.0], np.cumsum(samples.astype(np.float64) ** 2)])
    start = int(np.argmax(power[PIECE:] - power[:-PIECE]))
    piece = samples[start : start + PIECE]
    size = float(np.sqrt(np.mean(piece.astype(np.float64) ** 2)))
    return None if size < QUIET else piece * np.float32(LEVEL / size)


def count_right(
    encoder: cocoax.Encoder, voices: tuple[Voice, Voice], clips: int, samples: int, removal: str, seed: int
) -> int:
    """Return how many maps are higher, on average, in the half from the first folder."""
    corpus, foil = (encoder.reference(list(voice.others), name=voice.name) for voice in voices)
    target = cocoax.contrastive_corpus_similarity(corpus, foil)
    first, second = (voice.clips for voice in voices)
    random = stream(seed, 1)
    right = 0
    for clip in range(clips):
        halves = [first[clip % len(first)], second[int(random.integers(len(second)))]]
        behind = bool(random.integers(2))  # whether the half from the first folder is the second one
        sound = np.concatenate(halves[::-1] if behind else halves)
        method = cocoax.Rise(samples=samples, baseline=removal, seed=seed + clip)
        means = method.explain(encoder, sound, target, progress=False).values.view(2, -1).mean(1)
        right += bool(means[int(behind)] > means[1 - int(behind)])
    return right


def initial(encoder: cocoax.Encoder, seed: int) -> cocoax.Encoder:
    """Return the encoder with the weights that training begins with: small, so that sounds pass through hardly changed."""
    network = copy.deepcopy(encoder.owner)
    assert network is not None
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for layer in network.modules():
            if isinstance(layer, nn.LSTM | nn.Linear):
                layer.reset_parameters()
    return encoder.with_module(network, f"{encoder.name}, initial weights")


def main() -> None:
    """Print one line for each removal and each set of weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs=2, metavar="FOLDER")
    parser.add_argument("--clips", type=int, default=100)
    parser.add_argument("--samples", type=int, default=300, help="of RISE, for each clip")
    parser.add_argument("--removals", nargs="+", default=["silence", "noise"])
    parser.add_argument("--untrained", type=int, default=0, metavar="SEEDS", help="so many times with redrawn weights")
    parser.add_argument("--initial", type=int, default=0, metavar="SEEDS", help="so many times with initial weights")
    parser.add_argument("--only-untrained", action="store_true", help="leave out the trained weights")
    parser.add_argument("--seed", type=int, default=0, help="of the division of recordings, the order of halves, the masks")
    options = parser.parse_args()
    first, second = options.folders
    voices = (
        voice(first, options.clips, stream(options.seed, 0, 0)),
        voice(second, options.clips, stream(options.seed, 0, 1)),
    )
    trained = cocoax.load("resemblyzer", segments=SEGMENTS)
    encoders = [] if options.only_untrained else [("trained", trained)]
    encoders += [(f"untrained {seed}", randomised(trained, seed)) for seed in range(options.untrained)]
    encoders += [(f"initial {seed}", initial(trained, seed)) for seed in range(options.initial)]
    for name, encoder in encoders:
        for removal in options.removals:
            right = count_right(encoder, voices, options.clips, options.samples, removal, options.seed)
            low, high = wilson(right, options.clips)
            share = f"{right / options.clips:.2f} ({low:.2f} to {high:.2f})"
            print(
                f"{first.name} rather than {second.name} | {removal} | {name} | {right} of {options.clips} | {share}",
                flush=True,
            )


if __name__ == "__main__":
    main()

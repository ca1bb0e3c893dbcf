"""Everything public says what it is in a line, without the numbers inside; results show themselves in notebooks."""

from __future__ import annotations

from dataclasses import is_dataclass
from inspect import Parameter, isabstract, signature
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import cocoax
from cocoax.inputs import Names, Picture, Sound, Text
from tests.conftest import SmallNet, images
from tests.insight.games import Letters, Words
from tests.sounds import tone

RESULTS = {"Answer", "Attribution", "Curve", "Hit", "Hits", "Interactions", "Match"}
ABSTRACT = {"Baseline", "Method", "Similarity"}


def things() -> dict[str, Any]:
    """Return one of each public class, by its name."""
    encoder = cocoax.Encoder(SmallNet().eval(), cocoax.ImagePreprocess(resize=16, crop=16), name="small")
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8))
    picture = images(1)[0]
    reference = encoder.reference(images(5, seed=1), keep_samples=True)
    target = cocoax.similarity_to(reference)
    run = cocoax.Rise(samples=20, grid=3).run(encoder, photo)
    result = run.explain(target)
    texts = cocoax.TextEncoder(Words(), Letters(), limit=64, name="letters")
    match = cocoax.explain_match(texts, "a cat", "the cat sat", method=cocoax.Rise(samples=20))
    hits = cocoax.explain_hits(texts, "a cat", ["the cat sat", "a dog"], method=cocoax.Rise(samples=20))
    answers = cocoax.ask(encoder, run, cocoax.Question(images(2, seed=3), images(2, seed=4)))
    rows = np.random.default_rng(0).normal(size=(200, 6))
    table = cocoax.TabularEncoder(nn.Linear(6, 4), columns=list("abcdef"), background=rows, name="table")
    made: list[Any] = [encoder, texts, table, reference, target, result, run, match, *hits[:1], hits, *answers]
    made += [match.interactions, run.field(), encoder.explicand(photo), cocoax.insertion(encoder, photo, result, target, 5)]
    made += [
        cocoax.Question(images(2), "a cat"),
        cocoax.Side("a cat", images(2)),
        cocoax.ImagePreprocess(),
        cocoax.Deletion(),
        cocoax.DropTokens(),
    ]
    made += [cocoax.FunctionTarget(lambda z: z[:, 0], "first"), cocoax.AttentionMask(), cocoax.MaskToken(), cocoax.Blur()]
    made += [
        cocoax.Constant(0.0),
        cocoax.Mean(),
        cocoax.Noise(),
        cocoax.Fixed(picture),
        cocoax.Background(torch.tensor(rows)),
        cocoax.Several((cocoax.Blur(), cocoax.Mean())),
    ]
    made += [cocoax.Cosine(), cocoax.Dot(), cocoax.Rbf(), cocoax.Laplacian(), cocoax.Polynomial()]
    made += [cocoax.ExpectedGradients(images(3)), cocoax.Captum("Saliency")]
    made += [cocoax.Interrupted(run)]
    named = {type(thing).__name__: thing for thing in made}
    return {**{kind.__name__: kind() for kind in simple_methods() if kind.__name__ not in named}, **named}


def simple_methods() -> list[type[cocoax.Method]]:
    """Return the public methods that are made without arguments."""
    public = [getattr(cocoax, name) for name in cocoax.__all__]
    methods = [thing for thing in public if isinstance(thing, type) and issubclass(thing, cocoax.Method)]
    return [
        method
        for method in methods
        if not isabstract(method)
        and all(option.default is not Parameter.empty for option in signature(method).parameters.values())
    ]


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    with torch.random.fork_rng():
        return things()


def test_things__are_one_of_each_public_class(made: dict[str, Any]) -> None:
    classes = {name for name in cocoax.__all__ if isinstance(getattr(cocoax, name), type)}
    lacking = classes - ABSTRACT - set(made)
    assert not lacking, f"Add one of each of {sorted(lacking)} to things() in this file; those are new in cocoax.__all__."
    assert not set(made) - classes, f"things() makes {sorted(set(made) - classes)}, which cocoax.__all__ does not name."


def test_repr__is_a_line_without_numbers(made: dict[str, Any]) -> None:
    displays = [Picture(torch.zeros(40, 40, 3, dtype=torch.uint8)), Sound(torch.from_numpy(tone(50)), 1000, 4)]
    displays += [Text("a cat " * 20, tuple((6 * at, 6 * at + 1) for at in range(20))), Names(("a", "b"))]
    for thing in [*made.values(), *displays]:
        text = repr(thing)
        assert text.startswith((type(thing).__name__, "Hits of", "Interrupted")), text
        assert not any(word in text for word in ("tensor(", "array(", " object at 0x", "[[")), text
        assert all(len(line) < 260 for line in text.splitlines()), text
        assert len(text.splitlines()) <= (3 if isinstance(thing, cocoax.Hits) else 1), text


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_html__of_every_result(name: str, made: dict[str, Any]) -> None:
    html = made[name]._repr_html_()
    if name != "Curve":
        assert "ed raises" in html or "Red parts of the query raise" in html  # the legend
        assert "+0." in html or "-0." in html or "+1." in html  # the score
    assert "<img" in html or "<span" in html


def test_results__are_all_that_hold_values(made: dict[str, Any]) -> None:
    shown = {name for name, thing in made.items() if hasattr(thing, "_repr_html_")}
    assert shown == RESULTS
    assert all(is_dataclass(made[name]) for name in RESULTS)


def test_repr__of_an_encoder_of_a_layer_says_how_it_is_pooled() -> None:
    net = nn.Sequential(nn.AvgPool2d(2), nn.ReLU())
    assert repr(cocoax.Encoder(net, layer="1", name="small")) == "Encoder('small', layer='1', pooling='mean')"
    assert repr(cocoax.Encoder(net, name="small")) == "Encoder('small')"

"""What every attribution method has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.attribution.result import Attribution
from cocoax.encoders import EmbeddedText, Encoder, Explicand, TabularEncoder, TextEncoder
from cocoax.features import REMOVALS, Background, Baseline, Blur, Constant, Fixed, MaskToken, Mean, Noise, TokenRemoval
from cocoax.targets import Target
from cocoax.version import __version__


class Method(ABC):
    """An attribution method φ: spreads a target over the features of an explicand.

    Methods are immutable descriptions; the same method with the same seed gives the same result, whatever ran before.
    """

    def explain(
        self, encoder: Encoder, explicand: Any, targets: Target | Sequence[Target], *, progress: bool | None = None
    ) -> Any:
        """Explain one or many targets for one or many explicands.

        Returns an :class:`Attribution`; a list of them for a list of targets; and for many explicands a list, in their
        order, of what each alone would give (gradients up to rounding, since inputs share batches).
        """
        check_encoder(encoder)
        asked = check_targets(targets)
        with torch.inference_mode(False):  # inside it nothing has gradients
            explicands = [encoder.explicand(one) for one in encoder.as_list(explicand)]
            if not explicands:
                raise ValueError("There are 0 explicands; pass at least one.")
            space = encoder.space
            for target in asked:
                target.check_space(space)
            results = self._explain(encoder, explicands, asked, progress)
        answers = [one[0] if isinstance(targets, Target) else one for one in results]
        return answers[0] if encoder.is_one(explicand) else answers

    @abstractmethod
    def _explain(
        self, encoder: Encoder, explicands: list[Explicand], targets: list[Target], progress: bool | None
    ) -> list[list[Attribution]]:
        """One list of attributions, in the order of the targets, for each explicand."""

    def describe(self) -> dict[str, Any]:
        """Its name and options, as plain values."""
        description: dict[str, Any] = to_plain(self)
        return description


def check_encoder(encoder: Encoder) -> None:
    """Raise unless it is an :class:`Encoder`."""
    if not isinstance(encoder, Encoder):
        raise TypeError(
            f"The first argument must be a cocoax.Encoder: wrap your module with cocoax.Encoder(module, ...). "
            f"Got {type(encoder).__name__} instead."
        )


def check_targets(targets: Target | Sequence[Target]) -> list[Target]:
    """Targets as a list; an error for anything else."""
    asked = list(targets) if isinstance(targets, Iterable) and not isinstance(targets, str) else [targets]
    wrong = [target for target in asked if not isinstance(target, Target)]
    if wrong:
        raise TypeError(
            f"What is explained must be a Target, such as cocoax.contrastive_corpus_similarity(corpus, foil). "
            f"Got {type(wrong[0]).__name__} instead."
        )
    if not asked:
        raise ValueError("There are 0 targets; pass at least one.")
    return asked


def resolve_baseline(baseline: Any, encoder: Encoder) -> Baseline:
    """A baseline; a picture given as one is prepared as the encoder's inputs are.

    Methods have a blur unless told otherwise, which is for images; texts and columns take a default of their own in its
    place.
    """
    if isinstance(encoder, EmbeddedText):
        return _embedded_baseline(baseline, encoder)
    if isinstance(encoder, TextEncoder):
        return _text_baseline(baseline, encoder)
    if isinstance(encoder, TabularEncoder):
        return _columns_baseline(baseline, encoder)
    if isinstance(baseline, Baseline):
        return baseline
    named = {kind.__name__.lower(): kind.__name__ for kind in (Blur, Constant, Mean, Noise)}
    if isinstance(baseline, str) and baseline.lower() in named:
        raise ValueError(f"The 'baseline' parameter takes an object or a picture: write cocoax.{named[baseline.lower()]}().")
    return Fixed(encoder.prepare(baseline).detach().to("cpu", torch.float32))


def _is_default(baseline: Any) -> bool:
    """Whether it is the blur that methods have if nothing else was asked for."""
    return isinstance(baseline, Blur) and baseline == Blur()


def _text_baseline(baseline: Any, encoder: TextEncoder) -> TokenRemoval:
    """How words are removed: by the mask token unless told otherwise, or by deletion where there is none."""
    if _is_default(baseline):
        baseline = "deletion" if encoder.mask is None else "mask"
    if isinstance(baseline, str) and baseline in REMOVALS:
        baseline = REMOVALS[baseline]()
    if not isinstance(baseline, TokenRemoval):
        raise ValueError(
            f"Words are removed by baseline='mask', 'deletion' or 'attention' (or cocoax.MaskToken() and so on). "
            f"Got {baseline!r} instead."
        )
    return baseline.ready(encoder)


@dataclass(frozen=True, eq=False)
class EmbeddedBaseline(Fixed):
    """The embeddings ``[d, L]`` of a text without its words; special tokens are still there.

    Attributes:
        image: the embeddings.
        how: what stands for the words.
        spread: the standard deviation of the explicand's embeddings; 0 for special tokens, ``[L]``.

    """

    how: Any
    spread: Tensor


def _embedded_baseline(baseline: Any, encoder: EmbeddedText) -> EmbeddedBaseline:
    """Embeddings in place of those of the words: of the mask token unless told otherwise, or zero where there is none."""
    if _is_default(baseline):
        baseline = Constant(0.0) if encoder.mask is None else MaskToken()
    elif baseline == "mask":
        baseline = MaskToken()
    if isinstance(baseline, MaskToken):
        ready = baseline.ready(encoder)
        assert ready.token is not None
        return EmbeddedBaseline(encoder.laid_under([], ready.token), ready, encoder.spread)
    if not isinstance(baseline, Constant | Fixed):
        raise ValueError(
            "Gradients need something in place of a word: baseline='mask', or cocoax.Constant(0.0) for zero embeddings. "
            f"Got {baseline!r} instead."
        )
    return EmbeddedBaseline(encoder.keep_special(baseline(encoder.embeddings)), baseline, encoder.spread)


def _columns_baseline(baseline: Any, encoder: TabularEncoder) -> Baseline:
    """The mean of the encoder's background unless told otherwise; a row or several may be given too."""
    if isinstance(baseline, Background | Constant | Fixed):
        return baseline
    if _is_default(baseline):
        if encoder.background is None:
            raise ValueError(
                f"What should removed columns of {encoder.name!r} hold? Give the encoder background=rows, or the method a "
                "baseline: cocoax.Background(rows), a row, or cocoax.Constant(0.0)."
            )
        return Background(encoder.background)
    if isinstance(baseline, Blur | Mean | Noise):
        raise ValueError(
            f"{type(baseline).__name__} is for images; columns take cocoax.Background(rows), a row, or cocoax.Constant(0.0)."
        )
    if isinstance(baseline, Baseline):
        return baseline
    rows = [encoder.prepare(one) for one in encoder.as_list(baseline)]
    return Fixed(rows[0]) if len(rows) == 1 else Background(torch.cat(rows))


def removed(explicand: Explicand, how: Baseline) -> Tensor:
    """The explicand with all of its features removed, prepared for the encoder."""
    if isinstance(how, TokenRemoval):
        return how.remove(explicand, torch.zeros(1, *explicand.shape))[0]
    return how(explicand.tensor)


def encode_ends(encoder: Encoder, explicand: Tensor, baseline: Tensor) -> Tensor:
    """Representations of the explicand and of the baseline, ``[2, d]``; errors say which of the two is at fault.

    Where scores are averaged over several baselines ``[K, ...]`` there are 1 + K representations.
    """
    several = baseline.is_floating_point() and baseline.ndim > explicand.ndim
    pair = [explicand, *(baseline if several else [baseline])]
    ends = encoder.encode(torch.stack(pair) if explicand.is_floating_point() else pair)
    for number, end in enumerate(ends):
        if not bool(torch.isfinite(end).all()):
            name = "baseline" if number else "explicand"
            raise ValueError(f"The representation of the {name} is not finite; use another {name}.")
    return ends


def one_baseline(baseline: Tensor, explicand: Tensor, method: object) -> Tensor:
    """The baseline of a gradient method, which takes only one."""
    if baseline.ndim > explicand.ndim:
        raise ValueError(
            f"{type(method).__name__} takes one baseline, and Background(draws=...) gives {len(baseline)}; leave 'draws' "
            "out, which takes their mean, or use cocoax.ExpectedGradients(background)."
        )
    return baseline


def check_at_least(name: str, value: float, least: float) -> None:
    """Raise unless ``value >= least``."""
    if not value >= least:
        raise ValueError(f"The '{name}' parameter must be at least {least}. Got {value!r} instead.")


def check_count(name: str, value: int, least: int) -> None:
    """Raise unless it is an integer, ``>= least``."""
    if not isinstance(value, Integral):
        raise TypeError(f"The '{name}' parameter must be an integer of at least {least}. Got {value!r} instead.")
    check_at_least(name, value, least)


def check_positive(name: str, value: float) -> None:
    """Raise unless ``value > 0``."""
    if not value > 0:
        raise ValueError(f"The '{name}' parameter must be above 0. Got {value!r} instead.")


def to_plain(value: Any, tensors: dict[str, Tensor] | None = None) -> Any:
    """A method, with the baselines and tensors inside it, as JSON values.

    Tensors go to ``tensors`` under the key that stands in their place; without it only their shape is told.
    """
    if is_dataclass(value) and not isinstance(value, type):
        options = {item.name: to_plain(getattr(value, item.name), tensors) for item in fields(value)}
        return {"type": type(value).__name__, **options}
    if isinstance(value, Tensor | np.ndarray):
        value = torch.as_tensor(value)
        if tensors is None:
            return {"type": "Tensor", "shape": list(value.shape)}
        key = f"option_{len(tensors)}"
        tensors[key] = value
        return {"type": "Tensor", "key": key}
    if isinstance(value, tuple | list):
        return [to_plain(item, tensors) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    return str(value)


def from_plain(plain: Any, tensors: dict[str, Tensor], known: dict[str, type]) -> Any:
    """What :func:`to_plain` was given."""
    if isinstance(plain, list):
        return tuple(from_plain(item, tensors, known) for item in plain)
    if not isinstance(plain, dict):
        return plain
    options = dict(plain)
    name = options.pop("type")
    if name == "Tensor":
        return tensors[options["key"]]
    if name not in known:
        raise ValueError(f"The file was written with {name!r}, which this version of Cocoax does not know.")
    return known[name](**{key: from_plain(item, tensors, known) for key, item in options.items()})


def results(
    description: dict[str, Any],
    encoder: str,
    space: str,
    explicand: Explicand,
    targets: Sequence[Target],
    ends: Tensor,
    *,
    values: Tensor | None = None,
    raw: Tensor | None = None,
    standard_error: Tensor | None = None,
    features: Tensor | None = None,
    neutral: Tensor | None = None,
    samples: int | None = None,
    stopped: str = "",
) -> list[Attribution]:
    """One attribution per target, from maps ``[targets, ...]`` and the scores ``ends [2, targets]`` of the two ends."""
    if values is None:
        assert raw is not None
        values = explicand.per_feature(raw)
    how = {
        "method": description["type"],
        "options": {key: value for key, value in description.items() if key != "type"},
        "encoder": encoder,
        "space": space,
        "samples": samples,
        "stopped": stopped,
        **({"left_out": explicand.left_out} if explicand.left_out else {}),
        "versions": {"cocoax": __version__, "torch": torch.__version__},
    }
    return [
        Attribution(
            values=values[index].float(),
            score=float(ends[0, index]),
            baseline_score=float(ends[1, index]),
            standard_error=None if standard_error is None else standard_error[index].float(),
            raw=None if raw is None else raw[index].float(),
            features=None if features is None else features[index].float(),
            neutral=0.0 if neutral is None else float(neutral[index]),
            metadata={**how, "target": target.name, "similarity": str(target.similarity)},
            picture=explicand.picture,
            box=explicand.box,
            tokens=explicand.tokens,
            text=explicand.text,
            offsets=explicand.offsets,
        )
        for index, target in enumerate(targets)
    ]

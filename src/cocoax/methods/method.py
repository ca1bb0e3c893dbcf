"""The base class of attribution methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from cocoax.checks import as_items
from cocoax.encoders import Encoder
from cocoax.inputs import Explicand
from cocoax.inputs.base import naming_input
from cocoax.methods.serialise import to_json_value
from cocoax.results.attribution import Attribution
from cocoax.seeding import stream
from cocoax.targets import FunctionTarget, Target, class_score

# What may be explained: a target, any function of representations, or a class of the encoder's head.
Askable = Target | Callable[[Tensor], Tensor] | int | str
Samples = np.ndarray | Tensor
# The same for isinstance, which takes no types with parameters.
INPUT_TYPES = (str, Path, Image.Image, np.ndarray, Tensor, Explicand)
# What one explicand may be: the path of a picture or a sound, a text, a row, samples with their rate. A folder and a batch of
# tensors hold many, which types cannot tell; put them into a list.
Input = str | Path | Image.Image | Samples | Explicand | Sequence[float] | tuple[Samples, float] | tuple[float, Samples]


# What Captum, SHAP, LIME and scikit-learn call options of methods, and what they are called here.
_OPTIONS_ELSEWHERE = {
    **dict.fromkeys(
        ("n_samples", "nsamples", "nt_samples", "num_samples", "n_masks", "npermutations", "n_perturb_samples"), "samples"
    ),
    "n_steps": "steps",
    "stdevs": "noise",
    "random_state": "seed",
    "baselines": "baseline",
    "internal_batch_size": "batch_size",
    "perturbations_per_eval": "batch_size",
    "sliding_window_shapes": "window",
    "strides": "stride",
}
# What they call arguments of explain(), and what those are here.
_ARGUMENTS_ELSEWHERE = {
    "target": "'targets'",
    **dict.fromkeys(("input", "inputs", "image"), "'explicand'"),
    **dict.fromkeys(("feature_mask", "segmentation_fn"), "'features'"),
    "n_segments": "features=cocoax.inputs.features.Segments(...)",
}
_EXPLAIN_ELSEWHERE = ("attribute", "shap_values", "explain_instance", "explain_row", "fit", "predict")


class Method(ABC):
    """An attribution method φ: spreads a target over the features of an explicand.

    Methods are immutable descriptions; the same method with the same seed gives the same result, whatever ran before.
    """

    def __new__(cls, *given: Any, **options: Any) -> Self:
        """Make a method; raise if it is made as another library has it: around a model, or with options of other names."""
        own = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
        if own and any(isinstance(each, Encoder | nn.Module) for each in given):
            raise TypeError(f"{cls.__name__} takes options only; the encoder goes to explain(encoder, input, target).")
        has = getattr(cls, "__dataclass_fields__", {})
        for name in options:
            if name not in has and _OPTIONS_ELSEWHERE.get(name) in has:
                raise TypeError(f"{cls.__name__} has no option '{name}'; here it is called '{_OPTIONS_ELSEWHERE[name]}'.")
            if own and name not in has and name in ("feature_mask", "segmentation_fn", "n_segments"):
                given_to = "explain(encoder, input, target, features=...)"
                raise TypeError(f"{cls.__name__} has no option '{name}'; what is removed together is given to {given_to}.")
        return super().__new__(cls)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise, with a hint for what other libraries call :meth:`explain`."""
            hint = "; here it is explain(encoder, input, targets)" if name in _EXPLAIN_ELSEWHERE else ""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}.")

    # A string is an iterable of strings, and a tensor one of tensors; taken as one input, they come first.
    @overload
    def explain(  # type: ignore[overload-overlap]
        self,
        encoder: Encoder,
        explicand: Input,
        targets: Target,
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> Attribution: ...

    @overload
    def explain(  # type: ignore[overload-overlap]
        self,
        encoder: Encoder,
        explicand: Input,
        targets: Sequence[Target],
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> list[Attribution]: ...

    @overload
    def explain(  # type: ignore[overload-overlap]
        self,
        encoder: Encoder,
        explicand: Input,
        targets: Mapping[str, Askable],
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> dict[str, Attribution]: ...

    @overload
    def explain(
        self,
        encoder: Encoder,
        explicand: Iterable[Input],
        targets: Target,
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> list[Attribution]: ...

    @overload
    def explain(
        self,
        encoder: Encoder,
        explicand: Iterable[Input],
        targets: Sequence[Target],
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> list[list[Attribution]]: ...

    @overload
    def explain(
        self,
        encoder: Encoder,
        explicand: Iterable[Input],
        targets: Mapping[str, Askable],
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> list[dict[str, Attribution]]: ...

    def explain(
        self,
        encoder: Encoder,
        explicand: Any,
        targets: Askable | Sequence[Askable] | Mapping[str, Askable] | None = None,
        *,
        features: Any = None,
        progress: bool | None = None,
        **others: Any,
    ) -> Any:
        """Explain one or many targets for one or many explicands.

        ``features`` are what values are of, such as ``"segments"`` or ``"sentences"``, see :meth:`cocoax.Encoder.explicand`.

        Returns an :class:`Attribution`; a list of them for a list of targets, a dict for a dict; and for many explicands a
        list, in their order, of what each alone would give (gradients up to rounding, since inputs share batches). A function
        of representations ``[n, d]`` that gives ``[n]`` is a target too.
        """
        for name in others:
            option = _OPTIONS_ELSEWHERE.get(name, name)
            if name in _ARGUMENTS_ELSEWHERE:
                raise TypeError(
                    f"explain(encoder, input, targets) has no argument {name!r}; here it is {_ARGUMENTS_ELSEWHERE[name]}."
                )
            hint = f" Options of the method go there: {type(self).__name__}({option}=...)." if hasattr(self, option) else ""
            raise TypeError(f"explain(encoder, input, targets) has no argument {name!r}.{hint}")
        check_encoder(encoder)
        if targets is None:
            raise TypeError(
                "What is explained is missing: explain(encoder, input, target). For what makes the input what it is to the "
                "encoder, without labels, the target is cocoax.representation_similarity()."
            )
        asked = check_targets(targets, encoder)
        with torch.inference_mode(False):  # inside inference mode nothing has gradients
            explicands = explicands_of(encoder, explicand, features)
            space = encoder.space
            for target in asked:
                target.check_space(space)
            results = self._explain(encoder, explicands, asked, progress)
        shaped = [as_asked(targets, answers) for answers in results]
        return shaped[0] if encoder.is_one(explicand) else shaped

    @abstractmethod
    def _explain(
        self, encoder: Encoder, explicands: list[Explicand], targets: list[Target], progress: bool | None
    ) -> list[list[Attribution]]:
        """Return one list of attributions, in the order of the targets, for each explicand."""

    def chance(self, explicand: Explicand, baseline: Tensor, seed: int = 0) -> Tensor:
        """Return the map that the method makes of an uninformative encoder; by default noise for each element."""
        return explicand.per_feature(normal(seed, 0, tuple(explicand.tensor.shape)))

    def describe(self) -> dict[str, Any]:
        """Return its name and options, as plain values."""
        description: dict[str, Any] = to_json_value(self)
        return {**description, "type": type(self).__name__}


def check_arguments(name: str, others: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Raise if a function was given arguments that it has not; say what those of other libraries are called here."""
    for other in others:
        own = _OPTIONS_ELSEWHERE.get(other)
        hint = f"; here it is called {own!r}" if own in signature(function).parameters else ""
        raise TypeError(f"{name}() has no argument {other!r}{hint}.")


def check_encoder(encoder: Encoder) -> None:
    """Raise unless it is an :class:`Encoder`."""
    if not isinstance(encoder, Encoder):
        raise TypeError(
            f"The first argument must be a cocoax.Encoder: wrap your module with cocoax.Encoder(module, ...). "
            f"Got {type(encoder).__name__} instead."
        )


def explicands_of(encoder: Encoder, inputs: Any, features: Any = None) -> list[Explicand]:
    """Return one or many inputs made ready to be explained, with these features; raise if there are none."""
    if encoder.is_one(inputs):
        return [encoder.explicand(inputs, features)]
    explicands = []
    for index, item in enumerate(encoder.as_list(inputs)):
        with naming_input(index):
            explicands.append(encoder.explicand(item, features))
    if not explicands:
        raise ValueError("There are 0 inputs; pass at least one.")
    return explicands


def check_targets(
    targets: Askable | Sequence[Askable] | Mapping[str, Askable], encoder: Encoder | None = None
) -> list[Target]:
    """Return targets as a list, those of a dict under their keys; raise for anything else.

    A number or a name is a class of the encoder's head.
    """
    if encoder is not None:
        check_encoder(encoder)
    if isinstance(targets, Mapping):
        return [_target(target, encoder).named(str(name)) for name, target in targets.items()] or _none()
    several = isinstance(targets, Iterable) and not isinstance(targets, str | bytes)
    return [_target(target, encoder) for target in (as_items("Targets", targets) if several else [targets])] or _none()


def _target(asked: object, encoder: Encoder | None) -> Target:
    if isinstance(asked, Target):
        return asked
    if callable(asked) and not isinstance(asked, type):
        return FunctionTarget(asked)
    if isinstance(asked, int | str) and not isinstance(asked, bool) and encoder is not None and encoder.head is not None:
        return class_score(encoder, asked)
    raise TypeError(
        f"What is explained must be a Target, such as cocoax.contrastive_corpus_similarity(corpus, foil). "
        f"Got {type(asked).__name__} instead."
    )


def _none() -> list[Target]:
    raise ValueError("There are 0 targets; pass at least one.")


def as_asked(targets: object, answers: list[Attribution]) -> Any:
    """Return the answers in the form in which their targets were given: one, a list or a dict."""
    if isinstance(targets, Mapping):
        return dict(zip(targets, answers, strict=True))
    return answers if isinstance(targets, Iterable) and not isinstance(targets, str) else answers[0]


def normal(seed: int, row: int, shape: tuple[int, ...]) -> Tensor:
    """Return standard normal noise number ``row`` of a seed; the same whatever else is drawn."""
    return torch.from_numpy(stream(seed, row).standard_normal(shape, dtype="float32"))

"""Every other attribution method that Captum has, on the target wrapped as a module."""

from __future__ import annotations

import inspect
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cocoax.cautions import caution
from cocoax.encoders import Encoder
from cocoax.encoders.embedding import differentiable
from cocoax.encoders.forward import frozen
from cocoax.inputs import Explicand
from cocoax.inputs.segmentation import check_sides
from cocoax.masking import MaskedEncoder, grid_segments
from cocoax.methods.estimate import Estimate, Origin, attributions
from cocoax.methods.gradients import check_one_baseline
from cocoax.methods.method import Method
from cocoax.methods.serialise import to_json_value
from cocoax.results.attribution import Attribution
from cocoax.seeding import check_seed
from cocoax.targets import Target, TargetModule


class Captum(Method):
    """An attribution method of Captum, by name or class: ``Captum("DeepLift")``, ``Captum("Lime", n_samples=200)``.

    What users of images expect is filled in where Captum's method asks for it and it is not given: ``baselines`` is the
    baseline, ``feature_mask`` a grid, ``sliding_window_shapes`` a cell of that grid, and values keep their sign.

    Args:
        method: name or class of an attribution in ``captum.attr``.
        baseline: what removed pixels are replaced by, where the method takes ``baselines``.
        grid: the patches that methods with a ``feature_mask`` remove.
        seed: of the method's random numbers; the global random state is left as it was.
        options: for the method's constructor or its ``attribute``, whichever takes them. A ``layer`` is named as in
            ``module.named_modules()``.

    """

    def __init__(
        self,
        method: str | type,
        /,
        *,
        baseline: Any = None,
        grid: int | tuple[int, int] = 7,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.method = _find(method)
        self.baseline = baseline
        self.grid = grid
        self.seed = seed
        self.options = options
        check_seed(seed)
        check_sides(grid)
        known = _parameters(self.method.__init__) | _parameters(self.method.attribute)
        if "attribution_method" in known:  # NoiseTunnel and the like wrap another method, and pass options on to it
            if "attribution_method" not in options:
                raise ValueError(
                    f"Captum's {self.method.__name__} wraps another method; name it with attribution_method='Saliency'."
                )
            known |= _parameters(_find(options["attribution_method"]).attribute)
        unknown = sorted(set(options) - known)
        if unknown:
            takes = "layer" if unknown[0] == "target_layers" and "layer" in known else ", ".join(sorted(known))
            raise ValueError(f"Captum's {self.method.__name__} has no option {unknown[0]!r}; it takes {takes}.")
        needs = inspect.signature(self.method.__init__).parameters.get("layer")
        if needs is not None and needs.default is inspect.Parameter.empty and "layer" not in options:
            raise ValueError(
                f"Captum's {self.method.__name__} explains a layer; pass layer=, its name in module.named_modules()."
            )

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Captum({self.method.__name__!r}{options})"

    def describe(self) -> dict[str, Any]:
        """Return its name and options, as plain values."""
        plain = {name: to_json_value(value) for name, value in self.options.items()}
        return {
            "type": f"Captum {self.method.__name__}",
            "baseline": to_json_value(self.baseline),
            "grid": to_json_value(self.grid),
            "seed": self.seed,
            **plain,
        }

    def _explain(
        self, encoder: Encoder, explicands: list[Explicand], targets: list[Target], progress: bool | None
    ) -> list[list[Attribution]]:
        from captum.attr import (
            PerturbationAttribution,  # with matplotlib behind it, too slow for every import of this package
        )

        space = encoder.identity.space
        answers = []
        for view, explicand in (differentiable(encoder, explicand) for explicand in explicands):
            masked = MaskedEncoder(view, explicand, self.baseline)
            check_one_baseline(masked, self)
            ends = masked.score(targets)
            maps = []
            for target in targets:
                module = TargetModule(target, view, masked.anchors[0])
                with seeded(self.seed), frozen(view.owner), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # about hooks and gradients that it sets up itself
                    maps.append(self._attribute(encoder, module, explicand, masked.baseline_input))
            self._check(view, maps)
            whole = explicand.tensor.shape
            raw = torch.stack([values if values.shape == whole else _resized(values, explicand) for values in maps])
            by_removal = issubclass(self.method, PerturbationAttribution)
            if explicand.feature_ids is not None and by_removal:
                raw = raw / _removed_together(explicand, "feature_mask" in _parameters(self.method.attribute))
            values = explicand.per_feature(raw)
            estimate = Estimate(values, raw=raw, shares=1 if by_removal else values[0].numel())
            described = {**self.describe(), "baseline": to_json_value(masked.removal)}
            origin = Origin(described, encoder.name, space, rounding=view.rounding)
            answers.append(attributions(origin, explicand, targets, ends, estimate, masked.anchors[0]))
        return answers

    def _check(self, encoder: Encoder, maps: list[Tensor]) -> None:
        """Caution if Captum's method did nothing, which it does not say."""
        name = self.method.__name__
        relus = [part for part in encoder.owner.modules() if isinstance(part, nn.ReLU)] if encoder.owner is not None else []
        if name in ("GuidedBackprop", "Deconvolution") and not relus:
            caution(
                name,
                encoder.name,
                f"Captum's {name} changes modules nn.ReLU, and {encoder.name!r} has none (functions such as F.relu are not "
                "seen), so that its map is that of plain gradients.",
            )
        if not any(bool(values.any()) for values in maps):
            lasso = "from captum._utils.models.linear_model import SkLearnLasso; interpretable_model=SkLearnLasso(alpha=1e-4)"
            hint = f"Its default penalty is too large for such scores; pass a smaller one: {lasso}." if name == "Lime" else ""
            caution(name, encoder.name, f"Captum's {name} gave nothing but zeros. {hint}".strip())

    def _attribute(self, encoder: Encoder, module: nn.Module, explicand: Explicand, baseline: Tensor) -> Tensor:
        constructor = {name: value for name, value in self.options.items() if name in _parameters(self.method.__init__)}
        call = {name: value for name, value in self.options.items() if name not in constructor}
        if isinstance(constructor.get("layer"), str):
            constructor["layer"] = encoder.layer_named(constructor["layer"])
        takes = _parameters(self.method.attribute)
        inner = constructor.pop("attribution_method", None)
        try:
            if inner is not None:
                made = self.method(_find(inner)(module), **constructor)
                takes = takes | _parameters(_find(inner).attribute)
            else:
                made = self.method(module, **constructor)
            inputs = explicand.tensor[None].to(encoder.device)
            for name, value in self._expected(explicand, inputs, baseline[None].to(encoder.device)).items():
                if name in takes and name not in self.options:
                    call[name] = value()
            output = made.attribute(inputs, **call)
        except (RuntimeError, AssertionError, ValueError, TypeError, NotImplementedError) as error:
            raise RuntimeError(f"Captum's {self.method.__name__} cannot explain {encoder.name!r}: {error}") from error
        output = output[0] if isinstance(output, tuple) else output
        values: Tensor = output[0].detach().to("cpu", torch.float32)
        return values

    def _expected(self, explicand: Explicand, inputs: Tensor, baseline: Tensor) -> dict[str, Callable[[], Any]]:
        """Return what is filled in for parameters that the method has and the user has not given."""
        channels, *sides = explicand.tensor.shape
        grid = (self.grid, self.grid) if isinstance(self.grid, int) else self.grid
        cells = grid if len(explicand.shape) == 2 else sides  # words and columns are cells of their own
        distribution = self.method.__name__ in ("DeepLiftShap", "GradientShap")  # these take a set of baselines
        return {
            "baselines": lambda: baseline.repeat(2, *[1] * explicand.tensor.ndim) if distribution else baseline,
            "feature_mask": lambda: _feature_mask(explicand, self.grid).to(inputs.device),
            "sliding_window_shapes": lambda: (channels, *(-(-side // cell) for side, cell in zip(sides, cells, strict=True))),
            "strides": lambda: (channels, *(-(-side // (2 * cell)) for side, cell in zip(sides, cells, strict=True))),
            "abs": lambda: False,
        }


def _feature_mask(explicand: Explicand, grid: int | tuple[int, int]) -> Tensor:
    """Return which elements are removed together: cells of a grid, the tokens of a word, a column; for a batch of one."""
    if explicand.feature_ids is not None:
        # Special tokens are the same in the baseline; to which feature they are counted makes no difference.
        mask = explicand.feature_ids.clamp(min=0)
        return mask[(None,) * (1 + explicand.tensor.ndim - mask.ndim)]
    if len(explicand.shape) == 1:
        return torch.arange(explicand.shape[0])[None, None]
    height, width = explicand.shape
    return grid_segments(height, width, grid)[None, None]


def _removed_together(explicand: Explicand, by_feature: bool) -> Tensor:
    """Return how many elements were removed together with each: all of them show the value of the whole, and are summed."""
    assert explicand.feature_ids is not None
    if not by_feature:
        return torch.tensor(len(explicand.tensor))
    mask = _feature_mask(explicand, 1)[0].expand_as(explicand.tensor)
    return torch.bincount(mask[explicand.feature_ids.expand_as(mask) >= 0])[mask]


def _find(method: str | type) -> Any:
    import captum.attr

    kind = method if inspect.isclass(method) else getattr(captum.attr, str(method), None)
    if not inspect.isclass(kind) or not hasattr(kind, "attribute"):
        names = sorted(name for name in dir(captum.attr) if hasattr(getattr(captum.attr, name), "attribute"))
        near = [name for name in names if isinstance(method, str) and method and method.lower() in name.lower()]
        near += [name for name in get_close_matches(str(method), names) if name not in near]
        close = f" close ones are {', '.join(near)};" if near else ""
        raise ValueError(f"Captum has no attribution {method!r};{close} it has {', '.join(names)}.")
    return kind


def _parameters(function: Any) -> set[str]:
    """Return the names of a function's own parameters, without those of every Captum method."""
    names = set(inspect.signature(function).parameters)
    return names - {"self", "args", "kwargs", "forward_func", "model", "inputs", "target"}


def _resized(values: Tensor, explicand: Explicand) -> Tensor:
    """Return the map of a layer ``[channels, h, w]``, summed over channels and enlarged to the input: ``[1, H, W]``."""
    shape = explicand.shape
    if values.ndim != 3 or len(shape) != 2:
        raise ValueError(f"A map of shape {list(values.shape)} cannot be laid over an image; use a convolutional layer.")
    return F.interpolate(values.sum(0)[None, None], size=shape, mode="bilinear", align_corners=False)[0]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed every global random generator for a while; afterwards they are as they were."""
    check_seed(seed)
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)  # NumPy's old generator takes no more
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)

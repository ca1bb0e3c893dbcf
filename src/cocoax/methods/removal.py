"""Methods that remove parts of an input and look at what that does to its representation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self, overload

from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.inputs import Explicand
from cocoax.inputs.segmentation import grid_segments
from cocoax.masking import Masks
from cocoax.methods.estimate import Effects, Estimate
from cocoax.methods.method import Input, Method, check_encoder, check_targets, explicands_of
from cocoax.methods.plugin_checks import drawn
from cocoax.methods.run import IN_FILES, Run
from cocoax.methods.serialise import type_name
from cocoax.results.attribution import Attribution
from cocoax.targets import Target


@dataclass(frozen=True)
class RemovalMethod(Method):
    """A method that removes parts of the explicand and looks at what that does to its representation.

    Args:
        baseline: what replaces removed pixels: a :class:`cocoax.Baseline`, or a picture. Words are removed by ``"mask"``,
            ``"deletion"`` or ``"attention"``; columns are replaced by a :class:`cocoax.Background`. By default what suits the
            kind of input: a blur, the mask token, the mean of the background.
        batch_size: perturbed inputs encoded at a time; automatic if not given.

    """

    # Options that say how long a run is, not what it is: a longer run begins with a shorter one, and serves in its place.
    lengthening: ClassVar[tuple[str, ...]] = ()
    # Options that only say how a run is read.
    reading: ClassVar[tuple[str, ...]] = ()

    baseline: Any = field(default=None, kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        IN_FILES[type_name(cls)] = cls

    def options_of(self, shape: tuple[int, ...]) -> set[str]:
        """Return the names of the options that decide what a run over features of this shape is: another has other masks."""
        return {option.name for option in fields(self)} - {*self.lengthening, *self.reading}

    def choose_features(self, encoder: Encoder, explicand: Explicand) -> tuple[Self, Explicand]:
        """Return the method and the explicand as they go together: each may decide what the features are.

        By default the cells that an explicand asks for are its parts.
        """
        if explicand.grid is None:
            return self, explicand
        labels = grid_segments(explicand.tensor.shape[-2], explicand.tensor.shape[-1], explicand.grid)
        return self, replace(explicand, feature_ids=labels, grid=None)

    @abstractmethod
    def draw(self, shape: tuple[int, ...], count: int | None = None) -> Masks:
        """Return masks for features of this shape: ``count`` of them, or as many as the method's options say.

        The shape is (H, W) for pixels and (m,) for a list of features (words, columns). A larger count begins with the same
        masks, which is what lets a run be extended.
        """

    @abstractmethod
    def restore(self, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> Masks:
        """Return masks from their compact form."""

    @abstractmethod
    def estimate(self, masks: Any, scores: Tensor, anchors: Tensor) -> Estimate:
        """Return maps from the scores of the masked inputs ``[n, k]`` and of explicand and baseline ``[2, k]``."""

    def adapted(self, masks: Any, representations: Tensor, anchors: Tensor) -> Any:
        """Return the masks with what an estimator learns from the representations of masked inputs and anchors, if anything.

        It may not depend on a target, or maps would no longer be linear in targets.
        """
        return masks

    def cells(self, masks: Any, grid: int | tuple[int, int] | None) -> Any:
        """Return masks whose estimates have one value per cell of a grid instead of per pixel.

        Masks over a list of features are what they are. By default there is no faster way than to pool the map.
        """
        return masks

    def effects(self, masks: Any, scores: Tensor, anchors: Tensor) -> Effects:
        """Return how much keeping a feature, rather than removing it, changes each score; for masks of :meth:`cells`."""
        estimate = self.estimate(masks, scores, anchors)
        neutral = 0.0 if estimate.neutral is None else estimate.neutral.view(-1, *[1] * (estimate.values.ndim - 1))
        return Effects(estimate.values - neutral)

    def deviations(self, masks: Any, scores: Tensor, anchors: Tensor, signs: Callable[[int], Tensor]) -> Tensor | None:
        """Return random sums of what single samples contribute to the error of maps, ``[groups, k, *shape]``.

        The mean of their squares is the squared standard error, of any mixture of the scores too, which is how a field knows
        the errors of targets that nobody has asked about yet. ``signs(n)`` gives ``[n, groups]`` random signs. Zeros where
        nothing is left to chance, None where nothing is known about it.
        """
        return None

    def more(self, run: Run, targets: Sequence[Target]) -> int:
        """Return how many more perturbations a run needs for these targets; 0 ends it. By default it is long enough."""
        return 0

    def at_length(self, run: Run, at_least: bool) -> tuple[Run, int]:
        """Return an earlier run of this method as it can be used, and how many perturbations it lacks.

        ``at_least`` takes all of a run that is longer than asked for. By default a run is as long as what :meth:`draw` gives.
        """
        wanted = len(drawn(self, run.explicand.shape))
        if len(run) > wanted and not at_least:
            return run.first(wanted), 0
        return run, max(wanted - len(run), 0)

    @overload
    def run(  # type: ignore[overload-overlap]
        self,
        encoder: Encoder,
        explicand: Input,
        targets: Target | Sequence[Target] = (),
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> Run: ...

    @overload
    def run(
        self,
        encoder: Encoder,
        explicand: Iterable[Input],
        targets: Target | Sequence[Target] = (),
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> list[Run]: ...

    def run(
        self,
        encoder: Encoder,
        explicand: Any,
        targets: Target | Sequence[Target] = (),
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> Run | list[Run]:
        """Do all encoder work for one explicand (a :class:`Run`) or many (a list of them).

        A run answers any target. Methods that stop by themselves (``tolerance=``) look at the error of ``targets``, or of
        the similarity to the explicand itself if there are none. ``features`` are what is removed as one part, see
        :meth:`cocoax.Encoder.explicand`.
        """
        check_encoder(encoder)
        asked = [] if isinstance(targets, list | tuple) and not targets else check_targets(targets, encoder)
        explicands = explicands_of(encoder, explicand, features)
        space = encoder.space
        for target in asked:
            target.check_space(space)
        runs = [Run.start(self, encoder, item, asked, progress) for item in explicands]
        return runs[0] if encoder.is_one(explicand) else runs

    def _explain(
        self, encoder: Encoder, explicands: list[Explicand], targets: list[Target], progress: bool | None
    ) -> list[list[Attribution]]:
        # One run at a time: its representations are not needed any more once it has answered.
        return [Run.start(self, encoder, item, targets, progress).explain(targets) for item in explicands]

"""Building an index: every input of a data set is explained once, and its entry is kept in a shard."""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.cautions import caution
from cocoax.checks import check_count, check_kind
from cocoax.data.labelled import Split
from cocoax.encoders import Encoder, load
from cocoax.encoders.fast_encoder import FastEncoder, agree, can_be_faster
from cocoax.encoders.forward import by_shape
from cocoax.inputs import Explicand
from cocoax.inputs.explicand import SMALL
from cocoax.inputs.features import features_of
from cocoax.inputs.segmentation import coarsest_grid
from cocoax.masking import MaskedEncoder, Masks
from cocoax.masking.removals import DEFAULT_PRESET, preset, resolve
from cocoax.methods.field import default_grid, feature_vectors, pooled
from cocoax.methods.method import check_encoder
from cocoax.methods.run import RemovalMethod
from cocoax.progress import Bar, bar
from cocoax.seeding import stream
from cocoax.spaces import same_space
from cocoax.store import UnitFolder, as_path, digest
from cocoax.survey.index import Index
from cocoax.survey.items import Item, column_types, content_digest, escaped, open_items, value_digest
from cocoax.survey.storage import (
    Entry,
    IndexRecipe,
    Manifest,
    index_folder,
    linear_similarity,
    metadata_table,
    plain_recipe,
    read_metadata,
    read_shard,
    shard_files,
    shard_name,
    table_of,
    with_metadata,
    write_shard,
)

_MAX_DROPPED_SHARE = 0.5  # of all entries: more than that are dropped only if it is asked for
_NOISE = 4  # random sums of the error of a whole map: an error is then known to about 1 / sqrt(2 * 4), 35 %
_GROUP = 4  # inputs that are read while the encoder is at work, and whose anchors are encoded together; two are in memory
_SHARD = 256  # inputs in a file, if they take less than a minute
_MINUTES = 100.0  # seconds from which on the announcement says what takes less
_MANY = 80  # samples, of which a quarter still makes a map
_PATIENCE = 60.0  # seconds after which a file is written, unless its size was given


@dataclass(frozen=True, eq=False)
class Chunk:
    """Inputs that are explained together.

    Attributes:
        number: of the first one among all inputs.
        items: the inputs.

    """

    number: int
    items: Sequence[Item]

    @property
    def name(self) -> str:
        """The name of their shard."""
        return shard_name(self.number, [item.id for item in self.items])


def build(
    encoder: Encoder | str,
    inputs: Any,
    out: str | Path,
    method: RemovalMethod | None = None,
    *,
    labels: Any = None,
    column: str | None = None,
    id_column: str | None = None,
    split: Split = "train",
    similarity: str = "cosine",
    grid: int | tuple[int, int] | None = None,
    features: Any = None,
    shard: int | None = None,
    workers: int = 0,
    ray: str | None = None,
    device: str | None = None,
    crop: bool = False,
    baseline: str | None = None,
    retry: bool = False,
    drop: bool = False,
    progress: bool | None = None,
    announce: Callable[[str], object] | None = None,
) -> Index:
    """Explain every input of a data set once, so that questions to all of them can be asked afterwards; return the index.

    What is there already is not done again: a build that was stopped goes on, a file that has changed is done anew, one that
    was added is added, one that is gone is dropped; if those are most, only with ``drop=True``. An input that cannot be
    explained is an entry with its error.

    Args:
        encoder: explains them; or what :func:`cocoax.load` takes.
        inputs: a folder, a table (Parquet, Arrow, CSV, JSON lines, a data frame), a data set, or any sequence of inputs.
        out: the folder of the index.
        method: a removal method, by default ``Rise(samples=200)``.
        labels: one for each input, or a dict of columns; folders and tables bring their own.
        column, id_column: of a table: the inputs, and the column that tells rows apart (by default they are numbered).
        split: of a data set that has several parts.
        similarity: cosine or dot; the questions that can be asked are of this one.
        grid: cells that the pixels of pictures are pooled to; by default those of the masks.
        features: what is removed and shown as one part, such as ``"segments"`` or ``"sentences"``; see
            :meth:`cocoax.Encoder.explicand`.
        shard: inputs in a file, all of which are lost if the process is killed; by default as many as take a minute, and at
            most 256.
        workers: processes of a local Ray; 0 works in this one.
        ray: the address of a running Ray, or "auto"; ``workers`` of it are used, by default all.
        device: where an encoder that is given by name runs, here or in each worker.
        crop: with an encoder that is given by name, explain what its preprocessing cuts out of a photo, not all of it.
        baseline: what removed parts of pictures become: a name, a picture or a folder, as for ``cocoax ask``. By default what
            the method says, or a strong blur for an encoder that is given by name.
        retry: try inputs again that failed.
        drop: drop entries of inputs that are gone, or replaced where inputs are numbered, even if those are most of them.
        progress: show a bar (None: when it takes long).
        announce: is called with a sentence that says how long it will take and how large the index will be, after the first
            inputs.

    """
    loaded = load_with_view(encoder, device, not crop) if isinstance(encoder, str) else encoder
    check_encoder(loaded)
    divided = None if features is None else features_of(features, loaded.inputs)
    loaded = loaded if divided is None else loaded.by(divided)
    if method is not None:
        check_kind("The method", method, RemovalMethod, "must be one that removes parts, such as cocoax.Rise()")
    check_count("shard", _SHARD if shard is None else shard, 1)
    linear_similarity(similarity)
    method = _with_baseline(method or IndexRecipe().method, baseline, loaded, isinstance(encoder, str))
    recipe = IndexRecipe(method, similarity, grid, divided)
    items = open_items(inputs, loaded.inputs, column, id_column, split, labels)
    manifest = Manifest(
        encoder if isinstance(encoder, str) else loaded.name,
        loaded.space,
        plain_recipe(recipe, loaded.inputs.view_settings),
        loaded.inputs.noun,
        str(Path(inputs).resolve()) if isinstance(inputs, str | Path) else "",
        column_types(items),
        loaded.rounding,
    )
    folder = index_folder(as_path(out))
    _check_folder(folder, manifest)  # before anything is written
    with folder.lock():
        earlier = _check_folder(folder, manifest)
        folder.remove_leftovers()
        missing = _missing_items(loaded, items, folder.folder, manifest, retry, drop, progress)
        (manifest if earlier is None else replace(manifest, made_by=earlier.made_by)).save(folder.folder)
        size = _SHARD if shard is None else shard
        parts = [missing[start : start + size] for start in range(0, len(missing), size)]
        chunks = [Chunk(part[0][0], [item for _, item in part]) for part in parts]
        with bar(len(missing), f"indexing with {loaded.name}", progress) as shown:
            state = _Progress(shown, len(missing), manifest, announce)
            if workers or ray is not None:
                from cocoax.survey.ray_workers import build_on_ray

                tables = state.counted(build_on_ray(chunks, (encoder, loaded.device.type, recipe, manifest), workers, ray))
            else:
                builder = EntryBuilder(loaded, recipe, manifest.space)
                if isinstance(encoder, str):  # nobody else has it
                    loaded.release_text()
                tables = _build_here(builder, chunks, state, shard is None)
            _write(folder, tables, state)
    index = Index.open(folder.folder)
    index.check_any()
    return index


def load_with_view(name: str, device: str | None, whole: bool) -> Encoder:
    """Load an encoder; with ``whole`` it explains all of a photo."""
    encoder = load(name, device=device)
    return encoder if whole else encoder.cropped()


def _with_baseline(method: RemovalMethod, baseline: str | None, encoder: Encoder, named: bool) -> RemovalMethod:
    """Return the method with the baseline that is asked for, or with that of all commands for pictures."""
    if baseline is None and (method.baseline is not None or not named or encoder.inputs.noun != "image"):
        return method
    if encoder.inputs.noun != "image":
        raise ValueError(f"baseline={baseline!r} is about pictures, and {encoder.name!r} takes {encoder.inputs.nouns}.")
    chosen: Any = {"baseline": preset(baseline or DEFAULT_PRESET, encoder.inputs, getattr(method, "seed", 0))}
    return replace(method, **chosen)


def _check_folder(folder: UnitFolder, manifest: Manifest) -> Manifest | None:
    """Return the manifest that is there; raise if the folder holds something else than an index that was made in this way.

    An index without any entry is taken over, however it was begun.
    """
    if not (folder.folder / folder.head).exists():
        folder.check_unused()
        return None
    earlier = Manifest.load(folder.folder)
    if not folder.files():
        return None
    earlier.check(manifest)
    return earlier


class _Progress:
    """Counts of inputs that are done, failed and left, and the time that is left."""

    def __init__(self, shown: Bar, left: int, manifest: Manifest, announce: Callable[[str], object] | None) -> None:
        self.shown = shown
        self.left = left
        self.failed = self.done = 0
        self.manifest = manifest
        self.announce = announce
        self.begun = time.monotonic()

    def count(self, errors: Sequence[str | None]) -> None:
        """Count inputs, by their errors; None is none."""
        self.shown.update(len(errors))
        self.left -= len(errors)
        self.done += len(errors)
        self.failed += sum(error is not None for error in errors)
        if self.failed:
            self.shown.set_postfix_str(f"{self.failed} failed")

    def estimate(self, table: Any) -> None:
        """Announce, once, how long the rest takes and how large the index will be, by the entries of the first inputs."""
        if self.announce is None:
            return
        total, seconds = self.done + self.left, (time.monotonic() - self.begun) / self.done * self.left
        duration = (
            f"{seconds:.0f} s"
            if seconds < 100
            else f"{seconds / 60:.0f} min"
            if seconds < 6000
            else f"{seconds / 3600:.1f} h"
        )
        size = table.nbytes / len(table) * total
        samples = self.manifest.recipe["method"].get("samples")
        fewer = (
            f"; --samples {samples // 4} takes a quarter of the time, with noisier maps"
            if _takes_long(seconds, samples)
            else ""
        )
        self.announce(f"{total} {self.manifest.nouns}: about {duration} and {size / 1e6:.3g} MB{fewer}")
        self.announce = None

    def counted(self, tables: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        """Count the entries of tables that others made."""
        for name, table in tables:
            self.count(table["error"].to_pylist())
            self.estimate(table)
            yield name, table


def _takes_long(seconds: float, samples: Any) -> bool:
    """Whether a user may want to take a quarter of the samples: it takes minutes, and they are enough for a map."""
    return seconds >= _MINUTES and isinstance(samples, int) and samples >= _MANY


def _write(folder: UnitFolder, tables: Iterable[tuple[str, Any]], progress: _Progress) -> None:
    """Write shards while the next ones are made."""
    with _helper() as pool:
        writing: Future[Path] | None = None
        for name, table in tables:
            if writing is not None:
                writing.result()  # raises what went wrong
            left = progress.left + len(table)
            writing = pool.submit(write_shard, folder.path(name), table, progress.manifest, left)
        if writing is not None:
            writing.result()


def _build_here(
    builder: EntryBuilder, chunks: Sequence[Chunk], progress: _Progress, patient: bool
) -> Iterator[tuple[str, Any]]:
    """Yield the names and the tables of shards, one for each chunk; with ``patient`` one at least every minute."""
    written = time.monotonic()
    for chunk in chunks:
        entries: list[Entry] = []
        begun = 0  # entries of the chunk that are written
        try:
            for entry in entries_of(builder, chunk.items):
                entries.append(entry)
                progress.count([entry.error])
                last = begun + len(entries) == len(chunk.items)
                if last or len(entries) == _GROUP or (patient and time.monotonic() - written > _PATIENCE):
                    table = table_of(entries, progress.manifest.columns)
                    progress.estimate(table)
                    if last or (patient and time.monotonic() - written > _PATIENCE):
                        yield shard_name(chunk.number + begun, [each.id for each in entries]), table
                        written, begun, entries = time.monotonic(), begun + len(entries), []
        except KeyboardInterrupt:
            if entries:
                names = [each.id for each in entries]
                yield shard_name(chunk.number + begun, names), table_of(entries, progress.manifest.columns)
            raise


@contextmanager
def _helper() -> Iterator[ThreadPoolExecutor]:
    """Give a thread that works beside the encoder.

    Its own torch work is done by it alone: more threads than processors make all of them sleep between any two steps, which
    costs the encoder 15 % of its speed.
    """

    def alone() -> None:
        torch.get_num_threads()  # a new thread takes the common number when it first asks, and its own after that
        torch.set_num_threads(1)

    count = torch.get_num_threads()
    with ThreadPoolExecutor(1, initializer=alone) as pool:
        pool.submit(int).result()  # so that it has begun
        torch.set_num_threads(count)  # for this thread and those that begin later
        yield pool


def entries_of(builder: EntryBuilder, items: Sequence[Item]) -> Iterator[Entry]:
    """Yield the entry of each input; the next ones are read meanwhile."""
    builder.begin()
    groups = [items[start : start + _GROUP] for start in range(0, len(items), _GROUP)]
    with _helper() as pool:
        ahead: deque[Future[list[_LoadedItem]]] = deque()
        for group in groups:
            ahead.append(pool.submit(lambda some: [builder.read(item) for item in some], group))
            if len(ahead) > 1:
                yield from builder.make(ahead.popleft().result())
        while ahead:
            yield from builder.make(ahead.popleft().result())


def _return_memory() -> None:
    """Give freed memory back to the system: glibc keeps what lies between small objects that live, a third of a build's."""
    with suppress(AttributeError, OSError, TypeError):  # other systems
        ctypes.CDLL(None).malloc_trim(0)


# --- entries --------------------------------------------------------------------------------------------------------------


def _with_own_seed(method: RemovalMethod, name: str) -> RemovalMethod:
    """Return the method with the seed of an input, by its id: each has masks of its own, so that errors average out."""
    if not hasattr(method, "seed"):
        return method
    mixed: Any = {"seed": int(digest(method.seed, name)[:8], 16)}
    return replace(method, **mixed)


@dataclass(frozen=True, eq=False)
class _FieldPlan:
    """Masks, and the matrices by which a field comes of the feature vectors of masked inputs and of the two anchors.

    All estimates are linear in the scores, so what they do to n masked inputs and two anchors is known before there are any.

    Attributes:
        method: the one that drew the masks.
        masks: n of them.
        field: ``[*cells, n + 2]``.
        noise: ``[4, n + 2]``; no rows where nothing is left to chance, or known about it.

    """

    method: RemovalMethod
    masks: Masks
    field: Tensor
    noise: Tensor

    @classmethod
    def draw(cls, method: RemovalMethod, shape: tuple[int, ...], grid: int | tuple[int, int] | None) -> _FieldPlan:
        """Return the plan of a method for inputs whose features have this shape, pooled to a grid if they are pixels."""
        masks = method.draw(shape)
        count = len(masks)
        every = torch.eye(count + 2, dtype=torch.float64)
        vectors, ends = every[:count], every[count:]
        grid = (default_grid(method, shape, 1) if grid is None else grid) if len(shape) == 2 else None
        cells = method.cells(masks, grid)
        effects = method.effects(cells, vectors, ends)
        x = None if effects.x is None else pooled(effects.x, shape, grid).flatten(1)
        field = pooled(effects.values, shape, grid).movedim(0, -1)
        return cls(method, masks, field, _noise(x, effects.r, count + 2, getattr(method, "seed", 0)))


def _noise(x: Tensor | None, r: Tensor | None, columns: int, seed: int) -> Tensor:
    """Return random sums of the sampling error over samples and cells, ``[4, n + 2]``, from its factors."""
    if x is None or r is None or not len(x):
        return torch.zeros(0, columns, dtype=torch.float64)
    # Other signs for every input: the errors of neighbouring cells go together, which averages out over inputs alone.
    signs = stream(1, 3, seed)
    over_cells = torch.from_numpy(signs.choice([-1.0, 1.0], (x.shape[1], _NOISE)))
    over_samples = torch.from_numpy(signs.choice([-1.0, 1.0], (len(x), _NOISE)))
    sums: Tensor = ((x @ over_cells) * over_samples).T @ r / x.shape[1] ** 0.5
    return sums


@dataclass(frozen=True, eq=False)
class _LoadedItem:
    """An input that was read, before it is encoded.

    Attributes:
        item: which one.
        digest: of its content; empty if it cannot be read.
        error: why it cannot be explained; the rest is empty then.
        explicand: the input.
        baseline_input: the same without its features.
        plan: the masks, and the matrices that make a field of what the encoder makes of them.
        together: what is encoded together with other inputs: the input, its baselines, and one masked input on which a folded
            encoder is tried, if there is one. Empty where each input goes through an encoder of its own.

    """

    item: Item
    digest: str
    error: str | None = None
    explicand: Explicand | None = None
    baseline_input: Tensor | None = None
    plan: _FieldPlan | None = None
    together: list[Tensor] = field(default_factory=list)

    def failed(self, error: Exception) -> _LoadedItem:
        """Return it with what went wrong."""
        return _LoadedItem(self.item, self.digest, escaped(f"{type(error).__name__}: {error}"))


class EntryBuilder:
    """Makes entries of inputs by an encoder, which is folded once for all inputs of one shape in a shard."""

    def __init__(self, encoder: Encoder, recipe: IndexRecipe, space: str) -> None:
        if not same_space(encoder.space, space):
            raise ValueError(f"The encoder {encoder.name!r} is another one here than where the index was begun.")
        self.encoder = encoder
        self.recipe = recipe
        self.removal = resolve(recipe.method.baseline, encoder.inputs)
        self._folds = can_be_faster(encoder)
        self._fast: dict[torch.Size, FastEncoder] = {}

    def begin(self) -> None:
        """Begin a shard: the first input of each shape finds out whether the encoder can be folded for the others.

        So a shard does not depend on those that were made before it.
        """
        self._fast = {}

    def read(self, item: Item) -> _LoadedItem:
        """Return an input made ready to be explained."""
        loaded = _LoadedItem(item, "")
        try:
            value = item.load()
            loaded = _LoadedItem(item, value_digest(self.encoder, value))
            return self._prepare(loaded, _explicand(self.encoder, value))
        except Exception as error:
            return loaded.failed(error)

    def _prepare(self, loaded: _LoadedItem, explicand: Explicand) -> _LoadedItem:
        method, explicand = _with_own_seed(self.recipe.method, loaded.item.id).choose_features(self.encoder, explicand)
        explicand = self.removal.with_features(explicand, self.encoder, getattr(method, "grid", None))
        baseline_input = self.removal.baseline_input(explicand)
        plan = _FieldPlan.draw(method, tuple(explicand.shape), self.recipe.grid)
        together: list[Tensor] = []
        if explicand.tensor.is_floating_point() and self.removal.encoder_for(self.encoder, explicand) is self.encoder:
            together = [explicand.tensor, *self.removal.versions(explicand, baseline_input)]
            if self._folds:
                kept = plan.masks.full(slice(0, 1)).reshape(1, *explicand.shape).float()
                together += list(self.removal.masked(explicand, baseline_input, kept))
        # Of photos that wait for the encoder no more is kept than goes into the index.
        small = replace(explicand, display=explicand.display.small())
        return replace(loaded, explicand=small, baseline_input=baseline_input, plan=plan, together=together)

    def make(self, group: Sequence[_LoadedItem]) -> Iterator[Entry]:
        """Yield the entries of some inputs, whose anchors are encoded together; an error is that of one input alone."""
        anchors = list(self._encode_together([loaded.together for loaded in group]))
        _return_memory()
        for loaded, encoded in zip(group, anchors, strict=True):
            if loaded.error is None:
                try:
                    yield self._entry(loaded, encoded)
                    continue
                except Exception as error:
                    loaded = loaded.failed(error)
            yield Entry(loaded.item.id, loaded.item.source, loaded.digest, loaded.item.columns, loaded.error)

    def _encode_together(self, parts: Sequence[list[Tensor]]) -> Iterator[Tensor | None]:
        """Yield representations of what each input has to be encoded together; None if that fails, or is not finite."""
        encoded = torch.empty(0, 0)
        try:
            if tensors := [tensor for part in parts for tensor in part]:
                encoded = by_shape(tensors, self._encode)
        except Exception:
            parts = [[]] * len(parts)  # each is encoded alone, so that the one that fails is known
        for own in torch.split(encoded, [len(part) for part in parts]):
            yield own if len(own) and bool(torch.isfinite(own).all()) else None

    def _encode(self, tensors: Sequence[Tensor]) -> Tensor:
        size = self.encoder.batch_size(tensors[0])
        return torch.cat([self.encoder.encode(tensors[start : start + size]) for start in range(0, len(tensors), size)])

    def _entry(self, loaded: _LoadedItem, encoded: Tensor | None) -> Entry:
        explicand, plan, baseline_input = loaded.explicand, loaded.plan, loaded.baseline_input
        assert explicand is not None and plan is not None and baseline_input is not None  # noqa: PT018 (there is no error)
        count = 1 + len(self.removal.versions(explicand, baseline_input))
        anchors = None if encoded is None else encoded[:count]
        masked = MaskedEncoder(self.encoder, explicand, self.removal, baseline_input=baseline_input, anchors=anchors)
        representations = self._representations(masked, plan, None if encoded is None else encoded[count:])
        vectors = torch.cat(feature_vectors(representations, masked.anchors, linear_similarity(self.recipe.similarity)))
        field, labels = (plan.field @ vectors).float(), explicand.label_map
        if labels is not None:
            cells = coarsest_grid(labels)
            if cells.numel() <= 2 * len(field):  # cells of a grid; -1, the last, is what the encoder does not see
                field, labels = torch.cat([field, torch.zeros_like(field[:1])])[cells], None
            else:
                labels = _small(labels)
        return Entry(
            loaded.item.id,
            loaded.item.source,
            loaded.digest,
            loaded.item.columns,
            None,
            masked.anchors[0].float(),
            masked.anchors[1:].float().mean(0),
            field,
            (plan.noise @ vectors).float(),
            explicand.display,
            labels,
        )

    def _representations(self, masked: MaskedEncoder, plan: _FieldPlan, tried: Tensor | None) -> Tensor:
        """Return what the encoder makes of masked inputs.

        The first input of each shape tries the folded encoder on a whole batch, as :class:`MaskedEncoder` does by itself.
        Later ones trust it if it gives the first masked input what the encoder itself gives it, which is ``tried``.
        """
        shape = masked.explicand.tensor.shape
        if tried is None or not len(tried):
            return _encoded(masked, plan)
        if shape not in self._fast:
            representations = _encoded(masked, plan)
            self._fast[shape] = FastEncoder(self.encoder, (), masked.anchors[:0])  # without the examples, which are large
            self._fast[shape].adopt(masked.fast)
            return representations
        masked.fast.adopt(self._fast[shape])
        representations = _encoded(masked, plan)
        if agree(representations[:1].flatten(0, -2), tried):
            return representations
        masked.fast.use_plain()
        return _encoded(masked, plan)


def _small(labels: Tensor) -> Tensor:
    """Return a label map with at most as many places along a side as small pictures have pixels."""
    sides = [torch.arange(min(side, SMALL)) * side // min(side, SMALL) for side in labels.shape]
    return labels[sides[0]][:, sides[1]]


def _encoded(masked: MaskedEncoder, plan: _FieldPlan) -> Tensor:
    return torch.cat(list(masked.encode(plan.masks, 0, plan.method.batch_size)))


def _explicand(encoder: Encoder, value: Any) -> Explicand:
    """Return an input made ready to be explained; the bytes of a file are read as a file is, with the same checks."""
    if not isinstance(value, bytes):
        return encoder.explicand(value)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(value)
        try:
            return encoder.explicand(path)
        except (ValueError, OSError) as error:
            raise ValueError(str(error).replace(str(path), "What the table holds")) from error


# --- going on with an index -----------------------------------------------------------------------------------------------


@dataclass
class _KeptEntries:
    """The entries of an index compared with the inputs that there are now.

    Attributes:
        kept: rows of each shard that stay.
        done: ids that need no entry any more.
        same, changed, unreadable: how many inputs have the content that they had, another one, or cannot be read now.
        gone: how many entries are of inputs that are not there any more.
        numbered: whether all ids are row numbers, which inputs of other data have as well.

    """

    kept: dict[Path, list[int]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    same: int = 0
    changed: int = 0
    unreadable: int = 0
    gone: int = 0
    numbered: bool = True


def _missing_items(
    encoder: Encoder, items: Sequence[Item], folder: Path, manifest: Manifest, retry: bool, drop: bool, progress: bool | None
) -> list[tuple[int, Item]]:
    """Return the inputs that have no entry yet, with their numbers.

    Entries of inputs that have changed or are gone are dropped, most of all entries only if ``drop``; what is known about the
    other inputs is brought up to date. With ``retry`` those that failed are missing, too.
    """
    by_id = {item.id: item for item in items}
    entries = _compare(encoder, by_id, folder, manifest, retry, progress)
    if entries.kept:
        _check_dropped(entries, folder, drop)
    for path, rows in entries.kept.items():
        _bring_up_to_date(path, rows, by_id, manifest)
    return [(number, item) for number, item in enumerate(items) if item.id not in entries.done]


def _compare(
    encoder: Encoder, by_id: Mapping[str, Item], folder: Path, manifest: Manifest, retry: bool, progress: bool | None
) -> _KeptEntries:
    """Compare every entry with its input, by id and digest alone."""
    entries = _KeptEntries()
    paths = shard_files(folder)
    with bar(len(by_id) if paths else 0, "looking for what has changed", progress) as shown:
        for path in paths:
            table, kept = read_shard(path, ["id", "digest", "error"], None, manifest), []
            for row, (name, content, error) in enumerate(zip(*(column.to_pylist() for column in table), strict=True)):
                entries.numbered &= name.isdecimal()
                if name not in by_id:
                    entries.gone += 1
                elif name not in entries.done:
                    now = content_digest(encoder, by_id[name])
                    shown.update()
                    entries.same += now == content
                    entries.unreadable += not now and bool(content)
                    entries.changed += bool(now) and now != content
                    if now in ("", content) and not (retry and error is not None):
                        kept.append(row)
                        entries.done.add(name)
            entries.kept[path] = kept
    return entries


def _check_dropped(entries: _KeptEntries, folder: Path, drop: bool) -> None:
    """Raise if the inputs are other data, or if most entries would be dropped without ``drop``; warn about dropped entries
    and unreadable inputs."""
    known = entries.same + entries.changed + entries.unreadable
    if not known or (entries.numbered and not entries.same and not entries.unreadable):
        raise ValueError(
            f"None of the inputs of the index in {folder} is among these: it is of other data. Write to another folder."
        )
    # Where ids are numbers, another content is that of another input.
    total, dropped = known + entries.gone, entries.gone + (entries.changed if entries.numbered else 0)
    if dropped > _MAX_DROPPED_SHARE * total and not drop:
        raise ValueError(
            f"{dropped} of the {total} inputs of the index in {folder} are not among these, and their entries would be "
            "dropped. If they are gone for good, say drop=True (--drop); else check the data, or write to another folder."
            + (" Ids (id_column=, --id-column) tell inputs apart wherever they stand." if entries.numbered else "")
        )
    if dropped:
        caution("dropped", str(folder), f"{dropped} of {total} entries are dropped: their inputs are gone, or replaced.")
    if entries.unreadable:
        caution(
            "unreadable",
            str(folder),
            f"{entries.unreadable} inputs that have entries cannot be read now; the entries are kept as they are.",
        )


def _bring_up_to_date(path: Path, rows: Sequence[int], by_id: Mapping[str, Item], manifest: Manifest) -> None:
    """Keep the given rows of a shard, with the metadata of today; fields are read only if rows or metadata changed."""
    stored = read_metadata(path)
    whole = len(rows) == len(stored)
    names = stored["id"].take(np.array(rows, int)).to_pylist()
    known = metadata_table([by_id[name] for name in names], manifest.columns)
    if whole and known.equals(stored.drop_columns(["id"])):
        return
    if rows:  # another file, since an index that is open would find other rows in this one
        number = int(path.name.split("-")[0])
        current = with_metadata(read_shard(path).take(np.array(rows, int)), known)
        write_shard(path.with_name(shard_name(number, names)), current, manifest, len(rows))
    if not whole:
        path.unlink()

"""Building an index: every input of a data set explained once, a shard at a time, so that nothing is done twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor

from cocoax.checks import check_count, check_kind
from cocoax.data.labelled import Split
from cocoax.encoders import Encoder, load
from cocoax.encoders.fast_encoder import FastEncoder, can_be_faster
from cocoax.encoders.folding import agree
from cocoax.encoders.forward import by_shape, rounding_of
from cocoax.inputs import Explicand
from cocoax.masking import MaskedEncoder, Masks
from cocoax.masking.registry import resolve
from cocoax.methods.field import default_grid, feature_vectors, pooled
from cocoax.methods.method import check_encoder
from cocoax.methods.removal import RemovalMethod
from cocoax.progress import Bar, bar
from cocoax.seeding import stream
from cocoax.spaces import same_space
from cocoax.store import UnitFolder, as_path, digest
from cocoax.survey.index import Index
from cocoax.survey.items import Item, column_types, open_items, storable, value_digest
from cocoax.survey.storage import (
    Entry,
    IndexRecipe,
    Manifest,
    build_versions,
    index_folder,
    linear_similarity,
    missing_items,
    plain_recipe,
    shard_name,
    store,
    table_of,
)

NOISE = 4  # random sums of the error of a whole map: an error is then known to about 1 / sqrt(2 * 4), 35 %
GROUP = 16  # inputs that are read while the encoder is at work, and whose ends are encoded together; two are in memory
SHARD = 256


class Options(TypedDict, total=False):
    """Options of :func:`build`.

    Attributes:
        labels: one for each input, or a dict of columns; folders and tables bring their own.
        column, id_column: of a table: the inputs, and what tells them apart.
        split: of a data set that has several parts.
        similarity: the one whose questions can be asked: cosine (default) or dot.
        grid: cells that the pixels of pictures are pooled to; by default those of the masks.
        shard: inputs in a file; what is being worked on when the power fails is lost.
        workers: processes of a local Ray; 0 (default) works in this one.
        ray: the address of a running Ray, or "auto"; ``workers`` of it are used, by default all.
        device: where an encoder that is given by name runs, here or in each worker.
        retry: try inputs again that failed.
        drop: let go of entries whose inputs are gone, or others where inputs are numbered, even if those are most of them.
        progress: show how far it is (None: when it takes long).

    """

    labels: Any
    column: str | None
    id_column: str | None
    split: Split
    similarity: str
    grid: int | tuple[int, int] | None
    shard: int
    workers: int
    ray: str | None
    device: str | None
    retry: bool
    drop: bool
    progress: bool | None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Inputs that go into one shard."""

    name: str
    items: Sequence[Item]


def build(
    encoder: Encoder | str, inputs: Any, out: str | Path, method: RemovalMethod | None = None, **options: Unpack[Options]
) -> Index:
    """Explain every input of a data set once, so that questions to all of them can be asked afterwards; return the index.

    What is there already is not done again: a build that was stopped goes on, a file that has changed is done anew, one that
    was added is added, one that is gone is dropped; if those are most, only with ``drop=True``. An input that cannot be
    explained is an entry with its error.

    Args:
        encoder: what explains them, or what :func:`cocoax.load` takes.
        inputs: a folder, a table (Parquet, Arrow, CSV, JSON lines, a data frame), a data set, or any sequence of inputs.
        out: the folder of the index.
        method: what explains an input: a removal method, by default ``Rise(samples=200)``.
        options: see :class:`Options`.

    """
    loaded = load(encoder, device=options.get("device")) if isinstance(encoder, str) else encoder
    check_encoder(loaded)
    if method is not None:
        check_kind("The method", method, RemovalMethod, "must be one that removes parts, such as cocoax.Rise()")
    folder, size = as_path(out), options.get("shard", SHARD)
    check_count("shard", size, 1)
    linear_similarity(options.get("similarity", "cosine"))
    recipe = IndexRecipe(method or IndexRecipe().method, options.get("similarity", "cosine"), options.get("grid"))
    items = open_items(
        inputs,
        loaded.inputs,
        options.get("column"),
        options.get("id_column"),
        options.get("split", "train"),
        options.get("labels"),
    )
    manifest = Manifest(
        encoder if isinstance(encoder, str) else loaded.name,
        loaded.space,
        plain_recipe(recipe, loaded.inputs.view_settings),
        loaded.inputs.noun,
        str(Path(inputs).resolve()) if isinstance(inputs, str | Path) else "",
        column_types(items),
        rounding_of(loaded),
        build_versions(1 if options.get("workers") or options.get("ray") else torch.get_num_threads()),
    )
    place = index_folder(folder)
    _check_folder(place, manifest)  # before anything is written
    with place.lock():
        earlier = _check_folder(place, manifest)
        place.remove_leftovers()
        again = {name: bool(options.get(name, False)) for name in ("retry", "drop")}
        missing = missing_items(loaded, items, folder, manifest, **again, progress=options.get("progress"))
        manifest.after(earlier, bool(missing)).save(folder)
        _make(encoder, _chunks(missing, size), loaded, recipe, manifest, folder / "shards", options)
    index = Index.open(folder)
    index.check_any()
    return index


def _make(
    encoder: Encoder | str,
    chunks: Sequence[Chunk],
    loaded: Encoder,
    recipe: IndexRecipe,
    manifest: Manifest,
    folder: Path,
    options: Options,
) -> None:
    """Make what is missing, here or on Ray."""
    total = sum(len(chunk.items) for chunk in chunks)
    with bar(total, f"indexing with {loaded.name}", options.get("progress")) as shown:
        progress = Progress(shown, total)
        workers, address = options.get("workers", 0), options.get("ray")
        if workers or address:
            from cocoax.survey.ray_workers import made_on_ray

            for name, table in made_on_ray(chunks, (encoder, loaded.device.type, recipe, manifest), workers, address):
                store(folder / name, table, manifest, progress.left)
                progress.count(table["error"].to_pylist())
        else:
            build_here(EntryBuilder(loaded, recipe, manifest.space), chunks, manifest, folder, progress)


def _check_folder(folder: UnitFolder, manifest: Manifest) -> Manifest | None:
    """Return the manifest that is there; raise if the folder holds something else than an index that was made in this way."""
    if not (folder.folder / folder.head).exists():
        if folder.foreign_files() or folder.files():
            raise ValueError(f"{folder.folder} is not empty and no index; choose an empty folder, or a new one.")
        return None
    earlier = Manifest.load(folder.folder)
    earlier.check(manifest)
    return earlier


def _chunks(missing: Sequence[tuple[int, Item]], size: int) -> list[Chunk]:
    parts = [missing[start : start + size] for start in range(0, len(missing), size)]
    return [
        Chunk(shard_name(part[0][0], [item.id for _, item in part]), [item for _, item in part]) for part in parts if part
    ]


class Progress:
    """Tells how many inputs are done, and how many of them failed."""

    def __init__(self, shown: Bar, left: int) -> None:
        self.shown = shown
        self.left = left
        self.failed = 0

    def count(self, errors: Sequence[str | None]) -> None:
        """Count inputs, by what went wrong with each; None is fine."""
        self.shown.update(len(errors))
        self.left -= len(errors)
        self.failed += sum(error is not None for error in errors)
        if self.failed:
            self.shown.set_postfix_str(f"{self.failed} failed")


@contextmanager
def helper() -> Iterator[ThreadPoolExecutor]:
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


def build_here(builder: EntryBuilder, chunks: Sequence[Chunk], manifest: Manifest, folder: Path, progress: Progress) -> None:
    """Make and write shards in this process; files are read and written while the encoder is at work."""
    with helper() as pool:
        writing: Future[Path] | None = None
        for chunk in chunks:
            entries, left = [], progress.left
            for entry in entries_of(builder, chunk.items):
                entries.append(entry)
                progress.count([entry.error])
            if writing is not None:
                writing.result()  # what went wrong is told here
            writing = pool.submit(store, folder / chunk.name, table_of(entries, manifest.columns), manifest, left)
        if writing is not None:
            writing.result()


def entries_of(builder: EntryBuilder, items: Sequence[Item]) -> Iterator[Entry]:
    """Yield the entry of each input; the next ones are read meanwhile."""
    builder.begin()
    groups = [items[start : start + GROUP] for start in range(0, len(items), GROUP)]
    with helper() as pool:
        ahead: deque[Future[list[LoadedItem]]] = deque()
        for group in groups:
            ahead.append(pool.submit(builder.read_all, group))
            if len(ahead) > 1:
                yield from builder.make(ahead.popleft().result())
        while ahead:
            yield from builder.make(ahead.popleft().result())


# --- entries ----------------------------------------------------------------------------------------------------------


def seeded(method: RemovalMethod, name: str) -> RemovalMethod:
    """Return the method with the seed of an input, by its id: each has masks of its own, so that errors average out."""
    if not hasattr(method, "seed"):
        return method
    mixed: Any = {"seed": int(digest(method.seed, name)[:8], 16)}
    return replace(method, **mixed)


@dataclass(frozen=True, eq=False)
class Plan:
    """Masks, and the matrices by which a field comes of the feature vectors of masked inputs and of the two ends.

    All estimates are linear in the scores, so what they do to n masked inputs and two ends is known before there are any.

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
    def draw(cls, method: RemovalMethod, shape: tuple[int, ...], grid: int | tuple[int, int] | None) -> Plan:
        """Return the plan of a method for inputs whose features have this shape, pooled to a grid if they are pixels."""
        masks = method.draw(shape)
        count = len(masks)
        every = torch.eye(count + 2, dtype=torch.float64)
        vectors, ends = every[:count], every[count:]
        grid = (default_grid(method, shape, 1) if grid is None else grid) if len(shape) == 2 else None
        cells = method.cells(masks, grid)
        effects, factors = method.effects_and_scatter(cells, vectors, ends)
        if factors is not None:
            factors = pooled(factors[0], shape, grid).flatten(1), factors[1]
        field = pooled(effects, shape, grid).movedim(0, -1)
        return cls(method, masks, field, _noise(factors, count + 2, getattr(method, "seed", 0)))


def _noise(factors: tuple[Tensor, Tensor] | None, columns: int, seed: int) -> Tensor:
    """Return random sums of the sampling error over samples and cells, ``[4, n + 2]``, from its factors."""
    if factors is None or not len(factors[0]):
        return torch.zeros(0, columns, dtype=torch.float64)
    x, rest = factors
    # Other signs for every input: the errors of neighbouring cells go together, which averages out over inputs alone.
    signs = stream(1, 3, seed)
    over_cells = torch.from_numpy(signs.choice([-1.0, 1.0], (x.shape[1], NOISE)))
    over_samples = torch.from_numpy(signs.choice([-1.0, 1.0], (len(x), NOISE)))
    sums: Tensor = ((x @ over_cells) * over_samples).T @ rest / x.shape[1] ** 0.5
    return sums


@dataclass(frozen=True, eq=False)
class PreparedInput:
    """All that is known about an input before it is encoded.

    Attributes:
        explicand: the input.
        emptied: the same without its features.
        plan: the masks, and what is made of them.
        together: both as they are encoded, together with those of other inputs, and after them one masked input where a
            folded encoder is to be tried on it; nothing where each input goes through an encoder of its own.

    """

    explicand: Explicand
    emptied: Tensor
    plan: Plan
    together: list[Tensor]


@dataclass(frozen=True, eq=False)
class LoadedItem:
    """An input that was read: its digest, and what was prepared of it or what went wrong with it."""

    item: Item
    digest: str
    prepared: PreparedInput | Exception

    def failed(self, error: Exception) -> Entry:
        """Return the entry that says what went wrong."""
        why = storable(f"{type(error).__name__}: {error}")
        return Entry(self.item.id, self.item.source, self.digest, self.item.columns, why)


class EntryBuilder:
    """What makes entries of inputs: an encoder, folded once for all inputs of one shape in a shard, and how."""

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

    def read(self, item: Item) -> LoadedItem:
        """Return an input made ready to be explained."""
        content = ""
        try:
            value = item.load()
            content = value_digest(self.encoder, value)
            return LoadedItem(item, content, self._prepare(item, _explicand(self.encoder, value)))
        except Exception as error:
            return LoadedItem(item, content, error)

    def _prepare(self, item: Item, explicand: Explicand) -> PreparedInput:
        explicand = self.removal.with_features(explicand, self.encoder, getattr(self.recipe.method, "grid", None))
        emptied = self.removal.baseline_input(explicand)
        plan = Plan.draw(seeded(self.recipe.method, item.id), tuple(explicand.shape), self.recipe.grid)
        together: list[Tensor] = []
        if explicand.tensor.is_floating_point() and self.removal.encoder_for(self.encoder, explicand) is self.encoder:
            together = [explicand.tensor, *self.removal.versions(explicand, emptied)]
            if self._folds:
                kept = plan.masks.full(slice(0, 1)).reshape(1, *explicand.shape).float()
                together += list(self.removal.masked(explicand, emptied, kept))
        return PreparedInput(explicand, emptied, plan, together)

    def read_all(self, items: Sequence[Item]) -> list[LoadedItem]:
        """Return inputs made ready to be explained."""
        return [self.read(item) for item in items]

    def make(self, group: Sequence[LoadedItem]) -> Iterator[Entry]:
        """Yield the entries of some inputs, whose ends are encoded together; what goes wrong with one is its entry."""
        encoded = self._encode_together([ready.prepared for ready in group if isinstance(ready.prepared, PreparedInput)])
        for ready in group:
            try:
                if isinstance(ready.prepared, Exception):
                    raise ready.prepared
                yield self._entry(ready, ready.prepared, next(encoded))
            except Exception as error:
                yield ready.failed(error)

    def _encode_together(self, parts: Sequence[PreparedInput]) -> Iterator[Tensor | None]:
        """Yield representations of what each input has to be encoded together; None where that fails, or is not finite."""
        tensors = [tensor for part in parts for tensor in part.together]
        encoded = torch.empty(0, 0)
        try:
            if tensors:
                encoded = by_shape(tensors, self._encode)
        except Exception:
            parts = [replace(part, together=[]) for part in parts]  # one by one, so that what fails is known
        for own in torch.split(encoded, [len(part.together) for part in parts]):
            yield own if len(own) and bool(torch.isfinite(own).all()) else None

    def _encode(self, tensors: Sequence[Tensor]) -> Tensor:
        size = self.encoder.batch_size(tensors[0])
        return torch.cat([self.encoder.encode(tensors[start : start + size]) for start in range(0, len(tensors), size)])

    def _entry(self, ready: LoadedItem, part: PreparedInput, encoded: Tensor | None) -> Entry:
        plan = part.plan
        versions = len(self.removal.versions(part.explicand, part.emptied))
        ends = None if encoded is None else encoded[: 1 + versions]
        game = MaskedEncoder(self.encoder, part.explicand, self.removal, baseline_input=part.emptied, anchors=ends)
        representations = self._representations(game, plan, None if encoded is None else encoded[1 + versions :])
        vectors = torch.cat(feature_vectors(representations, game.anchors, linear_similarity(self.recipe.similarity)))
        field, cells = (plan.field @ vectors).float(), part.explicand.cells
        if cells is not None:  # -1, the last, is what the encoder does not see
            field = torch.cat([field, torch.zeros_like(field[:1])])[cells]
        return Entry(
            ready.item.id,
            ready.item.source,
            ready.digest,
            ready.item.columns,
            None,
            game.anchors[0].float(),
            game.anchors[1:].float().mean(0),
            field,
            (plan.noise @ vectors).float(),
            part.explicand.display.small(),
        )

    def _representations(self, game: MaskedEncoder, plan: Plan, tried: Tensor | None) -> Tensor:
        """Return what the encoder makes of masked inputs.

        The first input of each shape tries the folded encoder on a whole batch, as any game does. Later ones trust it if
        it gives the first masked input what the encoder itself gives it, which is ``tried``.
        """
        shape = game.explicand.tensor.shape
        if tried is None or not len(tried):
            return _encoded(game, plan)
        if shape not in self._fast:
            representations = _encoded(game, plan)
            self._fast[shape] = game.fast
            return representations
        game.fast.adopt(self._fast[shape])
        representations = _encoded(game, plan)
        if agree(representations[:1].flatten(0, -2), tried):
            return representations
        game.fast.use_plain()
        return _encoded(game, plan)


def _encoded(game: MaskedEncoder, plan: Plan) -> Tensor:
    return torch.cat(list(game.encode(plan.masks, 0, plan.method.batch_size)))


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

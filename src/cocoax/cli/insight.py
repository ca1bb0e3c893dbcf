"""``cocoax minimal``, ``counterfactual``, ``examples``, ``knows``, ``discover`` and ``compare-methods``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cocoax
from cocoax.cli.options import (
    DISPLAYS_FOR_NOTE,
    METHODS,
    AsJson,
    Baseline,
    Column,
    Device,
    EncoderOptions,
    EncoderOrDefault,
    FeaturesOption,
    GridOrFitted,
    InputArgument,
    Output,
    Samples,
    Seed,
    Sides,
    ask_option,
    check_pictures,
    configured,
    features_named,
    how_option,
    in_folders,
    load_for,
    method_with,
    note_crop,
    open_sides,
    out_option,
    target_of,
)
from cocoax.cli.terminal import draw_into_files, note, print_plain, print_table, show_result

if TYPE_CHECKING:
    from cocoax.insight import Discovery

_COMPARED = ("rise", "kernel-shap", "occlusion", "integrated-gradients")  # methods that are compared if none are named

# --- minimal --------------------------------------------------------------------------------------------------------------


def find_minimal(
    given: InputArgument,
    sides: Sides,
    how: EncoderOptions,
    output: Output,
    keep: Annotated[float, ask_option("Share of the score to keep, from that of nothing on.")] = 0.8,
    level: Annotated[float | None, ask_option("The score itself to keep, in place of --keep.")] = None,
    samples: Samples = 400,
    features: FeaturesOption = None,
) -> None:
    """What is the least of an input that keeps its score? And the least without which it falls?

    Examples:
        cocoax minimal photo.jpg --like "a cat" --unlike "a dog" --out least
        cocoax minimal "The violinist parked" --like music --unlike traffic
        cocoax minimal photo.jpg --like "a cat" --features segments

    """
    from cocoax.inputs.open import open_input

    draw_into_files()
    output.check(given, *sides.names)
    item, opened = open_input(given), sides.open()
    loaded = how.load([item])
    run = cocoax.KernelShap(samples=samples, seed=how.seed).run(loaded, item, features=features_named(features))
    output.show(cocoax.minimal(run, target_of(loaded, *opened), keep, level=level, encoder=loaded))


# --- counterfactual -------------------------------------------------------------------------------------------------------


def find_counterfactual(
    given: InputArgument,
    sides: Sides,
    how: EncoderOptions,
    output: Output,
    distractor: Annotated[
        list[str] | None, ask_option("An input, or a folder of them, that gives parts; by default those of --unlike.")
    ] = None,
    count: Annotated[int, ask_option("How many different ones.", min=1)] = 1,
    fixed: Annotated[list[str] | None, ask_option("A word that stays; repeatable.")] = None,
    gradient: Annotated[bool, how_option("Change all pixels smoothly instead of parts.", "--gradient")] = False,
    smoothness: Annotated[float, how_option("Of --gradient, in pixels.", min=0)] = 4.0,
    grid: GridOrFitted = None,
    features: FeaturesOption = None,
) -> None:
    """What is the smallest change of an input that makes it more like the other side?

    Examples:
        cocoax counterfactual cat.jpg --like "a cat" --unlike dogs/ --out flipped
        cocoax counterfactual "A violin" --like music --unlike cars --count 2
        cocoax counterfactual cat.jpg --like "a cat" --unlike dogs/ --gradient

    """
    from cocoax.inputs.open import open_input
    from cocoax.inputs.segmentation import in_proportion
    from cocoax.insight import gradient_counterfactual
    from cocoax.insight.counterfactuals import exchange_type

    draw_into_files()
    output.check(given, *sides.names)
    item, (likes, unlikes), (distractors,) = open_input(given), sides.open(), open_sides(distractor)
    distractors = distractors or [each for each in unlikes if isinstance(each, str) == isinstance(item, str)]
    loaded = how.load([item])
    target = target_of(loaded, likes, unlikes)
    if gradient:
        output.show(gradient_counterfactual(loaded, item, target, smoothness=smoothness))
        return
    if not distractors and not isinstance(item, str):
        raise ValueError("Which pictures give parts? Pass --distractor with a file or a folder, or --unlike with one.")
    explicand = loaded.explicand(item, features_named(features))
    giving: list[Any] = in_folders(loaded, distractors)
    options: dict[str, Any] = {"fixed": fixed} if fixed else {}
    if "grid" in exchange_type(loaded.inputs).options:
        options["grid"] = in_proportion(7, *explicand.tensor.shape[1:]) if grid is None else grid
        giving = _cut_alike(loaded, giving, Path(item), explicand)
    output.show(cocoax.counterfactual(loaded, explicand, target, giving, count=count, seed=how.seed, **options))


def _cut_alike(
    encoder: cocoax.Encoder, distractors: Sequence[str | Path], photo: Path, explicand: cocoax.Explicand
) -> list[cocoax.Explicand]:
    """Return distractors whose cells have the size of the photo's: of those with other proportions, as much of the centre."""
    from PIL import ImageOps

    from cocoax.inputs.image import open_image

    size = open_image(photo).size
    made = [encoder.explicand(distractor) for distractor in distractors]
    others = [number for number, distractor in enumerate(made) if distractor.tensor.shape != explicand.tensor.shape]
    for number in others:
        made[number] = encoder.explicand(ImageOps.fit(open_image(distractors[number]), size))
    if others:
        note("Of distractors with other proportions than the photo's, the centre gives parts.")
    return made


# --- examples -------------------------------------------------------------------------------------------------------------

_ABOUT_TRAINING = ("tracin", "influence")  # methods about examples of the training, and so about what was seen in it


def rank_examples(
    given: InputArgument,
    member: Annotated[list[str], ask_option("A member of the corpus: a text, file or folder; may be repeated.")],
    how: EncoderOptions,
    output: Output,
    method: Annotated[str, how_option("contribution, simplex, neighbours, tracin or influence.")] = "contribution",
    checkpoint: Annotated[list[Path] | None, how_option("Of tracin: weights from the training; may be repeated.")] = None,
    layer: Annotated[list[str] | None, how_option("Of tracin and influence: a layer to look at; may be repeated.")] = None,
) -> None:
    """Which members of a corpus matter to an input, and to each part of its map?

    Examples:
        cocoax examples photo.jpg --member cats/ --out ranked
        cocoax examples "a flat tyre" --member "Patch it." --member "A tap."
        cocoax examples photo.jpg --member cats/ --method tracin --checkpoint a.pt

    """
    from cocoax.inputs.open import open_input

    draw_into_files()
    output.check(given, *member)
    item, (named,) = open_input(given), open_sides(member)
    if how.baseline is not None and method != "contribution":
        raise ValueError(f"--baseline is about the parts that 'contribution' removes, and {method!r} has none; leave it out.")
    training = method in _ABOUT_TRAINING
    loaded = load_for([item], how.encoder, how.device).cropped() if training else how.load([item])
    members = in_folders(loaded, named)
    options: dict[str, Any] = {"checkpoints": checkpoint or []} if method == "tracin" else {}
    options |= {"layers": layer} if layer else {}
    explicand = loaded.explicand(item)
    output.show(cocoax.examples(loaded, explicand, members, method, **options))
    if training and not how.crop:
        note_crop([explicand.display])


# --- knows ----------------------------------------------------------------------------------------------------------------

_VECTORS = (".npy", ".parquet", ".arrow")


def measure_separability(
    corpus: Annotated[
        str, typer.Argument(help="A folder of pictures, a file of texts (one a line) or of embeddings, or a caption.")
    ],
    foil: Annotated[str, typer.Argument(help="What it should be separated from, in the same ways.")],
    shown: Annotated[str | None, ask_option("Test captions with these: inputs that show the corpus.")] = None,
    others: Annotated[str | None, ask_option("Inputs that do not; without, --shown meets random captions.")] = None,
    encoder: EncoderOrDefault = None,
    permutations: Annotated[int, how_option("Random corpora for the p-value.", min=39)] = 999,
    seed: Seed = 0,
    device: Device = None,
    *,
    output: Output,
) -> None:
    """Test whether the encoder separates a corpus from a foil: if not, a map of the difference shows noise.

    Examples:
        cocoax knows cats/ dogs/
        cocoax knows questions.txt answers.txt --encoder minilm --out knows.html
        cocoax knows "a cat" "a dog" --shown cats/ --others dogs/
        cocoax knows "a cat" "a thing" --shown photos/

    """
    draw_into_files()
    sides = {name: _open_side(name) for name in (corpus, foil, shown, others) if name is not None}
    if shown is None:
        _check_sides(corpus, foil, sides)
    inputs = [item for side in sides.values() if not isinstance(side, Path) for item in side]
    loaded = load_for(inputs, encoder, device) if inputs else None
    references = {name: _reference_of(name, side, loaded) for name, side in sides.items()}
    knowledge = cocoax.knows(
        references[corpus],
        references[foil],
        shown=None if shown is None else references[shown],
        others=None if others is None else references[others],
        captions=_random_captions(corpus, loaded) if shown is not None and others is None else None,
        permutations=permutations,
        seed=seed,
    )

    def write() -> None:
        if loaded is not None:
            pictures = [
                [item for item in side if isinstance(item, Path)] for side in sides.values() if isinstance(side, list)
            ]
            note_crop(loaded.cropped().explicand(item).display for side in pictures for item in side[:DISPLAYS_FOR_NOTE])
        print_plain(f"{knowledge.summary} p = {knowledge.p_value:.2g}")
        if knowledge.remarks:
            print_plain(" ".join(knowledge.remarks))
            print_table(("members", "AUC"), [[str(of.size), f"{of.auc:.2f} ± {of.deviation:.2f}"] for of in knowledge.sizes])

    output.show(knowledge, write)


def _open_side(name: str) -> Path | list[str | Path]:
    """Return the inputs that a side names, or the path of a file of embeddings."""
    from cocoax.inputs.open import open_inputs

    path = Path(name)
    if path.suffix in _VECTORS and os.path.isfile(name):
        return path
    if path.suffix and " " not in name and not os.path.exists(name) and "*" not in name:
        raise FileNotFoundError(
            f"{name} is no folder of pictures, no .txt file of texts and no file of embeddings ({', '.join(_VECTORS)}); "
            "check the path."
        )
    return open_inputs(name)


def _reference_of(name: str, side: Path | list[str | Path], encoder: cocoax.Encoder | None) -> cocoax.Reference:
    """Return a side as a reference: embeddings, texts by the text tower, or pictures."""
    if isinstance(side, Path):
        return cocoax.Reference.from_vectors(side, name=side.stem, keep_samples=True)
    assert encoder is not None
    path = Path(name)
    called = (path.name if path.is_dir() else path.stem) if os.path.exists(name) else name
    tower = encoder.text if all(isinstance(item, str) for item in side) else encoder
    return tower.reference(side, name=called, keep_samples=True)


def _check_sides(corpus: str, foil: str, sides: dict[str, Path | list[str | Path]]) -> None:
    """Raise if a side is a caption, a single sample with which nothing can be tested; or if one is texts, one pictures."""
    for name in (corpus, foil):
        if sides[name] == [name] and not os.path.exists(name):
            raise ValueError(
                f"{name!r} is no file or folder, so it is a caption, and captions are tested with inputs; give those that "
                "show the corpus by --shown, and those that do not by --others."
            )
    types = [{isinstance(item, str) for item in side} for side in sides.values() if isinstance(side, list)]
    if len(types) == 2 and types[0] != types[1]:
        raise ValueError(
            f"Of {corpus} and {foil} one holds texts and one pictures, which an encoder tells apart whatever they are about; "
            "compare texts with texts, or test captions with pictures by --shown and --others."
        )


def _random_captions(corpus: str, encoder: cocoax.Encoder | None) -> cocoax.Reference:
    """Return captions of things that are not the corpus; raise if there is no encoder for them."""
    if encoder is None:
        raise ValueError(
            "Random captions are encoded by the text tower of an encoder, and all sides are vectors; give --others, "
            "what the corpus is told from."
        )
    from cocoax.data import caption, cifar100

    return encoder.text.reference([caption(name, "a {}") for name in cifar100([corpus])], keep_samples=True)


# --- discover -------------------------------------------------------------------------------------------------------------


def discover_corpora(
    data: Annotated[
        Path,
        typer.Argument(
            help="A folder of inputs, a data set, a table with --column, a .txt file with a text a line, or an index."
        ),
    ],
    corpora: Annotated[int, ask_option("How many to find.", min=2)] = 10,
    method: Annotated[str, ask_option("kmeans or hdbscan (whole inputs), fields or crops (their parts).")] = "kmeans",
    check: Annotated[list[str] | None, ask_option("A word to check the corpora against; may be repeated.")] = None,
    label: Annotated[str | None, ask_option("A class of the head: how much each corpus matters to it.", "--class")] = None,
    column: Column = None,
    words: Annotated[Path | None, how_option("A file of words to name corpora with, one a line.")] = None,
    limit: Annotated[int, how_option("Inputs to look at; of more, so many are drawn.")] = 2000,
    encoder: EncoderOrDefault = None,
    baseline: Baseline = None,
    seed: Seed = 0,
    device: Device = None,
    out: Annotated[Path, out_option("Folder for the page, the picture and a reference each.")] = Path("discovery"),
    as_json: AsJson = False,
) -> None:
    """Find corpora in a data set: what the encoder itself puts together, with names, typical members and their maps.

    Examples:
        cocoax discover photos/
        cocoax discover photos/ --method fields --corpora 6 --out parts/
        cocoax discover reviews.csv --column text --encoder minilm
        cocoax discover photos-index/ --check "a dog"

    """
    from cocoax.cli.survey import is_index
    from cocoax.inputs.open import read_lines

    draw_into_files()
    loaded: cocoax.Encoder | None = None
    if is_index(data):
        from cocoax.survey import Index

        for option, value in (("encoder", encoder), ("baseline", baseline), ("column", column)):
            if value is not None:
                raise ValueError(f"--{option} was settled when the index was made; leave it out.")
        inputs: Any = Index.open(data)
        labels = [str(value) for value in inputs.columns.get("label", ())]
    else:
        inputs, labels = _open_labelled(data, column, limit, seed)
        check_pictures(inputs[:1], False, baseline)
        loaded = configured(load_for(inputs[:1], encoder, device), crop=True, baseline=baseline, seed=seed)
    vocabulary = None if words is None else read_lines(words)
    discovery = cocoax.discover(loaded, inputs, corpora, method, vocabulary=vocabulary, seed=seed)  # type: ignore[arg-type]
    discovery = replace(
        discovery,
        checked={word: discovery.check(word) for word in check or ()},
        importances=() if label is None else tuple(discovery.importance(label)),
    )

    def write() -> None:
        if loaded is not None:
            note_crop(loaded.cropped().explicand(item).display for item in inputs[:DISPLAYS_FOR_NOTE])
        _print_discovery(discovery, labels)

    show_result(discovery, out, as_json, write=write)


def _open_labelled(
    data: Path, column: str | None, limit: int, seed: int, labelled: bool = True
) -> tuple[list[Any], list[str]]:
    """Return at most ``limit`` inputs, drawn from all, and the label of each where a folder of pictures has classes.

    Unless ``labelled``, a folder of pictures needs no classes, and may be small.
    """
    from cocoax.data import open_data
    from cocoax.data.readers import has_layout
    from cocoax.inputs.image import SUFFIXES
    from cocoax.inputs.open import open_inputs
    from cocoax.seeding import stream
    from cocoax.store import files_below

    labels: list[str] = []
    if not data.exists() and "*" not in data.name:
        raise FileNotFoundError(f"No file or folder at {data}; check the path.")
    pictures = data.is_dir() and bool(files_below(data, SUFFIXES))
    if data.is_dir() and (has_layout(data) or (labelled and (pictures or not files_below(data, (".txt", ".md", ".rst"))))):
        parts = [open_data(data, "train"), open_data(data, "test")]  # one without splits is divided, and all of it is wanted
        items = [image for part in parts for image in part.images]
        labels = [part.classes[int(label)] for part in parts for label in part.labels]
    else:
        items = list(open_inputs(data, column, "image" if pictures else None))
    if len(items) > limit:
        chosen = sorted(stream(seed).choice(len(items), limit, replace=False).tolist())
        items, labels = [items[row] for row in chosen], [labels[row] for row in chosen] if labels else []
    return items, labels


def _print_discovery(discovery: Discovery, labels: list[str]) -> None:
    """Print the corpora that were found, beside labels if there are any."""
    from cocoax.insight.discovery import PARTS

    print_plain(str(discovery))
    known = discovery.beside(labels) if len(set(labels)) > 1 else {}
    header = ("corpus", "inputs", "stability", "typical", *(["most frequent label"] if known else []))
    rows = []
    for found in discovery:
        typical = ", ".join(discovery.collection.label(number) for number in found.members[:2].tolist())
        row = [f"{found.number}. {found.name}", str(len(found.members)), found.how_stable, typical]
        rows.append([*row, *([f"{known[found.number][0]} ({known[found.number][1]})"] if found.number in known else [])])
    print_table(header, [row + [""] * (len(header) - len(row)) for row in rows])
    if known and discovery.method not in PARTS:
        print_plain(f"purity beside the labels: {discovery.purity(labels):.2f}")
    for table in discovery.asked():
        print_table(table.columns, table.rows)


# --- compare-methods ------------------------------------------------------------------------------------------------------


def compare_methods(
    data: Annotated[str, typer.Argument(help="Inputs: a folder, a file, a table with --column, a text a line.")],
    sides: Sides,
    how: EncoderOptions,
    output: Output,
    method: Annotated[
        list[str] | None,
        how_option(f"One of {', '.join(METHODS)}, or module:Class; may be repeated. If not given: {', '.join(_COMPARED)}."),
    ] = None,
    column: Column = None,
    limit: Annotated[int, how_option("Inputs to compare on; of more, so many are drawn.")] = 50,
    samples: Samples = 500,
    steps: Annotated[int, how_option("Steps of insertion and deletion curves.", min=1)] = 20,
    randomise: Annotated[bool, how_option("Compare with maps of an encoder with random parameters.", "--randomise")] = False,
    features: FeaturesOption = None,
) -> None:
    """Which attribution method should be believed on these inputs? By curves, infidelity, agreement and time.

    Examples:
        cocoax compare-methods photos/ --like "a cat" --unlike "a dog"
        cocoax compare-methods photos/ --like "a cat" --method rise --method occlusion
        cocoax compare-methods reviews.txt --like "good service" --out methods

    """
    draw_into_files()
    output.check(data, *sides.names)
    options = {"samples": samples, "seed": how.seed}
    methods = {name: method_with(name, options, strict=False) for name in method or _COMPARED}
    items, _ = _open_labelled(Path(data), column, limit, how.seed, labelled=False)
    loaded = how.load(items)
    loaded = loaded if features is None else loaded.by(features_named(features))
    target = target_of(loaded, *sides.open())
    found = cocoax.compare_methods(loaded, items, target, methods, steps=steps, randomise=randomise, seed=how.seed)

    def write() -> None:
        print_plain(str(found))
        table = found.measures_table()
        columns = zip(table.columns, *table.rows, strict=True)  # a measure in each line: methods are few
        print_table(next(columns), list(columns))
        print_plain(table.note)

    output.show(found, write)

"""Options that several commands take, alone and in groups, and the encoder, method and target that they stand for."""

from __future__ import annotations

import copy
import difflib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cocoax
from cocoax.cli.terminal import note, show_result

if TYPE_CHECKING:
    from cocoax.inputs import Display
    from cocoax.results import Result
    from cocoax.targets import Target

# Panels of options in the help.
_ASKED = "What is asked"
_HOW = "How it is explained"
_OUTPUT = "What comes out"

METHODS = {  # the classes are those of cocoax.methods
    "rise": "Rise",
    "kernel-shap": "KernelShap",
    "occlusion": "Occlusion",
    "vanilla-gradients": "VanillaGradients",
    "smoothgrad": "SmoothGrad",
    "integrated-gradients": "IntegratedGradients",
    "gradient-shap": "GradientShap",
}
RESULTS = (".html", ".json", ".png", ".pdf", ".svg", ".csv")  # files that --out may name


def _check_tolerance(tolerance: float | None) -> float | None:
    """Return a tolerance; raise if it was meant in per cent."""
    if tolerance is not None and tolerance > 1:
        raise ValueError(f"--tolerance is a fraction of at most 1: 0.1 is 10 %. Got {tolerance:g} instead.")
    return tolerance


def ask_option(text: str, *names: str, **settings: Any) -> Any:
    """Return an option that says what is asked, with its line of help."""
    return typer.Option(*names, help=text, rich_help_panel=_ASKED, **settings)


def how_option(text: str, *names: str, **settings: Any) -> Any:
    """Return an option that says how it is explained."""
    return typer.Option(*names, help=text, rich_help_panel=_HOW, **settings)


def out_option(text: str, *names: str, **settings: Any) -> Any:
    """Return an option that says what comes out."""
    return typer.Option(*names, help=text, rich_help_panel=_OUTPUT, **settings)


# --- inputs, and what they should be like ---------------------------------------------------------------------------------

InputArgument = Annotated[str, typer.Argument(help="A text, or the file of a picture or a sound; - reads a text.")]
RatherThan = Annotated[list[str] | None, ask_option("What it should match less: a text or a file; may be repeated.")]
Column = Annotated[str | None, ask_option("Of a table: the column that holds texts, or the paths of files.")]
# --- how it is explained --------------------------------------------------------------------------------------------------

EncoderName = Annotated[str, how_option("What 'cocoax encoders' lists, such as clip:NAME_OR_FOLDER.", "--encoder")]
EncoderOrDefault = Annotated[
    str | None,
    how_option(
        "What 'cocoax encoders' lists; by default minilm for texts, starter for pictures, resemblyzer for sounds.",
        "--encoder",
    ),
]
Device = Annotated[
    str | None,
    how_option("Where the network runs: cpu, cuda, cuda:1, mps or auto; if not given, what COCOAX_DEVICE says, or cpu."),
]
Crop = Annotated[
    bool, how_option("Look at the square that the encoder's preprocessing cuts out of a photo, not at all of it.", "--crop")
]
Baseline = Annotated[
    str | None,
    how_option(
        "What removed parts become: strong-blur (if not given), blur, mean-colour, strong-blur-and-mean-colour; a "
        "picture, or a folder of some to draw from; drop-tokens leaves patches out of a vision transformer."
    ),
]
MethodName = Annotated[str, how_option(f"One of {', '.join(METHODS)}, or module:Class.", "--method")]
Samples = Annotated[int, how_option("Masked copies of each input to encode.", min=10)]
SamplesOrAuto = Annotated[
    int | None,
    how_option(
        "Masked copies of each input to encode; if not given, as many as the length of a text asks for.", "--samples", min=10
    ),
]
_TEXT_FEATURES = "words, tokens, sentences or paragraphs"
_BY_LENGTH = f"{_TEXT_FEATURES}; if not given words, and of long texts sentences and the words of those that matter"
TextFeatures = Annotated[str | None, how_option(f"Of texts: {_BY_LENGTH}.", "--features")]
_PICTURE_FEATURES = (
    "segments (if not given) or a number of them as segments:20; a grid of smooth cells as 7 or 5x8; a label map, or a "
    "folder of masks"
)
PictureFeatures = Annotated[str | None, how_option(f"What is removed together: {_PICTURE_FEATURES}.", "--features")]
FeaturesOption = Annotated[
    str | None,
    how_option(f"What is removed together. Of a picture {_PICTURE_FEATURES}; of a text {_TEXT_FEATURES}.", "--features"),
]
MatchFeatures = Annotated[
    str | None,
    how_option(f"What is removed together. Of a text {_BY_LENGTH}. Of a picture {_PICTURE_FEATURES}.", "--features"),
]
SamplesOrTolerance = Annotated[
    int | None, how_option("Masked copies to encode; by default as many as it takes, up to 1000.", "--samples")
]
Tolerance = Annotated[
    float | None, how_option("Stop when the maps' relative error is below this; 0.1 if not given.", callback=_check_tolerance)
]
Grid = Annotated[int, how_option("Cells of a mask in each direction.")]
GridOrFitted = Annotated[
    int | None,
    how_option("Cells of a picture in each direction; if not given, about 49 in its proportions.", "--grid", min=1),
]
Seed = Annotated[int, how_option("Seed of everything random.", min=0)]
SeedOrNone = Annotated[int | None, how_option("Seed of everything random.", "--seed", min=0)]
SimilarityName = Annotated[str, how_option("cosine, dot, rbf, laplacian or polynomial.", "--similarity")]

# --- what comes out -------------------------------------------------------------------------------------------------------

AsJson = Annotated[bool, out_option("Print JSON and nothing else.", "--json")]
Out = Annotated[
    Path | None, out_option("Folder for a page, a picture and JSON; or one file: .html, .json, .csv, .png, .pdf, .svg.")
]

# --- groups of options ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sides:
    """The two sides of a question: --like and --unlike."""

    like: Annotated[list[str], ask_option("What it is like: a text, a file or a folder; may be repeated.")]
    unlike: Annotated[list[str] | None, ask_option("Rather than what: a text, file or folder; may be repeated.")] = None

    @property
    def names(self) -> list[str]:
        """The texts, files and folders of both sides."""
        return [*self.like, *(self.unlike or [])]

    def open(self) -> list[list[str | Path]]:
        """Return both sides as texts, files and folders."""
        return open_sides(self.like, self.unlike)


@dataclass(frozen=True)
class QuestionOptions:
    """Questions about pictures, in words and with pictures."""

    like: Annotated[list[str] | None, ask_option("A caption the picture should be like; may be repeated.")] = None
    like_image: Annotated[list[Path] | None, ask_option("A picture or folder it should be like.")] = None
    unlike: Annotated[list[str] | None, ask_option("A caption it should not be like; may be repeated.")] = None
    unlike_image: Annotated[list[Path] | None, ask_option("A picture or folder it should not be like.")] = None
    unlike_many: Annotated[str | None, ask_option("Many captions at once: cifar100, or a file of names.")] = None
    template: Annotated[str, ask_option("Makes captions of the names of --unlike-many.")] = "a {}"
    question: Annotated[
        list[str] | None, ask_option("One more question: 'a cat / a kitten rather than a dog', or 'itself'.")
    ] = None
    each: Annotated[bool, ask_option("Ask about each --like by itself, against the others too.", "--each")] = False

    def questions(self, similarity: str = "cosine") -> list[cocoax.Question]:
        """Return what --like and --unlike ask by captions and pictures, then what --question writes out."""
        like = cocoax.Side(self.like or (), self.like_image or ())
        foil = _captions_of(self.unlike_many, self.template, like.captions) if self.unlike_many else []
        unlike = cocoax.Side([*(self.unlike or ()), *foil], self.unlike_image or ())
        written = [cocoax.Question.parse(text, similarity) for text in self.question or ()]
        _check_captions([like, unlike, *(side for question in written for side in (question.like, question.unlike))])
        if self.each:
            return [*_one_by_one(like, unlike, similarity), *written]
        if like or unlike or not written:
            return [cocoax.Question(like, unlike, similarity=similarity), *written]
        return written


@dataclass(frozen=True)
class EncoderOptions:
    """The encoder, its view of photos, and what takes the place of removed parts."""

    encoder: EncoderOrDefault = None
    device: Device = None
    crop: Crop = False
    baseline: Baseline = None
    seed: Seed = 0

    def load(self, inputs: Sequence[object]) -> cocoax.Encoder:
        """Load the encoder for inputs, :func:`configured`; raise if options are about pictures and there are none."""
        check_pictures(inputs, self.crop, self.baseline)
        return configured(load_for(inputs, self.encoder, self.device), self.crop, self.baseline, self.seed)


@dataclass(frozen=True)
class Output:
    """How a result is printed, and where it is written."""

    as_json: AsJson = False
    out: Out = None

    def check(self, *inputs: str) -> None:
        """Raise, before anything is encoded, if the result cannot be written as --out says, or would replace an input."""
        check_out(self.out, *inputs)

    def show(self, result: Result, write: Callable[[], None] | None = None) -> None:
        """Write a result and print it; see :func:`cocoax.cli.terminal.show_result`."""
        show_result(result, self.out, self.as_json, write=write)


@dataclass(frozen=True)
class _FigureOptions:
    """How figures look; every command that has --out takes these too."""

    style: Annotated[str | None, out_option("Of figures: screen, paper (smaller letters, 300 dpi) or dark.")] = None
    width: Annotated[str | None, out_option("Of figures: single or double (a column or two of a paper), or inches.")] = None
    dpi: Annotated[float | None, out_option("Dots per inch of figures.")] = None

    def chosen(self) -> dict[str, Any]:
        """Return the options that were given, as :class:`cocoax.show.PlotOptions` has them."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        with suppress(ValueError, KeyError):
            given["width"] = float(given["width"])
        return given


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of its groups in their place; with :class:`_FigureOptions` if it has --out."""
    parameters: list[Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in signature(command, eval_str=True).parameters.items():
        kind: Any = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind
            parameters += signature(kind, eval_str=True).parameters.values()
        else:
            parameters.append(parameter)
    draws = any(parameter.name == "out" for parameter in parameters)
    parameters += signature(_FigureOptions, eval_str=True).parameters.values() if draws else ()

    @functools.wraps(command)
    def called(**options: Any) -> None:
        def taken(kind: Any) -> Any:
            return kind(**{name: options.pop(name) for name in signature(kind).parameters if name in options})

        figures = taken(_FigureOptions).chosen() if draws else {}
        made = {name: taken(kind) for name, kind in groups.items()}
        if not figures:  # and nothing to draw with is imported
            command(**options, **made)
            return
        from cocoax.show.options import default_options

        with default_options(**figures):
            command(**options, **made)

    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


# --- what options mean ----------------------------------------------------------------------------------------------------


def features_named(text: str | None) -> Any:
    """Return the features that --features names: a number of segments (segments:20), a grid (7, 5x8), a name or a path."""
    from cocoax.inputs import Segments

    if text is None:
        return None
    kind, _, count = text.partition(":")
    if kind == "segments" and count.isdecimal():
        return Segments(int(count))
    sides = text.split("x")
    if all(side.isdecimal() for side in sides) and len(sides) in (1, 2):
        return int(text) if len(sides) == 1 else tuple(map(int, sides))
    return text


def check_out(out: Path | None, *names: str, endings: Sequence[str] = RESULTS) -> None:
    """Raise, before anything is encoded, if results cannot be written as --out says, or would replace an input."""
    from cocoax.store import check_ending

    if out is None:
        return
    check_ending(out, endings)
    if any(os.path.isfile(name) and out.exists() and os.path.samefile(out, name) for name in names):
        raise ValueError(f"--out {out} is an input, which the result would replace; name another file, or a folder.")


# --- encoders -------------------------------------------------------------------------------------------------------------

_DEFAULT_ENCODERS = {"text": "minilm", "picture": "starter", "sound": "resemblyzer"}
DISPLAYS_FOR_NOTE = 20  # pictures of many, to see whether anything is cut off
_ROUNDING = 0.02  # of a side


def load_for(inputs: Iterable[object], name: str | None, device: str | None) -> cocoax.Encoder:
    """Load an encoder by name; by default MiniLM for texts alone, Resemblyzer for sounds alone, and else the starter."""
    kinds = {"text" if isinstance(item, str) else "sound" if _is_sound(item) else "picture" for item in inputs}
    if name is None and len(kinds) > 1 and "sound" in kinds:
        raise ValueError(
            f"A sound and a {min(kinds - {'sound'})} are compared by an encoder that takes both; name one by --encoder."
        )
    return cocoax.load(name or (_DEFAULT_ENCODERS[kinds.pop()] if len(kinds) == 1 else "starter"), device=device)


def configured(encoder: cocoax.Encoder, crop: bool = False, baseline: str | None = None, seed: int = 0) -> cocoax.Encoder:
    """Return the encoder that explains all of a photo, unless ``crop``, and replaces removed parts by ``baseline``."""
    from cocoax.masking.removals import preset

    other = copy.copy(encoder.cropped() if crop else encoder)
    if baseline is not None:
        other.inputs = other.inputs.with_baseline(preset(baseline, other.inputs, seed))
    return other


def check_pictures(inputs: Sequence[object], crop: bool, baseline: str | None) -> None:
    """Raise if an option about pictures was given, and all inputs are texts or sounds."""
    given = [option for option, value in (("--crop", crop), ("--baseline", baseline)) if value]
    if given and all(isinstance(item, str) or _is_sound(item) for item in inputs):
        raise ValueError(f"{given[0]} is about pictures, and none is explained here; leave it out.")


def note_crop(displays: Iterable[Display | None]) -> None:
    """Say that the encoder looks at the square in the centre of photos, if there is more of any of these."""
    for display in displays:
        left, top, right, bottom = getattr(display, "box", (0.0, 0.0, 1.0, 1.0))
        if abs((right - left) - (bottom - top)) > _ROUNDING:
            note("Of each photo, the square in the centre is looked at; what lies beside it is not seen.")
            return


def _is_sound(item: object) -> bool:
    from cocoax.inputs.sound import SUFFIXES

    return isinstance(item, Path) and item.suffix.lower() in SUFFIXES


# --- targets --------------------------------------------------------------------------------------------------------------


def open_sides(*names: Sequence[str] | None) -> list[list[str | Path]]:
    """Return the inputs that --like, --unlike or --member name: texts, files and folders."""
    from cocoax.inputs.open import open_input

    return [[Path(name) if os.path.isdir(name) else open_input(name) for name in side or ()] for side in names]


def target_of(encoder: cocoax.Encoder, like: Sequence[str | Path], unlike: Sequence[str | Path]) -> Target:
    """Return the target that two sides ask for."""
    sides = [
        cocoax.Side([each for each in side if isinstance(each, str)], [each for each in side if isinstance(each, Path)])
        for side in (like, unlike)
    ]
    return cocoax.Question(*sides).target(encoder)


def in_folders(encoder: cocoax.Encoder, inputs: Sequence[str | Path]) -> list[str | Path]:
    """Return inputs one by one, those of folders too."""
    return [item for each in inputs for item in (encoder.as_list(each) if isinstance(each, Path) else [each])]


def _check_captions(sides: Sequence[cocoax.Side]) -> None:
    """Raise if a caption is the name of a file."""
    from cocoax.inputs.open import names_file

    if file := next((caption for side in sides for caption in side.captions if names_file(caption)), None):
        raise ValueError(
            f"{file!r} is the name of a file, and --like, --unlike and --question take words; pictures are given by "
            "--like-image and --unlike-image."
        )


def _captions_of(source: str, template: str, without: Sequence[str]) -> list[str]:
    """Return the captions of a ready-made foil or of a text file with one name per line, without those of the question."""
    from cocoax.data import caption, cifar100
    from cocoax.inputs.open import read_lines

    if source == "cifar100":
        names = cifar100(without=list(without))
    elif Path(source).is_file():
        names = read_lines(Path(source))
    else:
        raise ValueError(f"--unlike-many takes cifar100 or a text file with one name per line. Got {source!r} instead.")
    captions = [text for name in names if (text := caption(name, template)) not in without and name not in without]
    if not captions:
        raise ValueError(f"{source} leaves no captions to compare with.")
    return captions


def _one_by_one(like: cocoax.Side, unlike: cocoax.Side, similarity: str) -> list[cocoax.Question]:
    """Return one question for each caption and picture of ``like``: it rather than all others and ``unlike``."""
    if len(like.captions) + len(like.images) < 2:
        raise ValueError("--each asks about several things; give --like or --like-image at least twice.")
    questions = []
    for one in [*(cocoax.Side([text]) for text in like.captions), *(cocoax.Side(images=[path]) for path in like.images)]:
        captions = [text for text in like.captions if text not in one.captions]
        images = [path for path in like.images if path not in one.images]
        others = cocoax.Side([*captions, *unlike.captions], [*images, *unlike.images])
        questions.append(cocoax.Question(one, others, similarity=similarity))
    return questions


# --- methods --------------------------------------------------------------------------------------------------------------


def _method_class(name: str) -> type[cocoax.Method]:
    """Return the class of the method with this name, or of the user's own at ``module:Class``; raise if there is none."""
    from cocoax import methods

    if ":" in name:
        return _own_class(*name.split(":", 1))
    if name not in METHODS:
        close = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.6)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"No method is called {name!r}; known are {', '.join(METHODS)}.{hint} One of your own is written module:Class."
        )
    method: type[cocoax.Method] = getattr(methods, METHODS[name])
    return method


def _own_class(module: str, name: str) -> type[cocoax.Method]:
    """Return the class of this name in a module that Python finds, or in a file of the folder where the user is."""
    sys.path.insert(0, os.getcwd())
    try:
        method: object = getattr(import_module(module), name, None)
    except (ImportError, ValueError) as error:
        raise ValueError(f"The module {module!r} of the method {name!r} cannot be imported: {error}.") from error
    finally:
        sys.path.remove(os.getcwd())
    if not (isinstance(method, type) and issubclass(method, cocoax.Method)):
        raise ValueError(f"{name!r} in the module {module!r} is no attribution method, a subclass of cocoax.Method.")
    return method


def method_with(name: str, options: Mapping[str, Any], strict: bool = True) -> cocoax.Method:
    """Return a method with those of a command's options that are not None.

    Raise if it lacks one of them; unless ``strict``, those that it lacks are left out.
    """
    method = _method_class(name)
    has = set(signature(method).parameters)
    chosen = {option: value for option, value in options.items() if value is not None and (strict or option in has)}
    for option in chosen:
        if option not in has:
            known = [f"--{other}" for other in options if other in has]
            raise ValueError(f"The method {name!r} has no option --{option}; it has {' and '.join(known) or 'none'}.")
    return method(**chosen)

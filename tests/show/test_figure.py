"""Views drawn by matplotlib, and pixels of heat maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.collections import QuadMesh

import cocoax
from cocoax.inputs import Names, Picture
from cocoax.show import Bars, Effects, Gallery, HeatMap, Histogram, Paragraph, Photo, PlotOptions, Table, figure
from cocoax.show.palette import COLOURS, colour_table
from cocoax.show.raster import heat_image, outlined_places
from tests.results.samples import ATTRIBUTIONS, PHOTO, attribution, pairs, text, waves


@pytest.fixture(autouse=True)
def _figures() -> Iterator[None]:
    yield
    plt.close("all")


def heat(values: list[list[float]], error: float | None = None, **options: Any) -> HeatMap:
    array = np.array(values)
    return HeatMap(Effects(array, None if error is None else np.full(array.shape, error), "a cat", 0.5), **options)


# --- heat maps --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["title", "limit", "opacity", "most", "dpi", "width", "order", "style"])
def test_options__of_a_wrong_type(option: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"'{option}' parameter"):
        PlotOptions(**{option: [3]})


def test_heat_image__red_raises_blue_lowers_white_makes_no_difference() -> None:
    pixels = np.asarray(heat_image(heat([[-1.0, 0.0, 1.0]], smooth=False), PlotOptions(opacity=1.0)))
    left, middle, right = pixels[0, [0, pixels.shape[1] // 2, -1]]
    assert left[2] > left[0] + 50
    assert right[0] > right[2] + 50
    assert middle.min() > 240
    assert right == pytest.approx(colour_table(COLOURS)[255], abs=1)


def test_heat_image__limit_opacity_and_colours() -> None:
    view = heat([[1.0, 1.0]], picture=np.zeros((2, 2, 3), np.uint8))
    full, half = (np.asarray(heat_image(view, PlotOptions(limit=limit, opacity=1.0)))[0, 0] for limit in (1.0, 4.0))
    assert full[1] < half[1]  # paler on a wider scale
    assert not np.asarray(heat_image(view, PlotOptions(opacity=0.0))).any()
    assert np.asarray(heat_image(view, PlotOptions(cmap="PiYG", opacity=1.0)))[0, 0].argmax() == 1


def test_heat_image__grey_picture_box_and_veil() -> None:
    view = heat([[1.0]], picture=np.full((10, 20, 3), (90, 0, 0), np.uint8), box=(0.5, 0.0, 1.0, 1.0))
    pixels = np.asarray(heat_image(view, longest=200)).astype(int)
    assert pixels.shape == (100, 200, 3)
    assert (np.ptp(pixels[:, :100], axis=2) == 0).all()
    assert pixels[0, 0, 0] == int(30 * 0.25 + 255 * 0.75)
    assert (pixels[:, 100:, 0] > pixels[:, 100:, 2]).all()


@pytest.mark.parametrize(("uncertainty", "grey"), [("hatch", False), ("fade", True), ("none", False)])
def test_heat_image__what_is_uncertain(uncertainty: Any, grey: bool) -> None:
    view = heat([[1.0, 0.3]], error=0.2, smooth=False)
    pixels = np.asarray(heat_image(view, PlotOptions(uncertainty=uncertainty))).astype(int)
    across = pixels.shape[1]
    known, unsure = pixels[:, : int(0.48 * across)], pixels[:, int(0.52 * across) :]  # without the line between them
    assert np.ptp(known.reshape(-1, 3), axis=0).max() == 0
    assert (np.ptp(unsure, axis=2).max() <= 1) == grey
    assert (len(np.unique(unsure.reshape(-1, 3), axis=0)) > 1) == (uncertainty == "hatch")


@pytest.mark.parametrize("size", [(1, 50), (50, 1), (3, 3)])
def test_heat_image__thin_pictures(size: tuple[int, int]) -> None:
    image = heat_image(heat([[1.0, 2.0]], picture=np.zeros((*size, 3), np.uint8)), longest=100)
    assert max(image.size) == 100
    assert min(image.size) >= 1


def bars_of(drawn: Any) -> list[Any]:
    """The colour bars of a figure."""
    return [bar for ax in drawn.axes for bar in ax.child_axes]


def titles_of(drawn: Any) -> list[str]:
    return [title.replace("\n", " ") for ax in drawn.axes if (title := ax.get_title(loc="left"))]


def test_draw__title_and_colour_bar_say_what_is_shown() -> None:
    result = attribution(Picture(PHOTO), (6, 8), neutral=0.25, metadata={"target": "dogs for $5 and " + "very " * 20 + "big"})
    drawn = result.plot()
    (bar,) = bars_of(drawn)
    assert titles_of(drawn) == [f"{result.name} +0.50"]
    assert bar.get_ylabel() == "effect on the score"
    assert bar.get_ylim() == pytest.approx((-1.75, 1.75))
    assert [tick.get_text() for tick in bar.get_yticklabels()] == ["−1", "0", "+1"]
    assert any("within noise" in text.get_text() for text in drawn.texts)
    assert not result.plot(uncertainty="none").texts
    assert not bars_of(result.plot(colorbar=False, title="mine"))
    extreme = replace(
        result, values=torch.cat([torch.linspace(0, 1, 999), torch.tensor([100.0])]).view(25, 40), standard_error=None
    )
    drawn = extreme.plot()
    (bar,) = bars_of(drawn)
    assert any("1 % of the map lies beyond" in text.get_text() for text in drawn.texts)
    assert len(bar.patches) == 2  # arrows
    assert not bars_of(result.plot())[0].patches
    nothing = replace(result, values=torch.full((6, 8), 0.25))
    assert "no part makes a difference" in bars_of(nothing.plot())[0].get_ylabel().replace("\n", " ")


@pytest.mark.parametrize("size", [(20, 60), (60, 20), (30, 30), (1, 5000), (5000, 1)])
@pytest.mark.parametrize("alone", [True, False])
def test_draw__the_colour_bar_is_as_tall_as_the_picture(size: tuple[int, int], alone: bool) -> None:
    shown = attribution(Picture(torch.zeros(*size, 3, dtype=torch.uint8)), (4, 4))
    drawn = shown.plot() if alone else shown.plot(plt.subplots()[1]).get_figure()
    assert drawn is not None
    drawn.canvas.draw()
    (bar,) = bars_of(drawn)
    ax = drawn.axes[0].get_window_extent()
    assert bar.get_window_extent().height == pytest.approx(ax.height, rel=0.02)
    assert min(ax.width, ax.height) >= max(ax.width, ax.height) / 8.1  # extreme pictures can be seen
    drawn.clear()


def _laid_out(kind: str, shape: tuple[int, int]) -> Any:
    """Return an attribution, or several for a panel."""
    photo = Picture(torch.full((*shape, 3), 200, dtype=torch.uint8))
    noisy = attribution(photo, (6, 8))
    steep = torch.cat([torch.linspace(0, 0.0004, 47), torch.tensor([0.05])]).view(6, 8)
    extreme = replace(noisy, values=steep, standard_error=None)
    if kind == "noisy":
        return noisy
    if kind == "extreme":
        return extreme
    if kind == "nothing":
        return replace(noisy, values=torch.zeros(6, 8), standard_error=None)
    if kind == "one":
        return [noisy]
    if kind == "grid":
        return {name: {"KernelSHAP": noisy, "occlusion": noisy, "gradients": extreme} for name in ("shark", "ship")}
    return [[noisy, extreme, noisy]] * 2


@pytest.mark.parametrize(
    ("shape", "width", "style"),
    [
        ((30, 40), "double", "paper"),
        ((20, 60), None, "screen"),
        ((20, 60), "single", "paper"),
        ((60, 20), "single", "paper"),
        ((60, 20), None, "screen"),
    ],
)
@pytest.mark.parametrize("kind", ["noisy", "extreme", "nothing", "one", "grid", "2 x 3"])
def test_figure__no_text_lies_outside(kind: str, shape: tuple[int, int], width: Any, style: Any) -> None:
    given = _laid_out(kind, shape)
    options: dict[str, Any] = {"width": width, "style": style}
    drawn = given.plot(**options) if isinstance(given, cocoax.Attribution) else cocoax.plots.panel(given, **options)
    drawn.canvas.draw()
    box = drawn.get_tightbbox()
    slack = 0.5 / drawn.dpi
    assert -slack <= box.x0 <= box.x1 <= drawn.get_figwidth() + slack
    assert -slack <= box.y0 <= box.y1 <= drawn.get_figheight() + slack


def test_draw__on_given_axes() -> None:
    drawn, ax = plt.subplots()
    assert ATTRIBUTIONS["photo"].plot(ax, colorbar=False) is ax
    assert drawn.axes == [ax]
    with pytest.raises(TypeError, match=r"save\('a.png'\)"):
        ATTRIBUTIONS["photo"].plot("a.png")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="needs a figure of its own"):
        figure.draw(Gallery(()), ax)


def test_photo__outlines_what_is_marked() -> None:
    inside = np.array([[True, False], [False, False]])
    ax = plt.subplots()[1]
    figure.draw(Photo(PHOTO.numpy(), (0.0, 0.0, 0.5, 1.0), inside, title="$5"), ax)
    assert len(ax.images) == 2
    own, edge = (collection.get_paths()[0].get_extents() for collection in ax.collections)  # a mark, and its dark edge
    assert own.extents == pytest.approx(edge.extents)
    assert own.extents == pytest.approx((-0.5, -0.5, 9.5, 14.5), abs=0.5)  # the quarter at the top left


# --- bars, sounds, charts ---------------------------------------------------------------------------------------------------


def test_bars__lengths_colours_errors_and_order() -> None:
    result = attribution(Names(("low", "none", "high")), (3,), standard_error=torch.tensor([0.1, 0.3, 0.1]))
    ax = cocoax.plots.bars(result)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["high", "low", "none"]
    assert [bar.get_width() for bar in ax.patches] == [2.0, -1.0, 0.5]
    assert np.ptp(ax.patches[2].get_facecolor()[:3]) == 0  # grey: within noise
    hatched = cocoax.plots.bars(result, uncertainty="hatch")
    assert [bar.get_hatch() is not None for bar in hatched.patches] == [False, False, True]
    assert ax.patches[0].get_facecolor()[0] > 0.5 > ax.patches[1].get_facecolor()[0]
    ends = ax.collections[0].get_segments()[0][:, 0]
    assert ends.tolist() == pytest.approx([1.8, 2.2])
    few = cocoax.plots.bars(result, order="given", most=2, limit=5.0)
    assert [label.get_text() for label in few.get_yticklabels()] == ["low", "high"]
    assert "1 smaller ones not shown" in few.get_xlabel()
    assert few.get_xlim() == (-5, 5)
    words = cocoax.plots.bars(attribution(text("b a c"), (3,)))
    assert [label.get_text() for label in words.get_yticklabels()] == ["b", "a", "c"]
    with pytest.raises(ValueError, match="Bars are for words and columns"):
        cocoax.plots.bars(ATTRIBUTIONS["photo"])
    with pytest.raises(ValueError, match="An overlay is a map"):
        cocoax.plots.overlay(result)


def test_bars__long_names_have_room() -> None:
    short, long = (Bars(Effects(np.ones(3)), (name, "b", "c")) for name in ("a", "word " * 30))
    assert figure.size(long)[1] > figure.size(short)[1]
    ax = figure.plot([long]).axes[0]
    assert max(len(line) for label in ax.get_yticklabels() for line in label.get_text().split("\n")) <= 42


@pytest.mark.parametrize("samples", [1000, 60_000])
def test_sound__behind_the_waveform(samples: int) -> None:
    ax = attribution(waves(samples=samples), (4,)).plot(limit=5.0).axes[0]
    assert (ax.get_xlabel(), ax.get_xlim()) == ("seconds", (0, samples / 1000))
    (mesh,) = [part for part in ax.collections if isinstance(part, QuadMesh)]
    np.testing.assert_allclose(mesh.get_array(), torch.linspace(-1, 2, 4)[None])
    assert mesh.get_clim() == (-5, 5)
    drawn = ax.lines[0].get_ydata() if samples == 1000 else ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (np.min(drawn), np.max(drawn)) == pytest.approx((-0.5, 0.5), abs=0.01)


def test_sound__over_the_spectrogram() -> None:
    errors = torch.zeros(12)
    errors[[0, -1]] = 5.0
    ax = attribution(waves(3), (12,), neutral=0.25, standard_error=errors).plot(uncertainty="hatch").axes[0]
    assert (ax.get_ylabel(), ax.get_ylim()) == ("Hz", (0, 500))
    (mesh,) = [part for part in ax.collections if isinstance(part, QuadMesh)]
    np.testing.assert_allclose(mesh.get_array(), (torch.linspace(-1, 2, 12) - 0.25).view(4, 3).T)  # bands from low to high
    loudest = np.asarray(ax.images[0].get_array()).mean(1).argmax()
    assert loudest * 500 / 256 == pytest.approx(50, abs=2)
    hatched = sorted(patch.get_xy() for patch in ax.patches if patch.get_hatch())
    assert [tuple(place) for place in hatched] == [pytest.approx((0, 0)), pytest.approx((0.75, 1000 / 3))]
    silent = replace(attribution(waves(3), (12,)), values=torch.zeros(12))
    silent.plot().canvas.draw()


def test_charts__draw_what_they_are_given() -> None:
    curve = cocoax.Curve(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0]), "$a$")
    ax = curve.plot(color="green").axes[0]
    assert ax.lines[0].get_color() == "green"
    assert "area 0.5" in ax.get_legend().get_texts()[0].get_text()
    drawn = figure.plot(
        [Histogram({"one": np.zeros(3), "two": np.ones(2)}, "score"), Paragraph("word " * 50), Table(("a",), ((1,),))]
    )
    assert len(drawn.subfigs) == 2  # type: ignore[attr-defined]  # tables are left out where there is something else to see
    assert figure.plot([Table(("a", "b"), ((1, None), (0.5, "$x$")))]).axes


# --- panels -----------------------------------------------------------------------------------------------------------------


def test_panel__the_input_once_and_one_scale_for_a_row() -> None:
    photo = ATTRIBUTIONS["photo"]
    drawn = cocoax.plots.panel([photo] * 4, columns=2, title="all")
    assert [title.split(" ")[0] for title in titles_of(drawn)] == ["the", *["<script>alert(1)</script>"] * 4]
    assert len([ax for ax in drawn.axes if ax.images]) == 5
    assert len(bars_of(drawn)) == 2
    assert "all" in [text.get_text() for text in drawn.texts]
    assert "the photo" not in titles_of(cocoax.plots.panel([ATTRIBUTIONS["map"]]))


@pytest.mark.parametrize("count", range(1, 11))
def test_panel__no_empty_slot_and_aligned_rows(count: int) -> None:
    axes = [ax for ax in cocoax.plots.panel([ATTRIBUTIONS["photo"]] * count).axes if ax.images]
    rows: dict[float, list[float]] = {}
    for ax in axes:
        rows.setdefault(round(ax.get_position().y1, 6), []).append(ax.get_position().x1)
    assert len(axes) == count + 1
    assert len(rows) <= 2
    assert len({round(max(ends), 6) for ends in rows.values()}) == 1  # rows end at one place
    bottoms = {round(ax.get_position().y0, 6) for ax in axes}
    assert len(bottoms) == len(rows)  # the input that stands beside two rows ends with the second


@pytest.mark.parametrize(("scale", "ends"), [("each", [2, 6, 2]), ("row", [6, 2]), ("all", [6])])
def test_panel__scales(scale: Any, ends: list[float]) -> None:
    photo = ATTRIBUTIONS["photo"]
    drawn = cocoax.plots.panel([[photo, replace(photo, values=photo.values * 3)], [photo]], scale=scale)
    assert [bar.get_ylim()[1] for bar in bars_of(drawn)] == pytest.approx(ends)


@pytest.mark.parametrize(("width", "inches"), [("single", 3.5), ("double", 7.2), (5.0, 5.0)])
def test_panel__is_as_wide_as_asked(width: Any, inches: float) -> None:
    drawn = cocoax.plots.panel([ATTRIBUTIONS["photo"]] * 8, width=width, style="paper")
    assert drawn.get_figwidth() == pytest.approx(inches)
    for ax in drawn.axes:
        box = ax.get_position()
        assert 0 <= box.x0 < box.x1 <= 1
        assert 0 <= box.y0 < box.y1 <= 1
        assert box.width * inches > 0.7


def test_panel__of_dicts_nested_lists_and_methods() -> None:
    photo, words = ATTRIBUTIONS["photo"], ATTRIBUTIONS["text"]
    named = cocoax.plots.panel({"one": photo, "two": photo}, colorbar=False)
    assert titles_of(named) == ["the photo", "one", "two"]
    grid = cocoax.plots.panel([[photo, photo], [photo, photo]], titles=["a", "b", "c", "d"], colorbar=False)
    assert titles_of(grid) == ["the photo", "a", "b", "the photo", "c", "d"]
    nested = cocoax.plots.panel({"x": {"a": photo}, "y": {"b": photo}}, colorbar=False)
    assert titles_of(nested) == ["x +0.50", "a", "y +0.50", "b"]
    assert [text.get_text() for text in nested.texts][-1] == photo.name
    heads = cocoax.plots.panel({"x": {"a": photo, "b": photo}, "y": {"a": photo, "b": replace(photo, score=0.2)}})
    assert titles_of(heads) == ["x +0.50", "a", "b", "y", "+0.50", "+0.20"]
    assert titles_of(cocoax.plots.panel({"x": {"a": photo, "b": photo}})) == ["x +0.50", "a", "b"]
    other = replace(words, metadata={"target": "x", "method": "KernelShap"})
    assert [title.split(":")[0] for title in titles_of(cocoax.plots.panel([words, other]))] == ["input", "Rise", "KernelShap"]
    asked = replace(photo, metadata={**photo.metadata, "target": "x"}, score=0.3)
    rows = cocoax.plots.panel([[photo, photo], [replace(photo, score=0.2), asked]])  # what stands above is not repeated
    assert titles_of(rows) == ["the photo", *[f"{photo.name} +0.50"] * 2, "the photo", "+0.20", "x +0.30"]
    coarse = replace(photo, values=photo.values[:3, :4], standard_error=None)
    assert len(bars_of(cocoax.plots.panel([photo, photo]))) == 1
    assert len(bars_of(cocoax.plots.panel([photo, coarse]))) == 2  # features of other sizes have other scales
    assert len(bars_of(cocoax.plots.panel([photo, replace(photo, values=photo.values * 4)]))) == 1
    weak = cocoax.plots.panel([photo, replace(photo, values=photo.values * 6)])  # would be nearly white on the other's scale
    assert len(bars_of(weak)) == 2
    assert any("each map on a scale of its own" in text.get_text() for text in weak.texts)
    with pytest.raises(TypeError, match="of attributions"):
        cocoax.plots.panel([words, 3])
    with pytest.raises(TypeError, match=r"a list or a dict of them\. Got float"):
        cocoax.plots.panel(0.0)  # type: ignore[arg-type]


def test_panel__a_row_is_of_one_photo() -> None:
    """A row shows its photo once, so maps of several photos must not stand in one."""
    photo = ATTRIBUTIONS["photo"]
    other = replace(photo, display=Picture(255 - photo.display.picture))  # type: ignore[attr-defined]
    turned = cocoax.plots.panel({"Rise": [photo, other], "KernelSHAP": [photo, other]}, colorbar=False)
    assert titles_of(turned) == ["+0.50", "Rise", "KernelSHAP", "+0.50"]
    assert titles_of(cocoax.plots.panel({"one": photo, "two": other}, colorbar=False)) == ["one +0.50", "two +0.50"]
    assert len(titles_of(cocoax.plots.panel([photo, other], colorbar=False))) == 4
    crossed = [[photo, other], [replace(photo, score=0.1), replace(other, score=0.2)]]
    titles = ["Rise a", "Rise b", "KernelSHAP a", "KernelSHAP b"]
    tiles = cocoax.plots.panel_view(crossed, titles=titles).tiles
    scores = {tile.title: tile.effects.score for tile in tiles if isinstance(tile, HeatMap)}
    assert [scores[title] for title in titles] == [0.5, 0.5, 0.1, 0.2]  # titles stay with their maps
    with pytest.raises(ValueError, match="of one photo"):
        cocoax.plots.panel([[photo, other], [other, photo]])


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (1, 30)])
def test_photo__small_and_thin_parts_have_outlines(size: tuple[int, int]) -> None:
    marked = np.zeros((64, 64), bool)
    marked[20 : 20 + size[0], 20 : 20 + size[1]] = True
    _, _, field = outlined_places(marked, (0.0, 0.0, 1.0, 1.0), (64, 64))
    assert field.max() == 1
    assert (field[1:-1, 1:-1][marked] > 0.5).all()


def test_answers__say_what_their_score_is_the_difference_of() -> None:
    effects = Effects(np.ones((2, 2)), None, "a cat rather than a dog", 0.0497, (("a cat", 0.26), ("a dog", 0.2103)))
    assert (effects.words, effects.scored, effects.difference) == ("a cat", "+0.050", "0.26 − a dog 0.21")
    drawn = figure.plot([HeatMap(effects)])
    assert titles_of(drawn) == ["a cat +0.050"]
    assert [text.get_text() for text in drawn.axes[0].texts] == ["0.26 − a dog 0.21"]


def test_heat_image__regions_have_crisp_edges_and_outlines() -> None:
    regions = np.zeros((64, 64), int)
    regions[:, 32:] = 1
    values = np.where(regions, 1.0, -1.0)
    pixels = np.asarray(heat_image(HeatMap(Effects(values), regions=regions), PlotOptions(opacity=1.0), longest=640)).astype(
        int
    )
    middle = pixels[320]
    assert (middle[:300] == middle[0]).all()
    assert (middle[340:] == middle[-1]).all()
    assert (middle[312:328] != middle[0]).any(1).sum() > 8  # on one side another colour, and between them an outline
    grey = pixels[320, [0, -1]] @ [0.299, 0.587, 0.114]
    assert grey[0] - grey[1] > 30  # signs differ in grey print


@pytest.mark.parametrize(
    ("given", "options", "word"),
    [
        ([], {}, "0 attributions"),
        ([[]], {}, "0 attributions"),
        (1, {"columns": 0}, "columns"),
        (1, {"titles": ["a", "b"]}, "titles"),
    ],
)
def test_panel__wrong_arguments(given: Any, options: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        cocoax.plots.panel([ATTRIBUTIONS["photo"]] if given == 1 else given, **options)


# --- links ------------------------------------------------------------------------------------------------------------------


def side(words: str) -> Any:
    from cocoax.results.interactions import PairSide

    return PairSide(text(words), (len(words.split()),))


def test_links__arcs_join_the_largest_pairs() -> None:
    interactions = pairs(side("one two three"), side("vier fünf"))
    (ax,) = interactions.plot(most=2).axes
    assert len(ax.patches) == 2
    assert [label.get_text() for label in ax.texts] == ["one", "two", "three", "vier", "fünf"]
    strongest = divmod(int(interactions.matrix.abs().argmax()), 2)
    start, *_, end = ax.patches[-1].get_path().vertices  # the last one drawn
    assert start[0] == ax.texts[strongest[0]].get_position()[0]
    assert end[0] == ax.texts[3 + strongest[1]].get_position()[0]
    (long,) = pairs(side(" ".join(f"word{number}" for number in range(100))), side("a b")).plot(most=3).axes
    words = [label.get_text() for label in long.texts]
    assert "…" in words
    assert 3 < len(words) < 12


def test_links__maps_regions_and_the_kind_that_suits() -> None:
    from cocoax.results.interactions import PairSide

    photo = PairSide(Picture(PHOTO, (0.1, 0.0, 0.9, 1.0)), (2, 2))
    linked = pairs(photo, photo)
    drawn = linked.plot()
    numbers, links = drawn.axes[2], linked.links()
    assert [label.get_text() for label in numbers.texts] == [str(1 + at // 2) for at in range(2 * len(links))]
    widths = [patch.get_linewidth() for patch in numbers.patches]
    assert widths == pytest.approx([0.8 + 4.2 * abs(link.value / links[0].value) for link in links])
    listed = [text.get_text().replace("\n", " ").split(" ")[0] for text in drawn.texts]
    assert all(link.names[0].split(" ")[0] in listed for link in links)
    maps = pairs(photo, side("one two three"))
    peaks = maps.matrix.amax(0)
    expected = [name for name, peak in zip(maps.b.names, peaks, strict=True) if peak > peaks.min()]
    assert titles_of(maps.plot(most=2))[1:] == expected
    assert len(bars_of(maps.plot("matrix", most=2))) == 1
    with pytest.raises(ValueError, match="must be 'maps' or 'matrix'"):
        maps.plot("arcs")

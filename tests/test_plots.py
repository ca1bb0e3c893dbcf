"""Pictures: what they show are the numbers, signed and not rescaled."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

import cocoax
from cocoax import plots
from cocoax.inputs import Names, Picture, Text
from tests.conftest import images


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def make(seed: int = 0, scale: float = 1.0, **options: Any) -> cocoax.Attribution:
    values = scale * images(1, 6, 8, channels=1, seed=seed)[0, 0]
    picture = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (30, 40, 3), dtype=np.uint8))
    given: dict[str, Any] = {
        "values": values,
        "score": 0.1234,
        "baseline_score": 0.0,
        "metadata": {"target": f"question {seed}"},
        "display": Picture(picture),
    }
    return cocoax.Attribution(**{**given, **options})


def map_of(ax: Axes) -> AxesImage:
    """The map itself, which is drawn last."""
    return ax.images[-1]


def data_of(image: AxesImage) -> np.ndarray:
    return np.asarray(image.get_array())


def drawn(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return file.getvalue()


def colour_bars(figure: Any) -> list[Axes]:
    return [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]


# --- one attribution --------------------------------------------------------------------------------------------------


def test_plot__shows_the_values_as_they_are() -> None:
    attribution = make()
    figure = attribution.plot()
    assert isinstance(figure, Figure)
    ax = figure.axes[0]
    assert np.array_equal(data_of(map_of(ax)), attribution.values.numpy())
    assert len(drawn(ax.figure)) > 1000


def test_plot__shows_values_minus_neutral() -> None:
    attribution = make(neutral=0.75)
    ax = attribution.plot().axes[0]
    np.testing.assert_allclose(data_of(map_of(ax)), attribution.values.numpy() - 0.75, atol=1e-6)
    (bar,) = colour_bars(ax.figure)
    assert "mean 0.75" in bar.get_ylabel()


def test_plot__colour_limits_are_symmetric_around_zero() -> None:
    attribution = make(values=torch.tensor([[1.0, 2.0], [3.0, 5.0]]))  # all positive
    shown = map_of(attribution.plot().axes[0])
    assert shown.get_clim() == (-5, 5)
    assert shown.norm(0.0) == pytest.approx(0.5)
    neutral = make(values=torch.tensor([[1.0, 2.0], [3.0, 5.0]]), neutral=4.0)
    assert map_of(neutral.plot().axes[0]).get_clim() == (-3, 3)


def test_plot__red_raises_and_blue_lowers() -> None:
    shown = map_of(make(values=torch.tensor([[-1.0, 0.0], [0.5, 1.0]])).plot().axes[0])
    low, middle, high = (np.array(shown.cmap(shown.norm(value))[:3]) for value in (-1.0, 0.0, 1.0))
    assert low[2] > low[0] + 0.2
    assert high[0] > high[2] + 0.2
    assert middle.min() > 0.9


def test_plot__limit_given() -> None:
    attribution = make(scale=100.0)
    shown = map_of(attribution.plot(limit=0.5).axes[0])
    assert shown.get_clim() == (-0.5, 0.5)
    assert np.array_equal(data_of(shown), attribution.values.numpy())


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_plot__bad_limit(limit: float) -> None:
    with pytest.raises(ValueError, match=r"The 'limit' parameter must be above 0\. Got .* instead"):
        make().plot(limit=limit)


def test_plot__all_zero() -> None:
    ax = make(values=torch.zeros(6, 8)).plot().axes[0]
    assert map_of(ax).get_clim() == (-1, 1)
    assert drawn(ax.figure)


def test_plot__colour_bar() -> None:
    ax = make().plot().axes[0]
    (bar,) = colour_bars(ax.figure)
    assert bar.get_ylabel() == "attribution"
    low, high = bar.get_ylim()
    assert low == pytest.approx(-high)
    assert not colour_bars(make().plot(colour_bar=False).figure)


def test_plot__title_is_the_question_and_the_score() -> None:
    assert make().plot().axes[0].get_title() == "question 0\nscore +0.123"
    assert make(score=-2.0).plot().axes[0].get_title() == "question 0\nscore -2.000"
    assert make().plot(title="mine").axes[0].get_title() == "mine"
    assert make().plot(title="").axes[0].get_title() == ""


def test_question__long_ones_are_wrapped_and_complete() -> None:
    long = "a photo of a cat on a mat rather than photos of everything else there is in the world"
    *lines, score = plots.question(make(metadata={"target": long})).split("\n")
    assert len(lines) > 1
    assert max(map(len, lines)) <= 34
    assert " ".join(lines) == long
    assert score == "score +0.123"


def test_plot__dollars_are_not_formulas() -> None:
    """Matplotlib takes what is between two dollars for TeX, and fails to draw what is not."""
    ax = make(metadata={"target": r"a $\bill$ rather than $^^$"}).plot().axes[0]
    assert drawn(ax.figure)


@pytest.mark.parametrize("opacity", [-0.1, 1.1, float("nan")])
def test_plot__bad_opacity(opacity: float) -> None:
    with pytest.raises(ValueError, match=r"The 'opacity' parameter must lie between 0 and 1\. Got .* instead"):
        make().plot(opacity=opacity)


@pytest.mark.parametrize("opacity", [0, 0.3, 1])
def test_plot__opacity(opacity: float) -> None:
    ax = make().plot(opacity=opacity).axes[0]
    assert map_of(ax).get_alpha() == opacity
    assert drawn(ax.figure)


def test_plot__on_given_axes() -> None:
    figure = Figure()
    ax = figure.subplots()
    assert make().plot(ax) is ax
    assert ax.figure is figure
    assert len(colour_bars(figure)) == 1


def test_plot__and_panel_return_a_figure() -> None:
    for drawn in (make().plot(), plots.panel([make(), make(1)]), cocoax.Curve(torch.ones(3), torch.ones(3)).plot()):
        assert isinstance(drawn, Figure)
        drawn.savefig(io.BytesIO())


def test_plot__is_kept_by_pyplot_for_show() -> None:
    import matplotlib.pyplot as plt

    figure = make().plot()
    assert [plt.figure(number) for number in plt.get_fignums()] == [figure]


def test_plot__picture_is_grey_and_below_the_map() -> None:
    attribution = make()
    assert attribution.picture is not None
    below, above = make().plot().axes[0].images
    pixels = data_of(below)
    np.testing.assert_allclose(pixels, attribution.picture.double().mean(2, keepdim=True).expand(-1, -1, 3) / 255)
    assert below.get_extent() == above.get_extent()


def test_plot__without_a_picture() -> None:
    ax = make(display=Picture()).plot().axes[0]
    assert len(ax.images) == 1
    assert map_of(ax).get_extent() == [-0.5, 7.5, 5.5, -0.5]


def test_plot__extent_covers_the_whole_picture() -> None:
    """The map has 6 x 8 values and the picture 30 x 40 pixels."""
    ax = make().plot().axes[0]
    assert map_of(ax).get_extent() == [-0.5, 39.5, 29.5, -0.5]
    assert ax.get_xlim() == (-0.5, 39.5)
    assert ax.get_ylim() == (29.5, -0.5)


def test_plot__extent_follows_the_box() -> None:
    ax = make(display=replace(make().display, box=(0.25, 0.1, 0.75, 0.9))).plot().axes[0]
    assert map_of(ax).get_extent() == pytest.approx([9.5, 29.5, 26.5, 2.5])
    assert ax.get_xlim() == (-0.5, 39.5)  # all of the picture is shown
    veil = data_of(ax.images[1])[..., 3]
    assert float(veil[3:27, 10:30].max()) == 0  # what the encoder saw
    outside = veil.copy()
    outside[3:27, 10:30] = 1
    assert float(outside.min()) > 0.5  # what it did not see is faded


def test_plot__first_row_is_on_top() -> None:
    values = torch.zeros(6, 8)
    values[0, 0] = 1
    ax = make(values=values, display=Picture()).plot().axes[0]
    left, right, bottom, top = map_of(ax).get_extent()
    assert map_of(ax).origin == "upper"
    # On the screen y grows upwards, in the picture downwards.
    assert ax.transData.transform((left, top))[1] > ax.transData.transform((left, bottom))[1]
    assert ax.transData.transform((left, top))[0] < ax.transData.transform((right, top))[0]


def test_plot__of_a_real_result(encoder: cocoax.Encoder) -> None:
    result = cocoax.Rise(samples=20, grid=3).run(encoder, images(1)[0]).explain(cocoax.representation_similarity())
    assert result.neutral != 0
    ax = result.plot().axes[0]
    # What lies within rounding of nothing is drawn as nothing.
    np.testing.assert_allclose(data_of(map_of(ax)), (result.values - result.neutral).numpy(), atol=max(1e-6, result.floor))
    low, high = map_of(ax).get_clim()
    assert high == pytest.approx(float((result.values - result.neutral).abs().max()), rel=1e-5)
    assert low == -high


# --- several ----------------------------------------------------------------------------------------------------------


def test_panel__input_first_then_each_question() -> None:
    attributions = [make(seed) for seed in range(3)]
    figure = plots.panel(attributions)
    axes = [ax for ax in figure.axes if ax not in colour_bars(figure)]
    assert len(axes) == 4
    assert len(colour_bars(figure)) == 3
    assert [ax.get_title() for ax in axes] == ["input", *(f"question {seed}\nscore +0.123" for seed in range(3))]
    assert attributions[0].picture is not None
    assert np.array_equal(data_of(axes[0].images[0]), attributions[0].picture.numpy())
    for ax, attribution in zip(axes[1:], attributions, strict=True):
        assert np.array_equal(data_of(map_of(ax)), attribution.values.numpy())
    assert drawn(figure)


@pytest.mark.parametrize(("number", "columns", "expected"), [(3, None, 4), (8, None, 10), (5, 2, 6), (5, 3, 6), (2, 7, 7)])
def test_panel__rows_and_columns(number: int, columns: int | None, expected: int) -> None:
    figure = plots.panel([make(seed) for seed in range(number)], columns=columns)
    axes = [ax for ax in figure.axes if ax not in colour_bars(figure)]
    assert len(axes) == expected
    assert sum(bool(ax.images) for ax in axes) == number + 1
    assert not any(ax.axison for ax in axes)


def test_panel__each_has_its_own_scale() -> None:
    attributions = [make(0), make(1, scale=10.0)]
    figure = plots.panel(attributions)
    axes = [ax for ax in figure.axes if ax.get_title().startswith("question")]
    assert [map_of(ax).get_clim()[1] for ax in axes] == pytest.approx([float(one.values.abs().max()) for one in attributions])


def test_panel__same_scale() -> None:
    attributions = [make(0), make(1, scale=10.0, neutral=3.0), make(2)]
    figure = plots.panel(attributions, same_scale=True)
    axes = [ax for ax in figure.axes if ax.get_title().startswith("question")]
    largest = max(float((one.values - one.neutral).abs().max()) for one in attributions)
    assert [map_of(ax).get_clim() for ax in axes] == [pytest.approx((-largest, largest))] * 3


def test_panel__titles_and_title() -> None:
    figure = plots.panel([make(0), make(1)], titles=["one", "two"], title="both")
    assert [ax.get_title() for ax in figure.axes if ax not in colour_bars(figure)] == ["input", "one", "two"]
    assert figure.get_suptitle() == "both"


def test_panel__options_are_passed_on() -> None:
    figure = plots.panel([make(0), make(1)], opacity=0.2, colour_bar=False)
    assert not colour_bars(figure)
    assert [map_of(ax).get_alpha() for ax in figure.axes[1:]] == [0.2, 0.2]


def test_panel__what_cannot_be_seen_takes_no_room() -> None:
    rows = words([1.0, -0.5])
    assert [ax.get_title() for ax in plots.panel([rows, rows]).axes] == ["attribution\nscore +0.500"] * 2
    assert [ax.get_title() for ax in plots.panel([[rows], [rows]]).axes] == ["attribution\nscore +0.500"] * 2


def test_panel__of_a_text_begins_with_it() -> None:
    text = cocoax.Attribution(torch.ones(2), 0.5, 0.1, display=Text("a $cat", ((0, 1), (2, 6))))
    figure = plots.panel([text, text])
    assert [ax.get_title() for ax in figure.axes] == ["input", *["attribution\nscore +0.500"] * 2]
    assert [each.get_text() for each in figure.axes[0].texts] == ["a $cat"]
    assert drawn(figure)


def test_panel__without_pictures() -> None:
    figure = plots.panel([replace(make(0), display=Picture())])
    assert not figure.axes[0].images
    assert drawn(figure)


def test_panel__rows_are_as_high_as_their_bars() -> None:
    many = cocoax.Attribution(torch.ones(30), 0.5, 0.1, display=Names(tuple(map(str, range(30)))))
    figure = plots.panel([[many, many], [make(0), make(1)]])
    figure.canvas.draw()
    heights = [ax.get_window_extent().height for ax in figure.axes if ax.get_subplotspec() is not None]
    assert heights[0] / figure.dpi > 30 * 0.2  # inches
    assert heights[0] > 2 * heights[2]


def test_panel__nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="There are 0 attributions to draw; pass at least one"):
        plots.panel([])


def test_panel__wrong_number_of_titles() -> None:
    with pytest.raises(ValueError, match="Got 1 titles for 2 attributions; pass one for each"):
        plots.panel([make(0), make(1)], titles=["one"])


@pytest.mark.parametrize("columns", [0, -2])
def test_panel__bad_columns(columns: int) -> None:
    with pytest.raises(ValueError, match=f"The 'columns' parameter must be at least 1. Got {columns} instead"):
        plots.panel([make()], columns=columns)


def test_colours__neutral_is_white() -> None:
    middle = matplotlib.colormaps[plots.COLOURS](0.5)
    assert np.allclose(middle, to_rgba("white"), atol=0.05)


def test_plot__a_few_extreme_pixels_do_not_blank_the_rest() -> None:
    values = torch.linspace(-1, 1, 400).reshape(20, 20)
    values[0, 0] = 500.0
    ax = make(values=values).plot().axes[0]
    shown = map_of(ax)
    assert shown.get_clim()[1] == pytest.approx(float(values.abs().flatten().quantile(0.99)))
    assert "1 % lie beyond" in ax.figure.axes[-1].get_ylabel()  # cut off, but not silently
    assert np.array_equal(data_of(shown), values.numpy())


def test_panel__names_methods_where_they_differ() -> None:
    figure = plots.panel(
        [make(metadata={"target": "a", "method": "Rise"}), make(metadata={"target": "a", "method": "Occlusion"})]
    )
    titles = [ax.get_title() for ax in figure.axes]
    assert any(title.startswith("Rise: a") for title in titles)
    assert any(title.startswith("Occlusion: a") for title in titles)


# --- bars ---------------------------------------------------------------------------------------------------------------


def words(values: list[float], **options: Any) -> cocoax.Attribution:
    return cocoax.Attribution(
        torch.tensor(values), 0.5, 0.1, display=Names(tuple(f"${index}$" for index in range(len(values)))), **options
    )


def test_bars__lengths_colours_and_names() -> None:
    axes = words([1.0, -0.5, 0.25], neutral=0.25, standard_error=torch.full((3,), 0.1)).plot().axes[0]
    assert [round(bar.get_width(), 6) for bar in axes.patches] == [0.75, -0.75, 0.0]
    assert axes.patches[0].get_facecolor() != axes.patches[1].get_facecolor()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$0$", "$1$", "$2$"]
    axes.figure.canvas.draw()  # dollars do not start a formula


def test_bars__only_the_largest_of_many() -> None:
    axes = cocoax.plots.bars(words([float(index) for index in range(60)]), most=10)
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"${index}$" for index in range(59, 49, -1)]
    assert "50 smaller ones not shown" in axes.get_xlabel()


def test_bars__columns_by_size_and_words_as_they_stand() -> None:
    values = torch.tensor([0.5, -2.0, 1.0])
    columns = cocoax.Attribution(values, 0.5, 0.1, display=Names(("a", "b", "c")))
    sentence = cocoax.Attribution(values, 0.5, 0.1, display=Text("a b c", ((0, 1), (2, 3), (4, 5))))

    def names(axes: Axes) -> str:
        return "".join(label.get_text() for label in axes.get_yticklabels())

    assert (names(columns.plot().axes[0]), names(sentence.plot().axes[0])) == ("bca", "abc")
    assert (names(columns.plot(order="given").axes[0]), names(sentence.plot(order="size").axes[0])) == ("abc", "bca")
    assert (names(plots.bars(columns)), names(plots.bars(sentence))) == ("bca", "abc")
    assert names(plots.bars(columns, order="given", most=2)) == "bc"
    with pytest.raises(ValueError, match=r"The 'order' parameter must be 'size' or 'given'\. Got 'name' instead"):
        columns.plot(order="name")


def test_bars__not_for_images() -> None:
    with pytest.raises(ValueError, match=r"Bars are for words and columns"):
        cocoax.plots.bars(cocoax.Attribution(torch.zeros(2, 2), 0.0, 0.0))


def test_overlay__of_words_or_columns() -> None:
    encoder = cocoax.TabularEncoder(lambda rows: rows, columns=["a", "b"], name="rows")
    target = cocoax.similarity_to(encoder.reference([[1.0, 2.0]]), "dot")
    result = cocoax.Occlusion(baseline=cocoax.Constant(0.0)).explain(encoder, [3.0, 1.0], target)
    with pytest.raises(ValueError, match=r"An overlay is a map over a picture; draw words, columns and segments with att"):
        plots.overlay(result)
    with pytest.raises(TypeError, match=r"What is drawn is written by its figure: \.plot\(\)\.savefig\('a\.png'\)\.$"):
        result.plot("a.png")  # type: ignore[call-overload]

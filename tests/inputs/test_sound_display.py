"""How sounds are shown: waveform and spectrogram in colour, a player in a page, and back from a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.collections import QuadMesh
from matplotlib.image import AxesImage

import cocoax
from cocoax.inputs import Sound
from cocoax.inputs.display import load_display, save_display
from cocoax.inputs.sound import FREQUENCIES
from cocoax.report import Section, write_report
from tests.pages import EVIL, Page
from tests.sounds import RATE, tone


def shown(bands: int = 1, samples: int = 1000, **options: Any) -> cocoax.Attribution:
    values = torch.linspace(-1, 2, 4 * bands)
    waveform = torch.from_numpy(np.resize(tone(50), samples))
    metadata = {"target": options.pop("target", "low rather than $high$")}
    return cocoax.Attribution(values, 0.5, 0.1, display=Sound(waveform, RATE, 4, bands), metadata=metadata, **options)


@pytest.mark.parametrize("samples", [1000, 60_000])
def test_plot__waveform(samples: int) -> None:
    ax = shown(samples=samples).plot().axes[0]
    assert ax.get_xlabel() == "seconds"
    assert ax.get_ylabel() == ""
    assert ax.get_xlim() == (0, samples / RATE)
    assert ax.get_title() == "low rather than $high$ score +0.500"
    (mesh,) = [part for part in ax.collections if isinstance(part, QuadMesh)]
    np.testing.assert_allclose(mesh.get_array(), torch.linspace(-1, 2, 4)[None])
    assert mesh.get_clim() == (-2, 2)
    drawn = ax.lines[0].get_ydata() if samples == 1000 else ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (np.min(drawn), np.max(drawn)) == pytest.approx((-0.5, 0.5), abs=0.01)
    plt.close("all")


def test_plot__spectrogram() -> None:
    result = shown(bands=3, neutral=0.25)
    ax = result.plot(title="a title", limit=5.0).axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("seconds", "Hz", "a title")
    assert ax.get_ylim() == (0, 500)
    (mesh,) = [part for part in ax.collections if isinstance(part, QuadMesh)]
    np.testing.assert_allclose(mesh.get_array(), (result.values - 0.25).view(4, 3).T)  # rows are bands, from low to high
    assert mesh.get_clim() == (-5, 5)
    (spectrogram,) = [part for part in ax.get_children() if isinstance(part, AxesImage)]
    loudest = np.asarray(spectrogram.get_array()).mean(1).argmax()
    assert loudest * 500 / (FREQUENCIES - 1) == pytest.approx(50, abs=2)
    plt.close("all")


@pytest.mark.parametrize("bands", [1, 3])
def test_plot__hatches_what_is_not_known(bands: int) -> None:
    errors = torch.zeros(4 * bands)
    errors[[0, -1]] = 5.0
    result = shown(bands, standard_error=errors)
    ax = result.plot().axes[0]
    places = [(patch.get_xy(), patch.get_width(), patch.get_height()) for patch in ax.patches if patch.get_hatch()]
    low, high = (0.0, 500 * (bands - 1) / bands) if bands > 1 else (-0.5, -0.5)
    height = 500 / bands if bands > 1 else 1.0
    expected = [((0.0, low), 0.25, height), ((0.75, high), 0.25, height)]
    assert [np.hstack(place) for place in sorted(places)] == [pytest.approx(np.hstack(place), abs=0.02) for place in expected]
    assert "hatched: not known" in ax.figure.axes[1].get_ylabel()
    assert result.html().count("repeating-linear-gradient") == 2
    assert "repeating-linear-gradient" not in shown(bands).html()
    plt.close("all")


def test_plot__on_given_axes_without_a_bar() -> None:
    figure, ax = plt.subplots()
    assert shown().plot(ax, colour_bar=False) is ax
    assert len(figure.axes) == 1
    for wrong in ({"opacity": 2}, {"limit": 0}):
        with pytest.raises(ValueError, match=rf"The '{next(iter(wrong))}' parameter must"):
            shown().plot(ax, **wrong)
    plt.close("all")


@pytest.mark.parametrize("bands", [1, 3])
def test_plot__silence_and_nothing_found(bands: int) -> None:
    display = Sound(torch.zeros(1000), RATE, 2, bands)
    cocoax.Attribution(torch.zeros(2 * bands), 0.0, 0.0, display=display).plot().figure.canvas.draw()
    assert "0.00)" in cocoax.Attribution(torch.zeros(2 * bands), 0.0, 0.0, display=display).html()
    plt.close("all")


@pytest.mark.parametrize("bands", [1, 3])
def test_panel__draws_the_input_too(bands: int) -> None:
    figure = cocoax.plots.panel([shown(bands), shown(bands)], same_scale=True)
    assert [ax.get_title() for ax in figure.axes[:3]] == ["input", *["low rather than $high$\nscore +0.500"] * 2]
    assert [ax.get_xlabel() for ax in figure.axes[:3]] == ["seconds"] * 3
    plt.close("all")


def test_html__parts_have_colours_times_and_values() -> None:
    fragment = shown(bands=2, neutral=0.5, standard_error=torch.full((8,), 0.125)).html(limit=1.5)
    assert fragment.startswith('<div class="cocoax-sound"><audio controls')
    parts = re.findall(r'rgba\(([\d, ]+), ([\d.]+)\)" title="([^"]*)"', fragment)
    assert len(parts) == 8
    assert parts[0][2] == "0.00-0.25 s, 250-500 Hz: -1.071 ± 0.125"  # high bands are on top
    assert parts[4][2] == "0.00-0.25 s, 0-250 Hz: -1.500 ± 0.125"
    assert (parts[4][:2], parts[3][:2]) == (("33, 102, 172", "0.85"), ("178, 24, 43", "0.85"))
    assert "<small>0 s</small><small>0 to 500 Hz upwards</small><small>1.00 s</small>" in fragment
    assert "Hz" not in shown().html()
    with pytest.raises(ValueError, match="'limit' parameter must be above 0"):
        shown().html(limit=-1.0)


def test_report__holds_the_player_and_loads_nothing(tmp_path: Path) -> None:
    result = shown(target=EVIL)
    assert result.html() in result._repr_html_()
    section = Section(result.name, html=result.html(), figure=result.plot().get_figure())  # type: ignore[arg-type]
    path = write_report(tmp_path / "report.html", EVIL, [section])
    page = Page(path)
    assert (page.count("audio"), page.count("script"), page.count("img")) == (1, 0, 1)
    addresses = [value for _, attributes in page.elements for name, value in attributes.items() if name in ("src", "href")]
    assert [str(value)[:22] for value in addresses] == ["data:audio/wav;base64,", "data:image/png;base64,"]
    assert not re.search(r"https?:|//|@import|url\(", re.sub(r"base64,[A-Za-z0-9+/=]+", "", path.read_text(encoding="utf-8")))
    plt.close("all")


def test_display__is_kept_in_files() -> None:
    display = shown(bands=3).display
    tensors, header = save_display(display)
    again = load_display(tensors, header)
    assert isinstance(again, Sound)
    assert isinstance(display, Sound)
    assert torch.equal(again.waveform, display.waveform)
    assert again.names == display.names

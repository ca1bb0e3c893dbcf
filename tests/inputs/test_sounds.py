"""Sounds as inputs: what users hold, what the features are, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image

import cocoax
from cocoax.inputs import Sound, Sounds
from cocoax.inputs.sound import _FREQUENCIES
from cocoax.masking.removals import Silence
from cocoax.spaces import same_space
from tests.sounds import RATE, Ear, hum, listener, pitch, tone


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files of different formats, rates, channels and lengths."""
    soundfile.write(tmp_path / "a.wav", tone(50), RATE)
    soundfile.write(tmp_path / "b.flac", np.stack([tone(80, 1.5, 8000)] * 2, axis=1), 8000)
    soundfile.write(tmp_path / "c.wav", tone(90, 0.8, 4000), 4000)
    return tmp_path


# --- what users hold --------------------------------------------------------------------------------------------------


def test_prepare__everything_that_is_the_same_sound(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "tone.wav", tone(50), RATE, subtype="FLOAT")
    kind, samples = Sounds(RATE), tone(50)
    same: list[Any] = [
        *(samples, torch.from_numpy(samples), samples[:, None], samples[None]),
        *((samples, RATE), (RATE, samples), (torch.from_numpy(samples)[None], RATE), (float(RATE), samples)),
        *(tmp_path / "tone.wav", str(tmp_path / "tone.wav"), kind.explicand(samples), torch.from_numpy(samples)[None]),
    ]
    for item in same:
        assert kind.is_one(item), item
        (alone,) = list(kind.each(item)[0])
        assert torch.equal(kind.prepare(alone), torch.from_numpy(samples)[None]), item
        assert torch.equal(kind.explicand(alone).tensor, torch.from_numpy(samples)[None]), item


def test_prepare__resamples_and_scales() -> None:
    whole = (tone(440, rate=44_100) * 32768).astype(np.int16)
    (samples,) = Sounds(16_000).prepare((44_100, whole))
    assert len(samples) == 16_000
    assert pitch(samples, 16_000) == 440
    assert float(samples[2000:-2000].max()) == pytest.approx(0.5, abs=2e-3)


def test_each__many(folder: Path) -> None:
    kind = Sounds(RATE)
    assert [path.name for path in kind.each(folder)[0]] == ["a.wav", "b.flac", "c.wav"]
    assert kind.each(str(folder))[1] == 3
    pair = (tone(50), 2 * RATE)
    for many in ([tone(50), tone(60)], (tone(50), tone(60)), (pair, pair), [pair, pair], (folder / "a.wav", tone(50))):
        assert not kind.is_one(many)
        assert len(list(kind.each(many)[0])) == 2
    batch = torch.from_numpy(np.stack([tone(50)] * 3))
    assert [kind.prepare(row).shape for row in kind.each(batch)[0]] == [(1, 1000)] * 3
    assert [kind.prepare(row).shape for row in kind.each(batch[:, None])[0]] == [(1, 1000)] * 3


def test_reference__of_different_lengths(folder: Path) -> None:
    encoder = listener()
    reference = encoder.reference(folder, keep_samples=True)
    assert (reference.count, reference.name) == (3, folder.name)
    assert reference.samples is not None
    for row, name in zip(reference.samples, ("a.wav", "b.flac", "c.wav"), strict=True):
        torch.testing.assert_close(row, encoder.represent(folder / name)[0])
    mixed = [tone(50), (tone(80, 1.5, 8000), 8000), tone(90, 0.8), tone(60)]
    torch.testing.assert_close(encoder.represent(mixed), torch.cat([encoder.represent(item) for item in mixed]))
    assert encoder.reference(mixed).name == "4 sounds"


def test_reference__is_cached_by_content(folder: Path) -> None:
    encoder = listener()
    assert isinstance(encoder.module, Ear)
    for inputs in (folder, [(tone(50, 2.0), RATE), tone(70)]):
        encoder.reference(inputs)
        before = encoder.module.inputs
        encoder.reference(inputs)
        assert encoder.module.inputs == before + 1  # the probe
    encoder.reference([(tone(50, 2.0), 2 * RATE), tone(70)])  # the same samples, but twice as fast
    assert encoder.module.inputs > before


def test_preprocess__is_done_once() -> None:
    encoder = listener(preprocess=lambda samples: samples * 0.5)
    half = listener().represent(0.5 * tone(50))
    torch.testing.assert_close(encoder.represent([tone(50)]), half)
    torch.testing.assert_close(encoder.reference([tone(50)]).mean.float(), half[0])
    torch.testing.assert_close(encoder.represent([encoder.explicand(tone(50))]), half)
    assert not same_space(encoder.space, listener().space)


def test_settings__segments_and_cells_share_a_space() -> None:
    segments, cells = listener(), listener("cells")
    for other in (cells, listener(segments=3, longest=5)):
        assert same_space(segments.space, other.space)
    assert segments.fingerprint != cells.fingerprint
    torch.testing.assert_close(segments.represent(tone(50, 1.024)), cells.represent(tone(50, 1.024)), atol=1e-5, rtol=1e-5)


def test_digest__of_samples_and_rate() -> None:
    kind = Sounds(RATE)
    long = np.zeros(5000, np.float32)
    other = long.copy()
    other[2500] = 1  # which printing leaves out
    assert kind.digest((long, RATE)) == kind.digest((long.copy(), RATE)) != kind.digest((other, RATE))
    assert kind.digest((long, RATE)) != kind.digest((long, 2 * RATE))


# --- what the features are --------------------------------------------------------------------------------------------


def test_explicand__segments() -> None:
    explicand = listener(segments=3).explicand(tone(50)[:10])
    assert explicand.feature_ids is not None
    assert explicand.feature_ids.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert explicand.shape == (3,)
    assert explicand.names == ("0.0000-0.0033 s", "0.0033-0.0067 s", "0.0067-0.0100 s")
    assert listener(segments=2).explicand(tone(50)).names == ("0.00-0.50 s", "0.50-1.00 s")
    names = listener(segments=40).explicand(tone(50)).names
    assert names is not None
    assert len(set(names)) == 40
    assert names[:2] == ("0.000-0.025 s", "0.025-0.050 s")


def test_explicand__cells() -> None:
    explicand = listener("cells", segments=2, bands=3).explicand(tone(50))
    assert explicand.tensor.shape == (2, _FREQUENCIES, 9)  # 1000 samples are filled up to 1024
    assert explicand.feature_ids is not None
    assert explicand.feature_ids.shape == (_FREQUENCIES, 9)
    for frequency in range(_FREQUENCIES):
        for frame in range(9):
            segment, band = frame * 2 // 9, frequency * 3 // _FREQUENCIES
            assert int(explicand.feature_ids[frequency, frame]) == segment * 3 + band
    assert explicand.names == tuple(
        f"{time} s, {band} Hz" for time in ("0.00-0.51", "0.51-1.02") for band in ("0-167", "167-333", "333-500")
    )


@pytest.mark.parametrize("features", ["segments", "cells"])
def test_to_module__gives_the_samples_back(features: str) -> None:
    encoder = listener(features)
    explicand = encoder.explicand(hum(1.024))
    heard = encoder.inputs.to_module(explicand.tensor[None])
    assert heard.shape == (1, 1, 1024)
    torch.testing.assert_close(heard[0, 0], torch.from_numpy(hum(1.024)), atol=1e-5, rtol=0)
    assert isinstance(explicand.display, Sound)
    assert torch.equal(explicand.display.waveform, heard[0, 0])
    encoder.represent(hum(1.024))
    assert isinstance(encoder.module, Ear)
    assert encoder.module.heard[1:] == (1, 1024)


def test_to_module__a_removed_cell_is_quiet_then_and_there() -> None:
    """Two tones; the higher one is removed from the second half."""
    encoder = listener("cells", segments=2, bands=2)
    explicand = encoder.explicand(tone(60, 4.096) + tone(400, 4.096))
    kept = torch.tensor([[1.0, 1.0, 1.0, 0.0]])
    masked = Silence().masked(explicand, torch.zeros_like(explicand.tensor), kept)
    heard = encoder.inputs.to_module(masked)[0, 0].numpy()
    for part, both in ((heard[200:1800], True), (heard[2300:3900], False)):
        spectrum = np.abs(np.fft.rfft(part * np.hanning(1600))) / 400
        assert spectrum[round(60 * 1.6)] == pytest.approx(0.5, abs=0.02)
        assert spectrum[round(400 * 1.6)] == pytest.approx(0.5 if both else 0.0, abs=0.02)


def test_explicand__a_module_of_double_precision() -> None:
    encoder = cocoax.Encoder(Ear().double(), inputs=Sounds(RATE, features="cells", segments=4, bands=2))
    target = cocoax.representation_similarity()
    assert cocoax.Rise(samples=20).explain(encoder, hum(), target).score == pytest.approx(1)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"rate": 0},
        {"rate": float("nan")},
        {"rate": "16000"},
        {"rate": 1, "segments": 0},
        {"rate": 1, "bands": 2.5},
        {"rate": 1, "features": "words"},
        {"rate": 1, "longest": 0},
        {"rate": 1, "longest": "60"},
    ],
)
def test_sounds__options(options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=f"'{list(options)[-1]}' parameter must be"):
        Sounds(**options)


@pytest.mark.parametrize(
    ("item", "kind", "message"),
    [
        ([0.1, 0.2, 0.3], TypeError, r"Input 0: A sound must be a file, .*; a list holds many sounds. Got float instead"),
        (([0.1, 0.2], RATE), TypeError, r"Samples must be an array or a tensor. Got list instead; write np.array"),
        (7, TypeError, "Inputs must be one sound or an iterable of them. Got int"),
        ((tone(50), "fast"), ValueError, "a rate of 'fast'; it must be a number of samples per second above 0"),
        (np.array(3.0), ValueError, r"must be numbers \[T\]"),
        (np.full(100, np.nan), ValueError, "100 samples that are not finite"),
        (np.zeros((2, 1000)), ValueError, r"\[2, 1000\] may be two sounds or two channels of one; write list\(samples\)"),
        (np.zeros((32, 32, 3), np.uint8), ValueError, r"Got uint8 \[32, 32, 3\] instead, which looks like pictures"),
        (torch.zeros(3, 32, 32), ValueError, r"Got torch.float32 \[3, 32, 32\] instead, which looks like pictures"),
        (Image.new("RGB", (8, 8)), TypeError, "Inputs must be one sound or an iterable of them. Got Image"),
        ([Image.new("RGB", (8, 8))], TypeError, "A sound must be a file, .* Got Image instead"),
    ],
)
def test_represent__wrong(item: Any, kind: type[Exception], message: str) -> None:
    for features in ("segments", "cells"):
        with pytest.raises(kind, match=message):
            listener(features).represent(item)
        with pytest.raises(kind, match=message.removeprefix("Input 0: ")):
            cocoax.Rise(samples=20).run(listener(features), item)


def test_represent__two_channels_or_two_sounds() -> None:
    both, encoder = np.stack([tone(50), tone(80)]), listener()
    assert len(encoder.represent(list(both))) == 2
    torch.testing.assert_close(encoder.represent((both, RATE)), encoder.represent(both.mean(0)))
    torch.testing.assert_close(encoder.represent(both.T), encoder.represent(both.mean(0)))


def test_represent__files_that_are_none(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "picture.png")
    (tmp_path / "text.wav").write_text("not a sound")
    for name in ("picture.png", "text.wav"):
        with pytest.raises(ValueError, match=rf"Input 0: .*{name} is not a sound that can be read"):
            listener().represent(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"Input 0: No file at .*none.wav"):
        listener().represent(tmp_path / "none.wav")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"No sounds below .*empty"):
        listener().reference(tmp_path / "empty")


def test_reference__skips_what_is_wrong(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", tone(50), RATE)
    (tmp_path / "b.wav").write_text("not a sound")
    with pytest.warns(UserWarning, match=r"1 input was skipped \(Input 1: .*b.wav is not a sound"):
        reference = listener().reference(tmp_path, on_error="skip")
    assert (reference.count, reference.name) == (1, tmp_path.name)


def test_explicand__too_short_for_its_features() -> None:
    with pytest.raises(ValueError, match=r"has 5 samples, too few for 6 segments of 'ear'; .* fewer with segments="):
        listener().explicand(tone(50)[:5])
    with pytest.raises(ValueError, match=r"has 4 spectra \(one for each 128 samples\), too few for 6 segments"):
        listener("cells").explicand(tone(50)[:5])
    with pytest.raises(ValueError, match=r"There are 257 frequencies, too few for 300 bands; ask for fewer"):
        listener("cells", bands=300).explicand(tone(50))


@pytest.mark.parametrize("result", [torch.zeros(1, 5), torch.zeros(5).long(), np.zeros(5)])
def test_preprocess__gives_something_else(result: Any) -> None:
    with pytest.raises(TypeError, match=r"The encoder's preprocess must return samples \[T\], a float tensor. Got"):
        listener(preprocess=lambda _samples: result).represent([tone(50)])


def test_represent__a_module_that_fails_says_what_to_check() -> None:
    with torch.random.fork_rng():
        encoder = cocoax.Encoder(torch.nn.Linear(7, 2), inputs=Sounds(RATE), name="deaf")
    with pytest.raises(RuntimeError, match=r"The encoder 'deaf' failed on a batch .* Check the rate and the length"):
        encoder.represent(tone(50))


def test_picture_encoder__given_a_sound(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "tone.wav", tone(50), RATE)
    with pytest.raises(ValueError, match=r"tone.wav is not an image that can be read; expected JPEG, PNG, WebP"):
        cocoax.Encoder(torch.nn.Identity()).represent(tmp_path / "tone.wav")
    with pytest.raises(ValueError, match=r"No pictures below"):
        cocoax.Encoder(torch.nn.Identity()).reference(tmp_path)

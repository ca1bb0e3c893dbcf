"""Resemblyzer's speaker encoder: the network against a slow version in NumPy, and against the original package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.signal import stft
from scipy.special import expit

import cocoax
from cocoax.encoders.families import resemblyzer as source
from cocoax.encoders.families.resemblyzer import _mel_filters, _MinimumLoudness, _SpeakerNetwork, _window_starts
from cocoax.spaces import same_space

installed = pytest.mark.skipif(importlib.util.find_spec("resemblyzer") is None, reason="resemblyzer is not installed")

# What the original package (resemblyzer 0.1.4, librosa 0.11.0) makes of `voice()`:
#     embedding = VoiceEncoder("cpu").embed_utterance(voice()); the eight largest of its 256 numbers, by their place
ORIGINAL = {
    146: 0.269747,
    246: 0.250402,
    218: 0.243996,
    122: 0.232017,
    120: 0.200074,
    127: 0.16694,
    132: 0.165693,
    248: 0.161717,
}
# librosa.filters.mel(sr=16000, n_fft=400, n_mels=40) at a few places
ORIGINAL_FILTERS = {(0, 1): 0.0073902095, (0, 2): 0.0124045210, (39, 190): 0.0012151540}
# wav_to_mel_spectrogram(voice())[100] at a few bands
ORIGINAL_SPECTRUM = {0: 0.57418126, 5: 0.22566397, 20: 0.0097213248}
# [part.start for part in VoiceEncoder.compute_partial_slices(samples, 1.3, 0.75)[1]]
ORIGINAL_STARTS = {1: [0], 16_000: [0], 25_600: [0], 40_000: [0, 77], 48_000: [0, 77, 154], 160_000: [*range(0, 848, 77)]}


def voice() -> np.ndarray:
    """2.5 s of something like a vowel: 19 harmonics of a rising tone, swelling three times a second."""
    times = np.arange(40_000) / 16_000
    harmonics = sum(np.sin(2 * np.pi * k * (110 * times + 15 * times**2)) / k for k in range(1, 20))
    return (0.2 * harmonics * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * times))).astype(np.float32)


@pytest.fixture(scope="module")
def encoder() -> cocoax.Encoder:
    return cocoax.load("resemblyzer", segments=10)


# --- slow versions ----------------------------------------------------------------------------------------------------


def slow_filters() -> np.ndarray:
    """Slaney's triangles, point by point."""

    def hertz(mel: float) -> float:
        return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)

    top = 15 + 27 * np.log(8) / np.log(6.4)
    edges = [hertz(top * index / 41) for index in range(42)]
    filters = np.zeros((40, 201))
    for band, (low, middle, high) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        for index in range(201):
            frequency = index * 40.0
            if low < frequency <= middle:
                filters[band, index] = (frequency - low) / (middle - low)
            elif middle < frequency < high:
                filters[band, index] = (high - frequency) / (high - middle)
        filters[band] *= 2 / (high - low)
    return filters


def slow_spectra(samples: np.ndarray) -> np.ndarray:
    """Power on the mel scale ``[frames, 40]``, by SciPy."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    options = {"nperseg": 400, "noverlap": 240, "boundary": "zeros", "padded": False}
    spectrum = stft(samples.astype(np.float64), window=window, **options)[2] * window.sum()
    return (slow_filters() @ np.abs(spectrum) ** 2).T


def slow_lstm(inputs: np.ndarray, network: _SpeakerNetwork) -> np.ndarray:
    """The last hidden state of the last layer, step by step."""
    weights = {name: tensor.detach().double().numpy() for name, tensor in network.lstm.named_parameters()}
    for layer in range(3):
        hidden, cell, outputs = np.zeros(256), np.zeros(256), []
        for step in inputs:
            gates = weights[f"weight_ih_l{layer}"] @ step + weights[f"bias_ih_l{layer}"]
            gates += weights[f"weight_hh_l{layer}"] @ hidden + weights[f"bias_hh_l{layer}"]
            enter, forget, new, leave = np.split(gates, 4)
            cell = expit(forget) * cell + expit(enter) * np.tanh(new)
            hidden = expit(leave) * np.tanh(cell)
            outputs.append(hidden)
        inputs = np.stack(outputs)
    return inputs[-1]


def slow_embedding(samples: np.ndarray, network: _SpeakerNetwork) -> np.ndarray:
    starts = ORIGINAL_STARTS[len(samples)]
    padded = np.pad(samples, (0, max(0, (starts[-1] + 160) * 160 - len(samples))))
    spectra = slow_spectra(padded)
    total = np.zeros(256)
    with torch.no_grad():
        weight, bias = network.linear.weight.double().numpy(), network.linear.bias.double().numpy()
    for start in starts:
        vector = np.maximum(0, weight @ slow_lstm(spectra[start : start + 160], network) + bias)
        total += vector / np.linalg.norm(vector)
    return total / np.linalg.norm(total)


# --- the parts --------------------------------------------------------------------------------------------------------


def test_mel_filters__are_slaneys_triangles() -> None:
    filters = _mel_filters()
    np.testing.assert_allclose(filters, slow_filters(), atol=1e-8)
    for place, value in ORIGINAL_FILTERS.items():
        assert float(filters[place]) == pytest.approx(value, rel=1e-5)


def test_spectra__are_power_on_the_mel_scale() -> None:
    spectra = _SpeakerNetwork().spectra(torch.from_numpy(voice())[None])[0]
    slow = slow_spectra(voice())
    assert spectra.shape == slow.shape == (251, 40)
    np.testing.assert_allclose(spectra, slow, atol=1e-5 * slow.max(), rtol=1e-4)
    for band, value in ORIGINAL_SPECTRUM.items():
        assert float(spectra[100, band]) == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize(("samples", "starts"), ORIGINAL_STARTS.items())
def test_window_starts__are_those_of_the_original(samples: int, starts: list[int]) -> None:
    assert _window_starts(samples) == starts


def test_louder__raises_quiet_sounds_only() -> None:
    loud, quiet = torch.from_numpy(voice()), torch.from_numpy(voice()) * 0.01
    assert torch.equal(_MinimumLoudness()(loud), loud)
    assert 20 * float(_MinimumLoudness()(quiet).square().mean().sqrt().log10()) == pytest.approx(-30, abs=1e-3)
    assert torch.equal(_MinimumLoudness()(torch.zeros(10)), torch.zeros(10))


# --- the encoder ------------------------------------------------------------------------------------------------------


@installed
@pytest.mark.parametrize("samples", [16_000, 40_000])
def test_encoder__equals_the_slow_version(encoder: cocoax.Encoder, samples: int) -> None:
    assert isinstance(encoder.module, _SpeakerNetwork)
    embedding = encoder.represent(voice()[:samples])[0]
    np.testing.assert_allclose(embedding, slow_embedding(voice()[:samples], encoder.module), atol=2e-6)


@installed
def test_encoder__equals_the_original_package(encoder: cocoax.Encoder) -> None:
    embedding = encoder.represent(voice())[0]
    assert {index: pytest.approx(float(embedding[index]), abs=2e-6) for index in ORIGINAL} == ORIGINAL
    assert sorted(embedding.topk(8).indices.tolist()) == sorted(ORIGINAL)
    assert int((embedding > 0).sum()) == 127
    assert float(embedding.norm()) == pytest.approx(1)


@installed
def test_encoder__does_not_import_the_package(encoder: cocoax.Encoder) -> None:
    assert "resemblyzer" not in sys.modules
    assert "librosa" not in sys.modules
    assert encoder.name == "resemblyzer"
    assert encoder.represent((8000, voice()[::2])).shape == (1, 256)


@installed
def test_encoder__explains(encoder: cocoax.Encoder) -> None:
    target = cocoax.representation_similarity()
    sound = voice()[:16_000]
    methods: list[cocoax.Method] = [
        cocoax.Rise(samples=20),
        cocoax.Rise(samples=20, baseline="noise"),
        cocoax.IntegratedGradients(steps=3),
    ]
    for kind in (encoder, cocoax.load("resemblyzer", features="cells", segments=5, bands=4)):
        for method in methods:
            result = method.explain(kind, sound, target)
            assert result.values.shape == ((10,) if kind is encoder else (20,))
            assert torch.isfinite(result.values).all()
            assert float(result.values.std()) > 0
            assert result.score == pytest.approx(1, abs=1e-5)


@installed
def test_load__segments_and_cells_share_references(encoder: cocoax.Encoder) -> None:
    assert same_space(cocoax.load("resemblyzer", features="cells").space, encoder.space)


def test_load__not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_name: str) -> Any:
        return None

    monkeypatch.setattr(source.importlib.util, "find_spec", nothing)
    with pytest.raises(ImportError, match=r"weights of the package 'resemblyzer'; pip install --no-deps resemblyzer==0.1.4"):
        source.load_resemblyzer()


def test_load__other_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pretrained.pt").write_bytes(b"something else")
    monkeypatch.setattr(source, "_weights", lambda: tmp_path / "pretrained.pt")
    with pytest.raises(ValueError, match=r"pretrained.pt"):
        source.load_resemblyzer()

"""Removing parts of a sound: silence, noise of the same spectrum, the mean, another sound; and how they are blended."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

import cocoax
from cocoax.inputs.sound import from_spectra, to_spectra
from cocoax.masking import resolve
from cocoax.masking.removals import Silence, SpectralNoise
from tests.sounds import RATE, hum, listener, tone

SOUND = torch.from_numpy(hum(2.0))


def magnitudes(samples: Tensor) -> Tensor:
    return torch.fft.rfft(samples.double()).abs()


def power(spectra: Tensor) -> Tensor:
    """The mean power of each frequency, over time."""
    return spectra.double().square().sum(0).mean(1)


def test_silence__is_zero() -> None:
    for tensor in (SOUND[None], to_spectra(SOUND)):
        assert torch.equal(Silence()(tensor), torch.zeros_like(tensor))


@pytest.mark.parametrize("length", [2000, 1999, 3, 2])
def test_noise__has_the_sounds_spectrum(length: int) -> None:
    sound = SOUND[:length] + 0.1  # with a mean of its own
    noise = SpectralNoise()(sound[None])
    assert noise.shape == (1, length)
    assert noise.dtype == torch.float32
    before = magnitudes(sound)
    torch.testing.assert_close(magnitudes(noise[0]), before, atol=1e-4 * float(before.max()), rtol=1e-4)
    torch.testing.assert_close(noise.mean(), sound.mean())


def test_noise__has_no_course_in_time() -> None:
    """All of the sound is in its first half, and half of the noise."""
    sound = torch.cat([SOUND, torch.zeros(2000)])
    halves = SpectralNoise()(sound[None]).view(2, -1).square().sum(1)
    assert 0.35 < float(halves[0] / halves.sum()) < 0.65


def test_noise__is_seeded() -> None:
    assert torch.equal(SpectralNoise(3)(SOUND[None]), SpectralNoise(3)(SOUND[None]))
    assert not torch.equal(SpectralNoise(3)(SOUND[None]), SpectralNoise(4)(SOUND[None]))


def test_noise__of_silence_is_silence() -> None:
    assert float(SpectralNoise()(torch.zeros(1, 1000)).abs().max()) == 0
    assert float(SpectralNoise()(to_spectra(torch.zeros(1000))).abs().max()) == 0


def test_noise__of_spectra_is_as_loud_at_every_frequency() -> None:
    draws = torch.from_numpy(np.random.default_rng(0).standard_normal(2049)).float()
    sound = draws[1:] + 0.6 * draws[:-1]  # less of the high frequencies
    spectra = to_spectra(sound)
    noises = [SpectralNoise(seed)(spectra) for seed in range(100)]
    assert noises[0].shape == spectra.shape
    assert torch.equal(noises[0], SpectralNoise(0)(spectra))
    # Over many seeds and a few frequencies, since one frequency of one sound has few independent windows.
    ratio = torch.stack([power(noise) for noise in noises]).mean(0) / power(spectra)
    wide = torch.nn.functional.avg_pool1d(ratio[None], 16, 16)[0]
    assert float((wide - 1).abs().max()) < 0.15
    heard = torch.stack([from_spectra(noise[None])[0].std() for noise in noises])
    torch.testing.assert_close(heard, sound.std().expand(100), rtol=1e-3, atol=0)  # also when put together again


def test_mean__is_the_mean_of_samples_and_of_spectra() -> None:
    tensor = SOUND[None] + 0.25
    torch.testing.assert_close(cocoax.Mean()(tensor), tensor.mean().expand(1, 2000))
    spectra = to_spectra(SOUND)
    torch.testing.assert_close(cocoax.Mean()(spectra)[:, 5, 3], spectra.flatten(1).mean(1))


@pytest.mark.parametrize("features", ["segments", "cells"])
def test_resolve__names(features: str) -> None:
    kind = listener(features).inputs
    assert resolve(None, kind) == resolve("silence", kind) == Silence()
    assert resolve("noise", kind) == SpectralNoise(seed=0)
    assert resolve("mean", kind) == cocoax.Mean()
    assert resolve(SpectralNoise(seed=5), kind) == SpectralNoise(5)


def test_resolve__another_sound(tmp_path: Path) -> None:
    kind = listener().inputs
    soundfile.write(tmp_path / "other.wav", tone(100), RATE, subtype="FLOAT")
    for other in (tone(100), (tone(100), RATE), tmp_path / "other.wav"):
        baseline = resolve(other, kind)
        assert torch.equal(baseline.baseline_input(kind.explicand(tone(50))), torch.from_numpy(tone(100))[None])
    shorter = resolve(tone(100)[:900], kind)
    with pytest.raises(ValueError, match=r"shape \[1, 900\] but the input has \[1, 1000\]"):
        shorter.baseline_input(kind.explicand(tone(50)))


def test_resolve__wrong() -> None:
    advice = r"Sounds take baseline='silence', 'noise' \(of the sound's own spectrum\) or 'mean', or another sound"
    with pytest.raises(ValueError, match=rf"{advice}.* Got 'blur' instead"):
        resolve("blur", listener().inputs)
    with pytest.raises(ValueError, match=rf"Blur is for images. {advice}"):
        resolve(cocoax.Blur(), listener().inputs)
    with pytest.raises(ValueError, match=r"Silence is for sounds"):
        resolve(Silence(), cocoax.Encoder(torch.nn.Identity()).inputs)


@pytest.mark.parametrize("features", ["segments", "cells"])
@pytest.mark.parametrize("removal", ["silence", "noise", "mean", "another"])
def test_masked__blends_element_by_element(features: str, removal: str) -> None:
    kind = listener(features).inputs
    explicand = kind.explicand(hum())
    chosen = resolve(hum(seed=3) if removal == "another" else removal, kind)
    baseline_input = chosen.baseline_input(explicand)
    kept = torch.rand(5, *explicand.shape, generator=torch.Generator().manual_seed(0))
    kept[0], kept[1] = 0, 1
    masked = chosen.masked(explicand, baseline_input, kept)
    assert isinstance(masked, Tensor)
    assert explicand.feature_ids is not None
    sound, nothing, members, parts = (
        explicand.tensor.numpy(),
        baseline_input.numpy(),
        explicand.feature_ids.numpy(),
        kept.numpy(),
    )
    slow = np.empty((5, *sound.shape), np.float32)
    for row in range(5):
        for place in np.ndindex(*sound.shape):
            part = parts[row, members[place[-members.ndim :]]]
            slow[row][place] = part * sound[place] + (1 - part) * nothing[place]
    np.testing.assert_allclose(masked, slow, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(masked[0], baseline_input)
    torch.testing.assert_close(masked[1], explicand.tensor)

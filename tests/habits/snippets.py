"""What people type first, from the habits of other libraries and before they have read our documentation.

Each function is one snippet. Its parameters are what such a person already has (tests/habits/things.py makes them by name),
and it ends in what they expect to get. They are not examples to follow, and are not to be bent towards the library.
"""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import cocoax
from tests.habits.catalogue import needs
from tests.habits.things import assert_same

# Devices and precision.


def device_by_argument_and_environment() -> None:
    """sentence-transformers: ``device="cpu"``; a cluster's job script: a variable, and an error that names a wrong one."""
    encoder = cocoax.load("minilm", device="cpu")
    assert encoder.device == torch.device("cpu")
    assert encoder.encode(["a cat", "a dog"]).shape == (2, 384)
    os.environ["COCOAX_DEVICE"] = "cuda:99"
    with pytest.raises(Exception, match="cuda:99"):
        cocoax.load("minilm")


def move_and_cast(encoder: Any, images: Tensor) -> None:
    """PyTorch: ``model.to(device)`` and ``model.to(dtype)`` return the model, and ``model(x)`` is its output."""
    encoder = encoder.to("cpu")
    assert encoder(images).dtype == torch.float32
    encoder = encoder.to(torch.float64)
    representations = encoder(images)
    assert representations.dtype == torch.float64
    assert representations.shape == (6, 8)


# References from embeddings that one already has.


def embeddings_one_already_has(
    encoder: Any, images: Tensor, embeddings: np.ndarray, frame: pd.DataFrame, folder: Path
) -> None:
    """FAISS, pandas, an embeddings API: an array, a mapped file, lists, a column of vectors; scikit-learn's weights."""
    np.save(folder / "embeddings.npy", embeddings)
    mapped = np.load(folder / "embeddings.npy", mmap_mode="r")
    corpus = cocoax.Reference.from_representations(embeddings)
    for rows in (mapped, embeddings.tolist(), frame["embedding"]):
        assert_same(encoder, images[0], cocoax.Reference.from_representations(rows), corpus)
    first = cocoax.Reference.from_representations(embeddings, weights=[1, 0, 0, 0, 0, 0])
    assert_same(encoder, images[0], first, cocoax.Reference.from_representations(embeddings[:1]))


@needs("datasets", "pyarrow")
def hugging_face_datasets(encoder: Any, images: Tensor, embeddings: np.ndarray) -> None:
    """Hugging Face datasets: rows are dicts, and a column of vectors is an Arrow column."""
    from datasets import Dataset

    rows = Dataset.from_dict({"image": images.numpy(), "embedding": embeddings}).with_format("torch")
    arrow = rows.with_format("arrow")[:]["embedding"]
    assert_same(encoder, images[0], encoder.reference(rows, key="image"), encoder.reference(images))
    assert_same(
        encoder,
        images[0],
        cocoax.Reference.from_representations(rows["embedding"]),
        cocoax.Reference.from_representations(arrow),
    )


def rows_by_label(encoder: Any, images: Tensor, labels: np.ndarray) -> None:
    """NumPy and pandas: choose rows by a mask, and count them."""
    reference = encoder.reference(images)
    cats = reference[labels == "cat"]
    assert len(reference) == 6
    assert len(cats) == 3
    assert_same(encoder, images[1], cats, encoder.reference(images[[0, 2, 5]]))
    assert_same(encoder, images[1], cats, reference.where(labels == "cat"))


# References from what a training loop already has.


def loader_of_tensors(encoder: Any, images: Tensor, loader: DataLoader[Tensor]) -> None:
    """PyTorch training loop: a DataLoader, or a generator that does something to its batches first."""
    corpus = encoder.reference(loader)
    moved = encoder.reference(batch.to("cpu") for batch in loader)
    assert_same(encoder, images[0], corpus, encoder.reference(images))
    assert_same(encoder, images[0], moved, corpus)


def dataset_of_pairs(encoder: Any, images: Tensor, dataset: TensorDataset) -> None:
    """torchvision: a Dataset of ``(image, label)``, a subset of it, or its DataLoader; the labels are not looked at."""
    corpus = encoder.reference(dataset)
    some = encoder.reference(torch.utils.data.Subset(dataset, [0, 2, 4]))
    batches = encoder.reference(DataLoader(dataset, batch_size=4, shuffle=True))
    assert_same(encoder, images[0], corpus, encoder.reference(images))
    assert_same(encoder, images[0], some, encoder.reference(images[::2]))
    assert_same(encoder, images[0], batches, corpus)


def loader_of_dicts(encoder: Any, images: Tensor) -> None:
    """Hugging Face Trainer: batches are dicts."""
    rows = [{"image": image, "label": number} for number, image in enumerate(images)]
    corpus = encoder.reference(DataLoader(rows, batch_size=4), key="image")
    assert_same(encoder, images[0], corpus, encoder.reference(images))


def columns_of_pandas(photo_encoder: Any, text_encoder: Any, photo: Image.Image, frame: pd.DataFrame) -> None:
    """pandas: a column of paths and a column of texts, filtered."""
    cats = frame[frame["label"] == "cat"]
    pictures = photo_encoder.reference(cats["path"])
    texts = text_encoder.reference(cats["text"])
    assert_same(photo_encoder, photo, pictures, photo_encoder.reference(list(cats["path"])))
    assert_same(text_encoder, "a red car", texts, text_encoder.reference(list(cats["text"])))


def hard_negatives(encoder: Any, images: Tensor) -> None:
    """sentence-transformers and FAISS: the rows of a pool that lie nearest, to be used as the foil."""
    pool = encoder.reference(images)
    corpus = encoder.reference(images[:1])
    assert_same(encoder, images[1], corpus.nearest(pool, 1), corpus)
    assert isinstance(corpus.nearest(pool, 5), cocoax.Reference)


def question_of_references(photo_encoder: Any, photo: Image.Image, corpus: cocoax.Reference, foil: cocoax.Reference) -> None:
    """TCAV: this concept against that one, each of them examples already encoded."""
    question = cocoax.Question(corpus, foil)
    answers = cocoax.ask(photo_encoder, photo, question)
    assert isinstance(answers[0], cocoax.Answer)


# Models that are already in memory.


def live_sentence_transformer(sentence_transformer: Any) -> None:
    """sentence-transformers: the model of this session, not a name."""
    encoder = cocoax.wrap(sentence_transformer)
    texts = ["the cat", "a big red dog"]
    target = cocoax.similarity_to(encoder.reference(texts[:1]))
    result = cocoax.Rise(samples=20).explain(encoder, texts[1], target)
    assert np.allclose(encoder.encode(texts), sentence_transformer.encode(texts), atol=1e-5)
    assert len(result.values) == 4


def live_text_model(bert: nn.Module, tokenizer: Any) -> None:
    """Hugging Face: a model and its tokenizer."""
    encoder = cocoax.wrap(bert, tokenizer)
    target = cocoax.similarity_to(encoder.reference(["the cat"]))
    result = cocoax.Rise(samples=20).explain(encoder, "a big red dog", target)
    assert len(result.values) == 4


def live_vision_model(vit: Any, processor: Any, photos: list[Image.Image]) -> None:
    """Hugging Face: a vision model and its image processor."""
    encoder = cocoax.wrap(vit.base_model, processor)
    target = cocoax.similarity_to(encoder.reference(photos[1:]))
    result = cocoax.Rise(samples=20).explain(encoder, photos[0], target)
    assert result.values.shape == (32, 32)


@needs("timm")
def live_timm_model(timm_model: nn.Module, transform: Any, photos: list[Image.Image]) -> None:
    """timm and open_clip: a model and its transform."""
    encoder = cocoax.wrap(timm_model, transform)
    corpus = encoder.reference(photos[1:])
    result = cocoax.Rise(samples=20).explain(encoder, photos[0], cocoax.similarity_to(corpus))
    assert result.values.shape == (32, 32)


@needs("sklearn")
def live_sklearn_pipeline(table: pd.DataFrame) -> None:
    """scikit-learn: whatever has ``transform``, on a DataFrame."""
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), PCA(3)).fit(table)
    encoder = cocoax.wrap(pipeline)
    corpus = encoder.reference(table[table["age"] > 0])
    assert isinstance(corpus, cocoax.Reference)
    assert np.allclose(encoder.encode(table), pipeline.transform(table), atol=1e-5)
    assert cocoax.wrap(PCA(2).fit(table)).encode(table).shape == (20, 2)


def function_returning_numpy(photos: list[Image.Image]) -> None:
    """KernelSHAP and LIME: a prediction function from pictures to a NumPy array."""

    def embed(batch: Any) -> np.ndarray:
        return np.stack([np.asarray(picture, dtype=np.float32).mean((0, 1)) for picture in batch])

    encoder = cocoax.wrap(embed)
    corpus = encoder.reference(photos[1:])
    result = cocoax.Rise(samples=20).explain(encoder, photos[0], cocoax.similarity_to(corpus))
    assert result.values.shape == (32, 32)


def layer_as_a_module(model: Any, images: Tensor) -> None:
    """Captum: ``LayerGradCam(model, model.layer4)``."""
    encoder = cocoax.Encoder(model, layer=model.layer4)
    named = cocoax.Encoder(model, layer="layer4")
    target = cocoax.similarity_to(encoder.reference(images[1:]))
    result = cocoax.Rise(samples=20).explain(encoder, images[0], target)
    assert result.score == cocoax.Rise(samples=20).explain(named, images[0], target).score


# What comes out.


def result_as_an_array(result: Any) -> None:
    """NumPy and PyTorch: ``tensor.numpy()`` and ``np.asarray(tensor)``."""
    values = result.numpy()
    assert isinstance(values, np.ndarray)
    assert values.shape == (32, 32)
    assert np.array_equal(np.asarray(result), values)


def result_looked_at_and_kept(encoder: Any, corpus: Any, target: Any, text_result: Any, folder: Path) -> None:
    """scikit-learn and joblib: a line that can be read, the three words that matter most, and the same from a file."""
    text_result.save(folder / "dog.safetensors")
    again = cocoax.Attribution.load(folder / "dog.safetensors")
    assert all(len(repr(thing)) < 200 for thing in (encoder, corpus, target, text_result))
    assert len(text_result.top(3)) == 3
    assert again.top(3) == text_result.top(3)


def result_as_a_table(text_result: Any) -> None:
    """pandas: a row for each word, sorted by its value."""
    words = text_result.to_dataframe().sort_values("value", ascending=False)
    assert isinstance(words, pd.DataFrame)
    assert len(words) == len(text_result.values)
    assert words["value"].iloc[0] == pytest.approx(float(text_result.values.max()))


@needs("shap")
def result_in_a_shap_plot(text_result: Any) -> None:
    """SHAP: an ``Explanation``, drawn by ``shap.plots``."""
    import shap

    explanation = text_result.to_shap()
    shap.plots.bar(explanation, show=False)
    shap.plots.waterfall(explanation, show=False)
    assert isinstance(explanation, shap.Explanation)
    assert explanation.values.shape == (len(text_result.values),)


def target_pickled_and_copied(photo_encoder: Any, photo: Image.Image, target: cocoax.Target) -> None:
    """joblib and multiprocessing: whatever one has made can be pickled and copied."""
    targets = [target, pickle.loads(pickle.dumps(target)), copy.deepcopy(target)]
    scores = [answer.score for answer in cocoax.Rise(samples=20).explain(photo_encoder, photo, targets)]
    assert scores[0] == scores[1] == scores[2]


def arithmetic_of_targets(photo_encoder: Any, photo: Image.Image, corpus: cocoax.Reference, foil: cocoax.Reference) -> None:
    """PyTorch: losses are divided, summed by ``sum`` and negated; a name in a legend says which is which."""
    t, u = cocoax.similarity_to(corpus), cocoax.similarity_to(foil)
    targets = [t, u, t / 2, sum([t, u]), -t]
    one, other, half, both, minus = [a.score for a in cocoax.Rise(samples=20).explain(photo_encoder, photo, targets)]
    assert half == pytest.approx(one / 2)
    assert both == pytest.approx(one + other)
    assert minus == pytest.approx(-one)
    assert (-t).name.startswith(("-", "minus ", "not ", "unlike "))


def dict_of_targets(photo_encoder: Any, photo: Image.Image, target: cocoax.Target) -> None:
    """PyTorch: metrics are a dict of functions of the output, and so are their values."""
    targets = {"cats": target, "norm": lambda z: z.norm(dim=1), "first": lambda z: z[:, 0]}
    answers = cocoax.Rise(samples=20).explain(photo_encoder, photo, targets)
    assert list(answers) == ["cats", "norm", "first"]
    assert answers["norm"].values.shape == (32, 32)


def class_of_the_head(model: Any, transform: Any, vit: Any, processor: Any, photo: Image.Image) -> None:
    """Captum: the number of a class; Hugging Face: its name in ``config.id2label``."""
    number = cocoax.Rise(samples=20).explain(cocoax.Encoder(model, transform), photo, lambda logits: logits[:, 2])
    assert number.score == pytest.approx(float(model(transform(photo)[None])[0, 2]), abs=1e-4)
    named = cocoax.Rise(samples=20).explain(cocoax.wrap(vit, processor), photo, "cat")
    logits = vit(**processor(photo, return_tensors="pt")).logits
    assert named.score == pytest.approx(float(logits[0, 2]), abs=1e-4)


# In other libraries.


@needs("captum")
def captum_integrated_gradients(encoder: Any, images: Tensor, tensor_target: cocoax.Target) -> None:
    """Captum: a module, an input, no index of a class."""
    from captum.attr import IntegratedGradients

    module = tensor_target.as_module(encoder)
    attributions, delta = IntegratedGradients(module).attribute(images, n_steps=100, return_convergence_delta=True)
    assert attributions.shape == images.shape
    assert delta.abs().max() < 0.1


@needs("shap")
def shap_gradient_and_deep(encoder: Any, images: Tensor, tensor_target: cocoax.Target) -> None:
    """SHAP: a module and a background, then ``shap_values``."""
    import shap

    module = tensor_target.as_module(encoder, column=True)  # SHAP wants a column of scores
    gradient = shap.GradientExplainer(module, images[:4]).shap_values(images[4:], nsamples=20)
    deep = shap.DeepExplainer(module, images[:4]).shap_values(images[4:], check_additivity=False)
    assert np.squeeze(gradient).shape == (2, 3, 32, 32)
    assert np.squeeze(deep).shape == (2, 3, 32, 32)


@needs("shap")
def shap_partition_of_text(text_encoder: Any, text_target: cocoax.Target, tokenizer: Any) -> None:
    """SHAP: a model of texts and its tokenizer, which makes a PartitionExplainer."""
    import shap

    module = text_target.as_module(text_encoder)
    explainer = shap.PartitionExplainer(module, shap.maskers.Text(tokenizer))
    explanation = explainer(["a big red dog"], silent=True)
    assert explanation.values[0].shape[0] == len(tokenizer("a big red dog")["input_ids"])


@needs("captum")
def quantus_scores(encoder: Any, images: Tensor, tensor_target: cocoax.Target) -> None:
    """Quantus: the model gives a row of scores for each input, of which ``y_batch`` chooses one."""
    from captum.attr import Saliency

    module = tensor_target.as_module(encoder, column=True).eval()
    y_batch = torch.zeros(len(images), dtype=torch.long)
    maps = Saliency(module).attribute(images, target=y_batch)
    assert module(images).shape == (6, 1)
    assert module(images)[range(6), y_batch].shape == (6,)
    assert maps.shape == images.shape


@needs("pytorch_grad_cam")
def grad_cam(pytorch_grad_cam: Any, encoder: Any, images: Tensor, tensor_target: cocoax.Target) -> None:
    """pytorch-grad-cam: a module, the layers in it, and nothing for the targets, which means the highest class."""
    module = tensor_target.as_module(encoder, column=True)  # a column is a classifier of one class
    cam = pytorch_grad_cam.GradCAM(model=module, target_layers=[module.module.layer4])
    heat = cam(input_tensor=images, targets=None)
    assert heat.shape == (6, 32, 32)


@needs("shapiq", "sklearn")
def shapiq_of_a_table(table: pd.DataFrame) -> None:
    """shapiq: a function of rows of a NumPy array."""
    import shapiq
    from sklearn.decomposition import PCA

    encoder = cocoax.wrap(PCA(2).fit(table))
    module = cocoax.similarity_to(encoder.reference(table[:5])).as_module(encoder)
    rows = table.to_numpy()
    explainer = shapiq.TabularExplainer(model=lambda x: module(torch.tensor(x)).numpy().ravel(), data=rows)
    assert explainer.explain(rows[0], budget=16).n_players == 4


# In a notebook.


def last_line_of_a_cell(result: Any) -> None:
    """Jupyter: a result is a picture."""
    html = result._repr_html_()
    assert "<img" in html
    assert "base64" in html


def panel_in_a_cell(result: Any) -> None:
    """matplotlib: a grid is a list of rows; a figure that is returned is shown once, not by pyplot as well."""
    figure = cocoax.plots.panel([[result, result, result], [result, result, result]])
    assert isinstance(figure, plt.Figure)
    assert len(figure.axes) >= 6
    assert plt.get_fignums() == []


def plot_with_options(result: Any) -> None:
    """matplotlib: ``plot`` takes what ``imshow`` takes."""
    drawn = result.plot(cmap="PiYG", alpha=0.4, vmax=0.5)
    heat = drawn.figure.axes[0].images[-1]
    assert heat.get_cmap().name == "PiYG"
    assert heat.get_clim()[1] == 0.5


def curve_plotted(photo_encoder: Any, photo: Image.Image, target: cocoax.Target, result: Any) -> None:
    """pandas: whatever is a series of numbers has ``plot``."""
    curve = cocoax.insertion(photo_encoder, photo, result, target, steps=5)
    drawn = curve.plot()
    assert len(drawn.figure.axes[0].lines) >= 1

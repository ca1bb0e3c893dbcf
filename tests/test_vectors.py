"""Stores of vectors: every kind gives the reference of its vectors, and bad rows are told by their number."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.feather
import pyarrow.parquet
import pytest
import torch

import cocoax
from cocoax import Reference, references

Recipe = Callable[..., Reference]
COOKBOOK = Path(__file__).parent.parent / "docs" / "how-to" / "cookbook.md"
LABELS = ["cat" if row % 3 else "dog" for row in range(50)]


def some(count: int = 50, dimension: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, dimension)).astype("float32")


def same(first: Reference, second: Reference) -> None:
    assert first.count == second.count
    torch.testing.assert_close(first.mean, second.mean, rtol=0, atol=1e-6)
    torch.testing.assert_close(first.mean_unit, second.mean_unit, rtol=0, atol=1e-6)


def parquet(folder: Path, **columns: Any) -> Path:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(columns), folder / "vectors.parquet")
    return folder / "vectors.parquet"


def in_faiss(recipe: Recipe, values: np.ndarray, folder: Path) -> Reference:
    faiss: Any = pytest.importorskip("faiss")
    index = faiss.IndexFlatIP(values.shape[1])
    index.add(values)
    return recipe(index, [row for row, label in enumerate(LABELS) if label == "cat"])


def in_lancedb(recipe: Recipe, values: np.ndarray, folder: Path) -> Reference:
    lancedb: Any = pytest.importorskip("lancedb")
    rows = [{"vector": vector, "label": label} for vector, label in zip(values, LABELS, strict=True)]
    return recipe(lancedb.connect(folder / "lance").create_table("vectors", rows), "label = 'cat'")


def in_qdrant(recipe: Recipe, values: np.ndarray, folder: Path) -> Reference:
    qdrant: Any = pytest.importorskip("qdrant_client")
    models, client = qdrant.models, qdrant.QdrantClient(path=str(folder / "qdrant"))
    try:
        client.create_collection("photos", models.VectorParams(size=values.shape[1], distance=models.Distance.DOT))
        rows = enumerate(zip(values.tolist(), LABELS, strict=True))
        client.upsert(
            "photos", [models.PointStruct(id=row, vector=own, payload={"label": label}) for row, (own, label) in rows]
        )
        label = models.FieldCondition(key="label", match=models.MatchValue(value="cat"))
        return recipe(client, "photos", models.Filter(must=[label]))
    finally:
        client.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("store", [in_faiss, in_lancedb, in_qdrant])
def test_from_vectors__recipes_of_the_cookbook(store: Callable[..., Reference], tmp_path: Path) -> None:
    section = COOKBOOK.read_text(encoding="utf-8").split("## The vectors of FAISS, LanceDB or Qdrant")[1]
    recipes: dict[str, Any] = {"cocoax": cocoax, "np": np}
    exec(section.split("```python")[1].split("```")[0].replace("8192", "7"), recipes)  # so that there are several batches
    wanted = torch.from_numpy(some()[np.array(LABELS) == "cat"])
    found = store(recipes[store.__name__.replace("in_", "from_")], some(), tmp_path)
    same(found, Reference.from_representations(wanted))


def test_from_vectors__files_and_tables_of_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "ROWS", 7)
    table = pyarrow.table({"vector": list(some()), "label": LABELS})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    pyarrow.feather.write_feather(table, str(tmp_path / "a.arrow"))
    wanted = Reference.from_representations(torch.from_numpy(some()[np.array(LABELS) == "cat"]))
    for source in (table, tmp_path / "a.parquet", tmp_path / "a.arrow"):
        for where in ({"label": "cat"}, pyarrow.compute.field("label") == "cat"):
            same(Reference.from_vectors(source, where=where), wanted)


@pytest.mark.parametrize("rows", [1, 7, 50])
def test_from_vectors__iterables(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "ROWS", 8)
    values, weights = some(), np.linspace(1, 2, 50)
    parts = [slice(start, start + rows) for start in range(0, 50, rows)]
    own = [part.start for part in parts] if rows == 1 else parts
    chosen = np.arange(50) % 3 == 0
    same(Reference.from_vectors(values[part] for part in own), Reference.from_vectors(values))
    same(Reference.from_vectors((values[part] for part in own), where=chosen), Reference.from_vectors(values, where=chosen))
    weighted = Reference.from_vectors(values, weights=weights)
    same(Reference.from_vectors((values[part] for part in own), weights=weights), weighted)
    same(Reference.from_vectors((values[part], weights[part]) for part in own), weighted)
    same(Reference.from_vectors(values.tolist()), Reference.from_vectors(values))


@pytest.mark.parametrize("where", [None, np.arange(50) % 2 == 0])
def test_from_vectors__rows_of_an_array(where: Any) -> None:
    values = some()
    chosen = values if where is None else values[where]
    for source in (values, torch.from_numpy(values)):
        reference = Reference.from_vectors(source, where=where, name="mine", keep_samples=True)
        same(reference, Reference.from_representations(torch.from_numpy(chosen)))
        assert reference.name == "mine"
        torch.testing.assert_close(reference.samples, torch.from_numpy(chosen))


def test_from_vectors__weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "AT_ONCE", 40)
    values, weights = some(), np.random.default_rng(1).random(50)
    reference = Reference.from_vectors(values, weights=weights)
    np.testing.assert_allclose(reference.mean, np.average(values, axis=0, weights=weights), atol=1e-6)
    units = values / np.linalg.norm(values, axis=1, keepdims=True)
    np.testing.assert_allclose(reference.mean_unit, np.average(units, axis=0, weights=weights), atol=1e-6)
    file = parquet(tmp_path, vector=list(values), weight=weights, label=LABELS)
    chosen = np.array(LABELS) == "dog"
    named = Reference.from_vectors(file, weights="weight", where={"label": ["dog", "fox"]})
    same(named, Reference.from_vectors(values, weights=weights, where=chosen))


def test_from_vectors__reads_a_memory_map_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "AT_ONCE", 60)
    values = some()
    np.save(tmp_path / "vectors.npy", values)
    sizes = [len(part) for part, _ in references.read_vectors(tmp_path / "vectors.npy")]
    assert sizes == [10] * 5
    same(Reference.from_vectors(str(tmp_path / "vectors.npy")), Reference.from_representations(torch.from_numpy(values)))


def test_from_vectors__a_target_of_the_encoder(encoder: cocoax.Encoder) -> None:
    pictures = torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    reference = Reference.from_vectors(encoder.represent(pictures), space=encoder.space)
    same(reference, encoder.reference(pictures))
    other = Reference.from_vectors(some(10, 5))
    with pytest.raises(ValueError, match=r"5 dimensions"):
        cocoax.Occlusion().explain(encoder, pictures[0], cocoax.similarity_to(other))


def broken(row: int, value: float) -> np.ndarray:
    values = some()
    values[row] = value
    return values


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (broken(17, np.nan), {}, r"row 17 is not finite"),
        (broken(33, 0.0), {}, r"row 33 is zero, so it has no direction"),
        (some()[0], {}, r"shape \[n, d\]. Got \[6\]"),
        (some(), {"where": np.zeros(50, bool)}, r"There are 0 vectors"),
        (some(), {"where": np.ones(5, bool)}, r"'where' has 5 entries but there are at least 50 rows"),
        (some(), {"where": np.ones(60, bool)}, r"'where' has 60 entries but there are 50 rows"),
        (some(), {"where": np.ones(50)}, r"one boolean for each row\. Got float64, \[50\]"),
        (some(), {"where": {"label": "cat"}}, r"An array has no columns"),
        (some(), {"column": "vector"}, r"An array has no columns"),
        (some(), {"weights": np.ones(3)}, r"'weights' has 3 entries but there are at least 50 rows"),
        (some(), {"weights": np.ones(60)}, r"'weights' has 60 entries but there are 50 rows"),
        (some(), {"weights": np.ones((50, 2))}, r"'weights' has shape \[50, 2\]"),
        (some(), {"weights": -np.ones(50)}, r"The weight of row 0 is -1.0"),
        (some(), {"weights": np.zeros(50)}, r"All weights are 0"),
        (some(0), {}, r"There are 0 vectors; select"),
        ([], {}, r"There are 0 vectors; select"),
        ([some(2), some(2, 5)], {}, r"Row 2 has a vector of 5 dimensions, but those before have 6"),
        ([[1.0, 2.0], [1.0]], {}, r"Row 1 has a vector of 1 dimensions, but those before have 2"),
        ([(some(2), [1.0])], {}, r"2 vectors come with weights of shape \[1\]"),
        ([(some(2), [1.0, 1.0])], {"weights": [1.0, 1.0]}, r"come with weights; leave out weights="),
        (iter([some()]), {"where": {"label": "cat"}}, r"An iterable of vectors has no columns"),
    ],
)
def test_from_vectors__mistakes(source: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Reference.from_vectors(source, **options)


def test_from_vectors__a_bad_row_can_be_left_out() -> None:
    kept = np.arange(50) != 17
    assert Reference.from_vectors(broken(17, np.nan), where=kept).count == 49


def test_from_vectors__a_row_without_a_vector_can_be_left_out(tmp_path: Path) -> None:
    file = parquet(tmp_path, vector=[[1.0, 2.0], [3.0], [3.0, 4.0], None], good=[True, False, True, False])
    for where in ([True, False, True, False], {"good": True}):
        same(Reference.from_vectors(file, where=where), Reference.from_vectors(np.array([[1.0, 2.0], [3.0, 4.0]])))


def test_from_vectors__mistakes_with_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No file at"):
        Reference.from_vectors(tmp_path / "nothing.npy")
    (tmp_path / "vectors.csv").write_text("1,2")
    with pytest.raises(TypeError, match=r"iterable of vectors .*Got .csv instead"):
        Reference.from_vectors(tmp_path / "vectors.csv")
    with pytest.raises(TypeError, match=r"Got dict instead"):
        Reference.from_vectors({})


def test_from_vectors__mistakes_with_columns(tmp_path: Path) -> None:
    file = parquet(tmp_path, embedding=list(some()), label=LABELS)
    with pytest.raises(ValueError, match=r"no column 'vector'; the columns are embedding, label; say which"):
        Reference.from_vectors(file)
    with pytest.raises(ValueError, match=r"no column 'year'; the columns are embedding, label"):
        Reference.from_vectors(file, column="embedding", where={"year": 1})
    with pytest.raises(ValueError, match=r"holds string; it must hold lists"):
        Reference.from_vectors(file, column="label")
    with pytest.raises(ValueError, match=r"There are 0 vectors where \{'label': 'fox'\}"):
        Reference.from_vectors(file, column="embedding", where={"label": "fox"})
    rows: list[Any] = [[1.0, 2.0], [3.0], None]
    with pytest.raises(ValueError, match=r"Row 2 has no vector"):
        Reference.from_vectors(parquet(tmp_path, vector=rows))
    with pytest.raises(ValueError, match=r"Row 1 has a vector of 1 dimensions, but those before have 2"):
        Reference.from_vectors(parquet(tmp_path, vector=rows[:2]))
    pc = pytest.importorskip("pyarrow.compute")
    with pytest.raises(ValueError, match=r"leaves row numbers unknown"):
        Reference.from_vectors(file, column="embedding", where=pc.field("label") == "cat", weights=np.ones(50))


def test_from_vectors__a_filter_of_another_store(tmp_path: Path) -> None:
    """What a store does not understand is never left out silently."""
    file = parquet(tmp_path, vector=list(some()), label=LABELS)
    with pytest.raises(TypeError, match=r"or an expression of pyarrow\. Got \"label = 'cat'\" instead"):
        Reference.from_vectors(file, where="label = 'cat'")
    with pytest.raises(TypeError, match=r"or an expression of pyarrow"):
        Reference.from_vectors(some(), where="label = 'cat'")
    with pytest.raises(ValueError, match=r"column 'label' cannot be weights, since it does not hold numbers"):
        Reference.from_vectors(file, weights="label")


def test_from_vectors__rows_that_a_store_has_selected_are_counted_among_those(tmp_path: Path) -> None:
    file = parquet(tmp_path, vector=list(broken(17, 0.0)), year=list(range(50)))
    pc = pytest.importorskip("pyarrow.compute")
    with pytest.raises(ValueError, match=r"The vector of row 7 of those that are selected is zero"):
        Reference.from_vectors(file, where=pc.field("year") >= 10)


def test_from_vectors__folders_and_tensors_of_arrow(tmp_path: Path) -> None:
    values = some()
    for number in range(2):
        (tmp_path / f"year={number}").mkdir()
        parquet(tmp_path / f"year={number}", vector=list(values[25 * number : 25 * number + 25]))
    same(Reference.from_vectors(tmp_path), Reference.from_vectors(values))
    pa = pytest.importorskip("pyarrow")
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    same(Reference.from_vectors(pa.table({"vector": tensors})), Reference.from_vectors(values))
    (tmp_path / "empty").mkdir()
    with pytest.raises(TypeError, match=r"Got a folder without Parquet files instead"):
        Reference.from_vectors(tmp_path / "empty")


def test_from_vectors__pyarrow_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vectors.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(ImportError, match=r"pip install 'cocoax\[vectors\]'"):
        Reference.from_vectors(tmp_path / "vectors.parquet")


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_from_vectors__damaged_file_is_named(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"vectors.{ending}"
    rows = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    if ending == "npy":
        np.save(path, rows)
    else:
        table = pyarrow.table({"v": pyarrow.array(rows.tolist(), pyarrow.list_(pyarrow.float32()))})
        pyarrow.parquet.write_table(table, path)
    whole = path.read_bytes()
    for place in (0, 8, 40, 60, len(whole) // 2, len(whole) - 2):
        path.write_bytes(whole[:place] + bytes(len(whole) - place))
        try:
            cocoax.Reference.from_vectors(path, column=None if ending == "npy" else "v")
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017


def test_from_vectors__what_is_said_of_rows_and_columns_names_the_file(tmp_path: Path) -> None:
    rows = np.ones((3, 2), np.float32)
    rows[1] = 0
    np.save(tmp_path / "a.npy", rows)
    pyarrow.parquet.write_table(pyarrow.table({"v": [[1.0], [2.0, 3.0]]}), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(
        pyarrow.table({"v": pyarrow.array([], pyarrow.list_(pyarrow.float32()))}), tmp_path / "no.parquet"
    )
    mistakes: list[tuple[str, dict[str, Any], str]] = [
        ("a.npy", {}, "The vector of row 1 is zero"),
        ("a.npy", {"where": [True, False, False], "weights": [0, 1, 1]}, "All weights are 0"),
        ("a.parquet", {}, "There is no column 'vector'"),
        ("a.parquet", {"column": "v"}, "Row 1 has a vector of 2 dimensions"),
        ("no.parquet", {"column": "v"}, "There are 0 vectors"),
    ]
    for name, options, message in mistakes:
        with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path / name))}: {message}"):
            Reference.from_vectors(tmp_path / name, **options)


def test_from_vectors__a_name_of_a_column_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"vvvv": [[1.0]]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"vvvv", b"vvv\xec"))
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read as vectors \('utf-8' codec"):
        Reference.from_vectors(path, column="vvvv")

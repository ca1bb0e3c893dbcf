"""References from the vectors that a search already has: one example for each kind of store.

    python examples/vector_stores.py

Every function takes vectors ``[n, d]`` and a label for each, puts them into a store, and makes a reference of those with one
label, without encoding anything. All of them are the same reference.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import cocoax


def from_array(vectors: np.ndarray, labels: list[str], wanted: str, folder: Path) -> cocoax.Reference:
    """A NumPy array on disk, mapped into memory."""
    np.save(folder / "vectors.npy", vectors)
    return cocoax.Reference.from_vectors(folder / "vectors.npy", where=np.array(labels) == wanted)


def from_parquet(vectors: np.ndarray, labels: list[str], wanted: str, folder: Path) -> cocoax.Reference:
    """A Parquet file with a column of vectors."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"embedding": list(vectors), "label": labels}), folder / "vectors.parquet")
    return cocoax.Reference.from_vectors(folder / "vectors.parquet", column="embedding", where={"label": wanted})


def from_arrow(vectors: np.ndarray, labels: list[str], wanted: str, folder: Path) -> cocoax.Reference:
    """An Arrow file, with a filter of pyarrow."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.feather as feather

    feather.write_feather(pa.table({"vector": list(vectors), "label": labels}), str(folder / "vectors.arrow"))
    return cocoax.Reference.from_vectors(folder / "vectors.arrow", where=pc.field("label") == wanted)


def from_faiss(vectors: np.ndarray, labels: list[str], wanted: str, folder: Path) -> cocoax.Reference:
    """A FAISS index; the rows come from elsewhere."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return cocoax.Reference.from_vectors(index, where=[row for row, label in enumerate(labels) if label == wanted])


def from_lancedb(vectors: np.ndarray, labels: list[str], wanted: str, folder: Path) -> cocoax.Reference:
    """A LanceDB table, with a filter in SQL."""
    import lancedb

    rows = [{"vector": vector, "label": label} for vector, label in zip(vectors, labels, strict=True)]
    table = lancedb.connect(folder / "lance").create_table("vectors", rows)
    return cocoax.Reference.from_vectors(table, where=f"label = '{wanted}'")


def from_qdrant(vectors: np.ndarray, labels: list[str], wanted: str, folder: Path) -> cocoax.Reference:
    """A collection of Qdrant, here in its local mode. With cosine distance Qdrant keeps unit vectors only."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(folder / "qdrant"))
    try:
        parameters = models.VectorParams(size=vectors.shape[1], distance=models.Distance.DOT)
        client.create_collection("vectors", vectors_config=parameters)
        points = [
            models.PointStruct(id=row, vector=vector.tolist(), payload={"label": label})
            for row, (vector, label) in enumerate(zip(vectors, labels, strict=True))
        ]
        client.upsert("vectors", points)
        return cocoax.Reference.from_vectors((client, "vectors"), where={"label": wanted})
    finally:
        client.close()


STORES = {
    "array": (from_array, "numpy"),
    "parquet": (from_parquet, "pyarrow"),
    "arrow": (from_arrow, "pyarrow"),
    "faiss": (from_faiss, "faiss"),
    "lancedb": (from_lancedb, "lancedb"),
    "qdrant": (from_qdrant, "qdrant_client"),
}


def main() -> None:
    """Make the same reference from every store that is installed."""
    vectors = np.random.default_rng(0).standard_normal((1000, 16)).astype("float32")
    labels = ["cat" if row % 3 else "dog" for row in range(len(vectors))]
    for name, (make, _) in STORES.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(name, make(vectors, labels, "cat", Path(folder)))
            except ImportError as error:
                print(name, "is not installed:", error)


if __name__ == "__main__":
    main()

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from cocoax.survey.items import Table, read_table

ROWS = [{"text": f"{number}", "stars": number} for number in range(5000)]


@pytest.mark.parametrize("kind", ["arrow", "pandas", "rows", "hugging face"])
def test_table__whatever_holds_it(kind: str) -> None:
    if kind == "hugging face":
        datasets = pytest.importorskip("datasets")
        table = Table.of(datasets.Dataset.from_list(ROWS))
    else:
        made = {"arrow": pa.Table.from_pylist, "pandas": pd.DataFrame}
        table = Table.of_rows(ROWS) if kind == "rows" else Table.of(made[kind](ROWS))  # type: ignore[operator]
    assert list(table.names) == ["text", "stars"]
    values = table.values("text")
    assert [getattr(values[n], "as_py", lambda n=n: values[n])() for n in (0, 4097, 4999)] == ["0", "4097", "4999"]
    assert [row["stars"] for row in table.rows("text")] == list(range(5000))  # type: ignore[index]
    assert list(table.rows(None)) == ROWS


def test_table__of_one_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet", None)
    assert list(table.rows("text")) == [{}, {}]


def test_read_table__what_is_in_it_is_not_decoded(tmp_path: Path) -> None:
    content = {"bytes": b"no picture", "path": None}
    for suffix, write in (("parquet", pq.write_table), ("feather", pyarrow.feather.write_feather)):
        write(pa.table({"image": [content]}), tmp_path / f"a.{suffix}")
        assert read_table(tmp_path / f"a.{suffix}", None).values("image")[0].as_py() == content


def test_read_table__numbers_with_leading_zeros_are_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label,size,share\na,001,1,0.50\nb,002,0,-0.1\nc,,,\n")
    rows = list(read_table(tmp_path / "a.csv", None).rows("text"))
    assert [tuple(row.values()) for row in rows] == [("001", 1, 0.5), ("002", 0, -0.1), (None, None, None)]  # type: ignore[union-attr]
    assert [row["label"] for row in read_table(tmp_path / "a.csv", None, ["label"]).rows("text")] == [1, 2, None]  # type: ignore[index]


def test_table__columns_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label,label\na,1,2\n")
    with pytest.raises(ValueError, match="There are several columns called 'label'; give each a name of its own"):
        read_table(tmp_path / "a.csv", None)
    with pytest.raises(ValueError, match="several columns called 'label'"):
        Table.of(pd.DataFrame([["a", 1, 2]], columns=["text", "label", "label"]))


def test_read_table__bytes_that_are_no_letters(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a \xff"}\n')
    assert list(read_table(tmp_path / "a.jsonl", None).rows(None)) == [{"text": "a \ufffd"}]

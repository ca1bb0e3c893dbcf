"""Items of a data set: folders, tables and data frames."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from scipy.io import wavfile

import cocoax
from cocoax.data.labelled import LabelledImages
from cocoax.inputs import Inputs
from cocoax.survey.items import Item, column_types, natural_key, open_items
from tests.kinds import Recordings
from tests.sounds import RATE, listener, tone
from tests.survey import photos
from tests.towers import two_towers


@pytest.fixture
def pictures() -> Inputs:
    return photos.encoder().inputs


@pytest.fixture
def texts() -> Inputs:
    encoder: cocoax.Encoder = two_towers().text
    return encoder.inputs


def test_natural__sorts_as_people_do() -> None:
    assert sorted(["b10", "b9", "a", "b"], key=natural_key) == ["a", "b", "b9", "b10"]


def test_folder__the_folder_is_the_label_and_hidden_files_are_none(tmp_path: Path, pictures: Inputs) -> None:
    photos.write(tmp_path, 1)
    (tmp_path / ".cache").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / ".cache" / "x.png")
    Image.new("RGB", (4, 4)).save(tmp_path / "top.png")
    items = open_items(tmp_path, pictures)
    assert [(item.id, dict(item.columns)) for item in items] == [
        ("dawn/0.png", {"label": "dawn"}),
        ("dusk/0.png", {"label": "dusk"}),
        ("top.png", {}),
    ]


def test_folder__of_texts(tmp_path: Path, texts: Inputs) -> None:
    (tmp_path / "a.txt").write_text(" a cat \n")
    (tmp_path / "b.png").write_bytes(b"")
    (item,) = open_items(tmp_path, texts)
    assert (item.id, item.load()) == ("a.txt", "a cat")
    (tmp_path / "a.txt").unlink()  # after it was listed: it fails, and not the others with it
    with pytest.raises(FileNotFoundError):
        item.load()


@pytest.mark.parametrize("suffix", ["parquet", "csv", "tsv", "jsonl", "feather"])
def test_tables__hold_texts_in_a_column_and_carry_the_others(tmp_path: Path, texts: Inputs, suffix: str) -> None:
    frame = pd.DataFrame({"body": ["a cat", "a dog\nor two"], "stars": [3, 5], "name": ["x", "y"]})
    path = tmp_path / f"table.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "feather":
        frame.to_feather(path)
    elif suffix == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in frame.to_dict("records")))
    else:
        frame.to_csv(path, index=False, sep="," if suffix == "csv" else "\t")
    items = open_items(path, texts, column="body", id_column="name")
    assert [(item.id, item.load()) for item in items] == [("x", "a cat"), ("y", "a dog\nor two")]
    assert dict(items[0].columns) == {"stars": 3}
    frames = open_items(frame, texts, column="body", id_column="name")
    assert [item.load() for item in frames] == [item.load() for item in items]


def test_tables__paths_are_relative_to_the_table_and_pictures_may_be_inside(tmp_path: Path, pictures: Inputs) -> None:
    photos.write(tmp_path, 1)
    (tmp_path / "list.csv").write_text("file\ndawn/0.png\n")
    (item,) = open_items(tmp_path / "list.csv", pictures)
    assert item.load() == tmp_path / "dawn" / "0.png"
    file = io.BytesIO()
    Image.fromarray(photos.pixels("dawn", 3)).save(file, "PNG")
    pq.write_table(pa.table({"image": [{"bytes": file.getvalue(), "path": None}]}), tmp_path / "inside.parquet")
    (item,) = open_items(tmp_path / "inside.parquet", pictures)
    assert item.load() == file.getvalue()


def test_tables__what_is_wrong_with_one_row_is_told_when_its_turn_comes(
    tmp_path: Path, texts: Inputs, pictures: Inputs
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a cat\u2028or so", "code": "007"}\n{"text": null, "code": "08"}\n')
    good, bad = open_items(tmp_path / "a.jsonl", texts, id_column="code")
    assert (good.id, bad.id) == ("007", "08")
    with pytest.raises(ValueError, match="holds None here, which is no text"):
        bad.load()
    (tmp_path / "b.csv").write_text("text,code,day\na cat,007,2020-01-02\n")
    (item,) = open_items(tmp_path / "b.csv", texts, "text", "code")
    assert item.id == "007"
    assert item.columns["day"] == "2020-01-02"
    pq.write_table(pa.table({"image": [{"bytes": b"no picture", "path": None}]}), tmp_path / "c.parquet")
    (item,) = open_items(tmp_path / "c.parquet", pictures)
    assert item.load() == b"no picture"  # which the kind refuses as it refuses such a file


@pytest.mark.parametrize("kind", ["pandas", "csv", "parquet"])
def test_tables__a_missing_value_is_none(tmp_path: Path, pictures: Inputs, kind: str) -> None:
    paths, labels = [None, "a.png", "b.png", "c.png"], ["x", np.nan, None, "NA"]
    frame = pd.DataFrame({"path": paths, "label": pd.Series(labels, dtype=object), "size": [1.5, np.nan, 2.0, 3.0]})
    frame["day"] = pd.to_datetime(["2020-01-01", None, "2020-01-03", "2020-01-04"])
    frame["count"] = pd.array([1, None, 2, 3], dtype="Int64")
    data: Any = frame
    if kind != "pandas":
        data = tmp_path / f"a.{kind}"
        getattr(frame, f"to_{kind}")(data, index=False)
    items = open_items(data, pictures, "path")
    assert [item.columns["label"] for item in items] == ["x", None, None, "NA"]  # a word that is written is a value
    assert [item.columns[name] for item in items[1:2] for name in ("size", "day", "count")] == [None] * 3
    assert column_types(items) == {"count": "int64", "day": "string", "label": "string", "size": "double"}
    assert [item.source for item in items] == ["0", "a.png", "b.png", "c.png"]
    with pytest.raises(ValueError, match=r"The table holds (None|nan) here, which is no image"):
        items[0].load()


def test_tables__an_empty_text_and_an_empty_id_are_told(tmp_path: Path, texts: Inputs) -> None:
    (tmp_path / "a.csv").write_text('text,code\n"",1\na cat,\nnull,2\n')
    empty, _, good = open_items(tmp_path / "a.csv", texts, "text")
    with pytest.raises(ValueError, match="The table holds None here, which is no text"):
        empty.load()
    assert good.load() == "null"
    with pytest.raises(ValueError, match="Row 1 has no 'code', which tells rows apart"):
        open_items(tmp_path / "a.csv", texts, id_column="code")


def test_tables__where_an_input_lies_is_kept(tmp_path: Path, texts: Inputs, pictures: Inputs) -> None:
    photos.write(tmp_path, 2)
    (tmp_path / "list.csv").write_text("file,code\ndawn/0.png,a\ndusk/1.png,b\n")
    named = open_items(tmp_path / "list.csv", pictures, id_column="code")
    assert [(item.id, item.source) for item in named] == [("a", "dawn/0.png"), ("b", "dusk/1.png")]
    frame = pd.DataFrame({"text": ["a cat", "a dog"], "code": ["a", "b"]})
    assert [item.source for item in open_items(frame, texts, id_column="code")] == ["0", "1"]
    assert [item.source for item in open_items(tmp_path / "dawn", pictures)] == ["0.png", "1.png"]


def test_items__what_no_file_can_hold_is_escaped() -> None:
    item = Item("a\udcff.png", None, {"label": "\ud800", "hash": 2**64 - 1})
    assert (item.id, item.source, item.columns["label"]) == ("a\\udcff.png", "a\\udcff.png", "\\ud800")
    assert column_types([item]) == {"hash": "string", "label": "string"}
    assert column_types([Item("0", None, {"n": -(2**63)}), Item("1", None, {"n": 2**63 - 1})]) == {"n": "int64"}


def test_items__a_part_of_a_tensor_is_sent_alone() -> None:
    pictures = torch.arange(1000 * 192.0).view(1000, 3, 8, 8)
    items = open_items(pictures, photos.encoder().inputs)
    packed = pickle.dumps(items[:3])
    assert len(packed) < 10_000
    assert torch.equal(pickle.loads(packed)[2].load(), pictures[2])


def test_frames__rows_of_an_encoder_of_columns(tmp_path: Path) -> None:
    kind = cocoax.TabularEncoder(torch.nn.Tanh(), columns=["b", "a"], background=torch.ones(1, 2), name="rows").inputs
    frame = pd.DataFrame({"a": [1.0, 2.0], "name": ["x", "y"], "b": [3.0, 4.0], "code": [7, 8]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for data in (frame, tmp_path / "rows.csv"):
        items = open_items(data, kind, id_column="code")
        assert [(item.id, item.load(), dict(item.columns)) for item in items] == [
            ("7", [3.0, 1.0], {"name": "x"}),
            ("8", [4.0, 2.0], {"name": "y"}),
        ]
    with pytest.raises(ValueError, match="There is no column 'b'; the columns are a, name"):
        open_items(frame[["a", "name"]], kind)


def test_images__with_labels(pictures: Inputs) -> None:
    images = np.stack([photos.pixels("dawn", 0), photos.pixels("dusk", 1)])
    items = open_items(LabelledImages(images, np.array([1, 0]), ["dusk", "dawn"]), pictures)
    assert [(item.id, item.columns["label"]) for item in items] == [("0", "dawn"), ("1", "dusk")]


def test_labels__belong_to_inputs_by_their_place(pictures: Inputs) -> None:
    images = [photos.pixels("dawn", seed) for seed in range(5)]
    shuffled = pd.Series(list("abcde"), index=[4, 2, 3, 0, 1])
    for labels in (shuffled, {"label": shuffled}, pd.DataFrame({"label": shuffled}), iter("abcde"), np.array(list("abcde"))):
        assert [item.columns["label"] for item in open_items(images, pictures, labels=labels)] == list("abcde")
    for wrong in ("label", {"label": "label"}, {"label": set("abcde")}, {"label": dict.fromkeys("abcde")}, 5):
        with pytest.raises(TypeError, match="Values of 'label' must be a list"):
            open_items(images, pictures, labels=wrong)


def test_bad__each_with_its_sentence(tmp_path: Path, pictures: Inputs, texts: Inputs) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"There are no images in .*empty; files end in"):
        open_items(tmp_path / "empty", pictures)
    with pytest.raises(FileNotFoundError, match="No file or folder at"):
        open_items(tmp_path / "nowhere", pictures)
    with pytest.raises(ValueError, match="There are no images in what was given"):
        open_items([], pictures)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(ValueError, match="There is no column 'text'; the columns are x, y"):
        open_items(tmp_path / "a.csv", texts, column="text")
    with pytest.raises(ValueError, match="Say which column holds the texts by column=; the columns are x, y"):
        open_items(tmp_path / "a.csv", texts)
    with pytest.raises(ValueError, match="The column 'x' holds numbers such as 1, which are no texts"):
        open_items(tmp_path / "a.csv", texts, column="x")
    (tmp_path / "b.jsonl").write_text('{"text": "a cat", "n": 1}\n{"text": "a dog", "n": 1}\n')
    with pytest.raises(ValueError, match="1 ids occur more than once, such as '1'"):
        open_items(tmp_path / "b.jsonl", texts, id_column="n")
    (tmp_path / "d.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(ValueError, match="cannot be read as a table"):
        open_items(tmp_path / "d.parquet", texts)
    (tmp_path / "e.zip").write_bytes(b"")
    with pytest.raises(ValueError, match="is no table; a data set is a folder, or a file ending in"):
        open_items(tmp_path / "e.zip", texts)


def test_folder__of_sounds(tmp_path: Path) -> None:
    (tmp_path / "high").mkdir()
    wavfile.write(tmp_path / "high" / "a.wav", RATE, tone(300))
    (tmp_path / "high" / "notes.txt").write_text("no sound")
    encoder = listener()
    (item,) = open_items(tmp_path, encoder.inputs)
    assert (item.id, item.columns["label"]) == ("high/a.wav", "high")
    assert encoder.explicand(item.load()).tensor.numel() == RATE


def test_folder__with_parts_is_read_by_its_split(tmp_path: Path, pictures: Inputs) -> None:
    for part, synset in (("train", "n01440764"), ("val", "n01443537")):
        photos.write(tmp_path / part / synset, 1)
        for picture in (tmp_path / part / synset).rglob("*.png"):
            picture.rename(tmp_path / part / synset / f"{picture.parent.name}.png")
        for kind in ("dawn", "dusk"):
            (tmp_path / part / synset / kind).rmdir()
    train = open_items(tmp_path, pictures)
    assert [item.columns["label"] for item in train] == ["tench", "tench"]
    assert [item.columns["label"] for item in open_items(tmp_path, pictures, split="test")] == ["goldfish"] * 2


def test_hugging_face__a_data_set_on_disk(tmp_path: Path, pictures: Inputs, texts: Inputs) -> None:
    datasets = pytest.importorskip("datasets")
    images = [Image.fromarray(photos.pixels("dawn", seed)) for seed in range(3)]
    columns = {"image": images, "text": ["a", "b", "c"], "stars": [1, 2, 3]}
    features = datasets.Features(
        {"image": datasets.Image(), "text": datasets.Value("string"), "stars": datasets.Value("int64")}
    )
    whole = datasets.Dataset.from_dict(columns, features)
    whole.save_to_disk(str(tmp_path / "one"))
    items = open_items(tmp_path / "one", pictures, "image")
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(items[2].load()))), photos.pixels("dawn", 2))
    assert dict(items[2].columns) == {"text": "c", "stars": 3}
    assert pickle.loads(pickle.dumps(items[2])).load() == items[2].load()
    many = datasets.Dataset.from_dict({"text": ["x" * 1000] * 100})  # in memory, of which one row is sent alone
    assert len(pickle.dumps(open_items(many, texts)[3])) < 2000
    datasets.DatasetDict({"test": whole}).save_to_disk(str(tmp_path / "parts"))
    read = open_items(tmp_path / "parts", texts, split="test", column="text")
    assert [item.load() for item in read] == ["a", "b", "c"]
    with pytest.raises(ValueError, match=r"has no part 'train'; it has test\. Say which by split="):
        open_items(tmp_path / "parts", texts, column="text")


class Shelf(Recordings):
    """Recordings that say themselves what a folder holds: files, or arrays that have no path."""

    noun = "series"

    def __init__(self, loaded: bool) -> None:
        super().__init__()
        self.loaded = loaded

    def many(self, inputs: Any) -> Any:
        files = inputs.rglob("*.npy")
        return [torch.from_numpy(np.load(file)) for file in files] if self.loaded else files


def test_folder__of_a_kind_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "pause").mkdir()
    for name in ("pause/10.npy", "pause/9.npy", "top.npy"):
        np.save(tmp_path / name, np.ones((2, 3), np.float32))
    items = open_items(tmp_path, Shelf(loaded=False))
    assert [(item.id, dict(item.columns)) for item in items] == [
        ("pause/9.npy", {"label": "pause"}),
        ("pause/10.npy", {"label": "pause"}),
        ("top.npy", {}),
    ]
    assert items[2].value == tmp_path / "top.npy"
    assert [item.id for item in open_items(tmp_path, Shelf(loaded=True))] == ["0", "1", "2"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=rf"There are no series in {tmp_path / 'empty'}; nothing can be asked about"):
        open_items(tmp_path / "empty", Shelf(loaded=False))


@pytest.mark.parametrize("kind", ["arrow", "pandas", "hugging face"])
def test_tables__whatever_holds_them(kind: str, texts: Inputs) -> None:
    rows = [{"text": f"{number}", "stars": number} for number in range(5000)]
    if kind == "hugging face":
        data = pytest.importorskip("datasets").Dataset.from_list(rows).select(range(4999, -1, -1))
    else:
        data = {"arrow": pa.Table.from_pylist, "pandas": pd.DataFrame}[kind](rows[::-1])  # type: ignore[operator]
    items = open_items(data, texts, "text")
    assert [item.load() for item in items] == [row["text"] for row in rows[::-1]]
    assert [item.columns["stars"] for item in items] == [row["stars"] for row in rows[::-1]]


def test_tables__numbers_with_leading_zeros_are_names(tmp_path: Path, texts: Inputs) -> None:
    (tmp_path / "a.csv").write_text("text,label,size,share\na,001,1,0.50\nb,002,0,-.1e1\nc,,,\n")
    items = open_items(tmp_path / "a.csv", texts, "text")
    assert [tuple(item.columns.values()) for item in items] == [("001", 1, 0.5), ("002", 0, -1.0), (None, None, None)]
    assert column_types(items) == {"label": "string", "size": "int64", "share": "double"}


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.csv", b"text,label,label\na,1,2\n", "several columns are called 'label'"),
        ("a.csv", b"text,label\na,b,c\n", "row 2 has 3 cells for 2 columns"),
        ("a.csv", b"", "Say which column holds the texts by column=; the columns are none"),
        ("a.csv", b"text\n\xff\n", "cannot be read as a table"),
        ("a.jsonl", b'{"text": "a"}\nnothing\n', "line 2 is no JSON"),
        ("a.jsonl", b'["a list"]', "line 1 is no JSON object"),
        ("a.parquet", b"PAR1 but not really", "cannot be read as a table"),
        ("a.zip", b"", "is no table; a data set is a folder, or a file ending in"),
    ],
)
def test_tables__that_are_none(name: str, content: bytes, why: str, tmp_path: Path, texts: Inputs) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=why):
        open_items(tmp_path / name, texts)

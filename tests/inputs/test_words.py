"""Words, sentences and the tokens that belong to them, in any script."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocoax.inputs.text import check_features, group, paragraphs, sentences, words


def pieces(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[begin:end] for begin, end in spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The violinist's car, well-known!", ["The", "violinist's", "car", ",", "well", "-", "known", "!"]),
        ("it costs 3.14 € don't", ["it", "costs", "3.14", "€", "don't"]),
        ("  two\n\nlines\t", ["two", "lines"]),
        ("我爱北京。", ["我", "爱", "北", "京", "。"]),
        ("カタカナ です", ["カタカナ", "で", "す"]),
        ("مرحبا بالعالم!", ["مرحبا", "بالعالم", "!"]),
        ("שלום עולם", ["שלום", "עולם"]),
        ("e\u0301te\u0301 naïve", ["e\u0301te\u0301", "naïve"]),
        ("a 👩‍👩‍👧 🇩🇪 👍🏽", ["a", "👩‍👩‍👧", "🇩🇪", "👍🏽"]),
        ("", []),
        (" \n", []),
    ],
)
def test_words__of_many_scripts(text: str, expected: list[str]) -> None:
    assert pieces(text, words(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("He said “Go.” Then he left", ["He said “Go.”", "Then he left"]),
        ("It costs 3.14 e.g. here. Yes", ["It costs 3.14 e.g. here.", "Yes"]),
        ("我爱北京。你呢？好", ["我爱北京。", "你呢？", "好"]),
        ("A title\n\nand a paragraph", ["A title", "and a paragraph"]),
        ("no end", ["no end"]),
        ("كيف حالك؟ أنا بخير", ["كيف حالك؟", "أنا بخير"]),
    ],
)
def test_sentences__by_punctuation(text: str, expected: list[str]) -> None:
    assert pieces(text, sentences(text)) == expected


@given(st.text(max_size=40))
def test_words__cover_everything_but_space_once_and_in_order(text: str) -> None:
    for spans in (words(text), sentences(text)):
        assert "".join("".join(pieces(text, spans)).split()) == "".join(text.split())
        assert all(begin < end for begin, end in spans)
        assert all(one[1] <= other[0] for one, other in pairwise(spans))


TEXT = "big violins, car"


def test_group__tokens_belong_to_the_word_they_share_most_with() -> None:
    tokens = [None, (0, 3), (3, 10), (10, 11), (11, 12), (12, 16), None]  # a space counted to "violin"
    spans, members = group(TEXT, tokens, "words")
    assert pieces(TEXT, spans) == ["big", "violins", ",", "car"]
    assert members == [-1, 0, 1, 1, 2, 3, -1]


def test_group__word_without_tokens_is_no_feature() -> None:
    spans, members = group(TEXT, [(0, 3), (13, 16)], "words")
    assert pieces(TEXT, spans) == ["big", "car"]
    assert members == [0, 1]


def test_group__token_of_nothing_but_space_goes_with_the_one_before() -> None:
    spans, members = group("a  b", [(0, 1), (1, 3), (3, 4)], "words")
    assert members == [0, 0, 1]
    assert len(spans) == 2
    assert group("  b", [(0, 2), (2, 3)], "words")[1] == [0, 0]  # or with the first


def test_group__tokens_are_features_of_their_own() -> None:
    spans, members = group(TEXT, [None, (0, 3), (3, 10), (10, 11), None], "tokens")
    assert pieces(TEXT, spans) == ["big", "violin", "s"]
    assert members == [-1, 0, 1, 2, -1]


def test_group__tokens_of_one_character() -> None:
    spans, members = group("👍", [(0, 1), (0, 1)], "tokens")  # bytes of an emoji
    assert spans == [(0, 1), (0, 1)]
    assert members == [0, 1]
    assert group("👍", [(0, 1), (0, 1)], "words") == ([(0, 1)], [0, 0])


def test_group__sentences() -> None:
    text = "A b. C d."
    spans, members = group(text, [None, (0, 1), (2, 3), (3, 4), (5, 6), (7, 8), (8, 9), None], "sentences")
    assert pieces(text, spans) == ["A b.", "C d."]
    assert members == [-1, 0, 0, 0, 1, 1, 1, -1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two.\nThree.\n \nFour.\n\n\nFive.", ["One. Two.\nThree.", "Four.", "Five."]),
        ("\n\nOne.\nTwo.\n\n", ["One.", "Two."]),
        ("One.", ["One."]),
        (" \n ", []),
    ],
)
def test_paragraphs(text: str, expected: list[str]) -> None:
    assert pieces(text, paragraphs(text)) == expected


def test_check_features__unknown() -> None:
    assert check_features("tokens") == "tokens"
    with pytest.raises(ValueError, match=r"'features' parameter must be 'words', .* Got 'letters'"):
        check_features("letters")


@pytest.mark.parametrize(
    ("text", "tokens", "expected", "members"),
    [
        ("ฉันรักแมว", [None, (0, 9), None], ["ฉันรักแมว"], [-1, 0, -1]),
        ("แมวที่", [(0, 6)], ["แมวที่"], [0]),
        ("the ภาษาไทย cat", [(0, 3), (4, 11), (12, 15)], ["the", "ภาษาไทย", "cat"], [0, 1, 2]),
        ("我爱北京", [(0, 1), (1, 2), (2, 4)], ["我", "爱", "北京"], [0, 1, 2]),
        ("我爱北京", [(0, 3), (1, 2), (3, 4)], ["我", "爱", "京"], [0, 1, 2]),  # never across another feature
    ],
)
def test_group__one_token_of_many_words_is_one_feature(
    text: str, tokens: list[tuple[int, int] | None], expected: list[str], members: list[int]
) -> None:
    spans, belongs = group(text, tokens, "words")
    assert pieces(text, spans) == expected
    assert belongs == members


def test_group__words_in_no_token_join_nothing() -> None:
    assert group("a ☃ b", [(0, 1), (4, 5)], "words") == ([(0, 1), (4, 5)], [0, 1])

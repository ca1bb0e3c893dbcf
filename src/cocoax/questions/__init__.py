"""Questions in words and pictures, why texts match, and where a map is hottest."""

from cocoax.questions.answers import Answer, Region, Rival, ask, top_regions
from cocoax.questions.hits import Hit, Hits, explain_hits
from cocoax.questions.matches import ExplainedText, Match, explain_match, explain_text
from cocoax.questions.question import Question, Side
from cocoax.questions.report import write_answers

__all__ = [
    "Answer",
    "ExplainedText",
    "Match",
    "Question",
    "Region",
    "Rival",
    "Side",
    "ask",
    "explain_match",
    "explain_text",
    "top_regions",
    "write_answers",
    "Hit",
    "Hits",
    "explain_hits",
]

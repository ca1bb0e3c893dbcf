"""Questions in words and pictures, and explanations of matches and search hits."""

from cocoax.questions.answers import Answer, Rival, ask
from cocoax.questions.match_results import Hit, Hits, Match, MatchSide
from cocoax.questions.matches import explain_hits, explain_match, explain_text
from cocoax.questions.question import Question, Side
from cocoax.questions.report import write_answers
from cocoax.results import Region, top_regions

__all__ = [
    "Answer",
    "Hit",
    "Hits",
    "Match",
    "MatchSide",
    "Question",
    "Region",
    "Rival",
    "Side",
    "ask",
    "explain_hits",
    "explain_match",
    "explain_text",
    "top_regions",
    "write_answers",
]

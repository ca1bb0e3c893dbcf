"""Questions in words and pictures, why texts match, and where a map is hottest."""

from cocoax.questions.asking import Answer, Question, Side, ask
from cocoax.questions.matching import Match, explain_match
from cocoax.questions.regions import Region, top_regions
from cocoax.questions.report import write_answers

__all__ = ["Answer", "Match", "Question", "Region", "Side", "ask", "explain_match", "top_regions", "write_answers"]

"""Results: what every answer is and can do, and the answers that methods give."""

from cocoax.results.attribution import Attribution, Region, top_regions
from cocoax.results.interactions import Interactions
from cocoax.results.result import Result, ResultList

__all__ = ["Attribution", "Interactions", "Region", "Result", "ResultList", "top_regions"]

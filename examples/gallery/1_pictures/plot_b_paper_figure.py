"""
A figure for a paper
====================

Every result is drawn at the width of a column, in the style of print, with embedded fonts. Maps of one row share a
scale.
"""

import cocoax
from cocoax.data import photo

encoder = cocoax.load("starter")
answers = cocoax.ask(encoder, photo("astronaut"), ["a helmet rather than a woman", "a rocket rather than a woman"])
figure = cocoax.plots.panel(answers, width="double", style="paper", uncertainty="hatch")

# %%
# ``figure.savefig("figure.pdf")`` writes the figure; every result has ``save("figure.pdf", style="paper",
# width="single")`` as well.

"""
A question in words
===================

What in this collage looks like a cat rather than like a cup of coffee? The starter encoder has an image tower and a
text tower, so that a caption can be the corpus and another one the foil.
"""

import cocoax
from cocoax.data import collage

encoder = cocoax.load("starter")
[answer] = cocoax.ask(encoder, collage(), "a cat rather than a cup of coffee")
answer.plot()

# %%
# Red regions raise the score, blue regions lower it. The score is the similarity to "a cat" minus the similarity to
# "a cup of coffee".

print(answer.summary)

# %%
# All numbers are in the result, with their standard errors.

answer.to_dataframe()

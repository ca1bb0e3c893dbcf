"""
A whole data set
================

``build`` explains every input once and stores the fields. After that a question to all inputs is one matrix product,
and needs no encoder.
"""

import tempfile

import cocoax
from cocoax.survey import build

encoder = cocoax.load("minilm")
questions = [
    "How do I reset my password?",
    "The password reset mail never arrives.",
    "Where can I download my invoice?",
    "The invoice shows the wrong address.",
    "Can I pay by bank transfer?",
    "The app crashes when I open a photo.",
    "Photos are uploaded upside down.",
    "How do I delete my account?",
]
folder = tempfile.mkdtemp()
index = build(encoder, questions, folder)

# %%
# One question to all of them:

survey = index.ask("billing rather than a technical problem")
survey.plot()
survey.to_dataframe().head()

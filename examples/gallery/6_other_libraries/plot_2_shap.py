"""
SHAP with a corpus and a foil
=============================

SHAP explains the same target, and SHAP's plots take results of Cocoax.
"""

import shap

import cocoax

encoder = cocoax.load("minilm")
music, traffic = (encoder.reference([text]) for text in ("classical music", "road traffic"))
target = cocoax.contrastive_corpus_similarity(music, traffic)
text = "The violinist parked her car before the concert"

reader = target.as_module(encoder)
explainer = shap.PartitionExplainer(reader, shap.maskers.Text(r"\W"))
theirs = explainer([text], max_evals=300, silent=True)
print(dict(zip(theirs.data[0], theirs.values[0].round(3), strict=True)))

# %%
# The result of KernelSHAP here, drawn by SHAP:

ours = cocoax.KernelShap().explain(encoder, text, target)
shap.plots.bar(ours.to_shap(), show=False)

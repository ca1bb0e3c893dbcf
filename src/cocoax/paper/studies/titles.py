"""The keys of results, and the words they have in tables and figures."""

from __future__ import annotations

METHOD_TITLES = {
    "integrated_gradients": "Integrated Gradients",
    "gradient_shap": "GradientSHAP",
    "rise": "RISE",
    "rise_efficient": "RISE, efficient",
}
TARGET_TITLES = {
    "label_free": "Label-free",
    "contrastive_label_free": "Contrastive label-free",
    "corpus": "Corpus",
    "cocoa": "COCOA",
}
MEASURES = ("contrastive_corpus_similarity", "corpus_majority_probability")
METRICS = {"insertion": "↑", "deletion": "↓"}  # whether higher or lower is better
CLASS_CASES = ("same", "different")

"""
Columns of a table row
======================

Which measurements make this wine similar to the wines of its grower, rather than to the others? The encoder is a
standardisation followed by a linear discriminant projection; any model that turns rows into vectors works the same.
"""

from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cocoax

wine = load_wine()
projection = make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()).fit(wine.data, wine.target)

encoder = cocoax.wrap(projection, columns=wine.feature_names, background=wine.data, name="wine")
own = encoder.reference(wine.data[wine.target == 0], name="grower 1")
others = encoder.reference(wine.data[wine.target != 0], name="the other growers")

result = cocoax.KernelShap().explain(encoder, wine.data[0], cocoax.contrastive_corpus_similarity(own, others))
result.plot()
result.to_dataframe().sort_values("value", ascending=False).head()

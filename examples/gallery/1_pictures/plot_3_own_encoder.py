"""
Your own encoder, photos as corpus and foil
===========================================

Any ``nn.Module`` or function is an encoder, or a layer inside it. Here the corpus and the foil are photos, and no
text tower is needed.
"""

import torch
from sklearn.datasets import load_digits

import cocoax

digits = load_digits()
pictures = torch.from_numpy(digits.images).float()[:, None] / 16
labels = torch.from_numpy(digits.target)

# %%
# A small convolutional network, trained for some seconds without its labels being used in the explanation.

torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Upsample(scale_factor=4),
    torch.nn.Conv2d(1, 16, 5, stride=2),
    torch.nn.ReLU(),
    torch.nn.Conv2d(16, 32, 5, stride=2),
    torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(2),
    torch.nn.Flatten(),
    torch.nn.Linear(128, 10),
)
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
for _ in range(80):
    batch = torch.randint(len(pictures), (256,))
    loss = torch.nn.functional.cross_entropy(network(pictures[batch]), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
# ``layer=`` names the module whose output is the representation: the pooled features, before the classifier.

encoder = cocoax.Encoder(network.eval(), layer="6", name="digits")
eights = encoder.reference(pictures[labels == 8][:50], name="eights")
threes = encoder.reference(pictures[labels == 3][:50], name="threes")
target = cocoax.contrastive_corpus_similarity(eights, threes)

an_eight = pictures[labels == 8][60]
result = cocoax.KernelShap(samples=400, grid=8, baseline=cocoax.Constant(0.0)).explain(encoder, an_eight, target)
result.plot()
print(result.summary)

"""Training: SimSiam, SimCLR, classifiers and linear evaluation."""

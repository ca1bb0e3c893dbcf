"""All that only the paper's experiments need: its studies, data sets, networks and training."""

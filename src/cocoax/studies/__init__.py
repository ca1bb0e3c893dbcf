"""Studies: every table and figure of the paper, on any encoder and data."""

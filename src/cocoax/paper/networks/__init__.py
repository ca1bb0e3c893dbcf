"""The networks of the paper, and the checkpoints they are read from."""

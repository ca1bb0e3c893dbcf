"""Kinds of input: what users hold, as an encoder takes it, and how it is shown."""

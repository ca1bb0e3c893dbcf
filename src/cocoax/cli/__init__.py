"""The command line: one file per command, all listed in ``cocoax.cli.main``.

A command's file holds its options and little else: it reads them, calls the public API and prints. Only the package itself
is imported at the top of it; everything heavy is imported when the command runs, so that ``--help`` need not wait.
"""

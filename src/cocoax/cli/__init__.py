"""The command line: a command opens inputs, calls the public API and hands the result over.

``main`` lists all commands by name, help and place. A module is imported when a command of it is called, and everything heavy
inside of the command's function, so that ``--help`` need not wait. Options that several commands take are in ``options``.
"""

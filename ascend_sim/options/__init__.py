"""Options, each described once: name, type, default, what it must be, words for Python and for the shell.

A class of options is a TypedDict, and `**options: Unpack[LaunchOptions]` gives a function these keywords: type checkers and
editors know them. `with_options` puts them into the function's signature and help, refuses other names and fills in defaults.
A command of the shell has the options whose `Shell` names it (`ascend_sim.cli.options`). Options that only a study has stand in
its folder. Types are texts and nothing heavy is imported: help and completion of a command read these files.
"""

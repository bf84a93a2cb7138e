"""The tests; `tests.support` holds the modules that several of them share."""

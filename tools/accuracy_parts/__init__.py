"""The parts of docs/accuracy.md, which tools/accuracy_page.py puts together."""

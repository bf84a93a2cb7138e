"""Parts of docs/accuracy.md and docs/accuracy-tables.md, which tools/accuracy_page.py puts together."""

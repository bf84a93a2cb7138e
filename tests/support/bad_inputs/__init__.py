"""Bad inputs: what is typed, the files that it finds, and the line that each gets (expected.yaml, docs/bad-input.md)."""

"""`tools/fuzz`: random calls in numbers."""

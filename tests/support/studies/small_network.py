"""A network of three layers, two of them alike, for the tests of this folder."""

THREE_LAYERS = """
name: small
batch: 2
defaults: {dtype: float16, padding: 1}
layers:
  - {name: first, input: [2, 16, 8, 8], weight: [16, 16, 3, 3]}
  - {name: wide, input: [2, 16, 6, 10], weight: [32, 16, 3, 3], stride: 2}
  - {name: again, input: [2, 16, 8, 8], weight: [16, 16, 3, 3], stride: [1, 1], padding: [1, 1]}
"""

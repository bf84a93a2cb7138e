"""Machinery of the checks: accepted arguments by product, ordered rules, and predicates of several operators."""

"""Machinery of the checks: accepted arguments by product, ordered rules, and predicates that rules of several operators
share.
"""

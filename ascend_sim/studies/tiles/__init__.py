"""Searching for the tiling of a cube kernel that takes the fewest cycles."""

"""Ascend C kernels as they are written: compiled on this machine, recorded word by word, and run as programs."""

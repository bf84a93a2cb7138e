"""Ascend C kernels in C++: compiled on this machine, recorded as words (instructions of dav-2201 with operands), and run as
programs.
"""

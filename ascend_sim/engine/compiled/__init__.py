"""The compiled twin of the SimPy engine's cores and traffic, equal to it to the cycle; built where there is a C compiler."""

"""The C interface for C and C++ programs: headers, and a library that answers their calls with `ascend_sim.acl`.

ascend-sim c --build DIR              # headers to DIR/include, libraries to DIR/lib64, as the vendor's toolkit has them
g++ main.cpp $(ascend-sim c --compile-flags DIR) && ./a.out

`prototypes` is the one table of the functions; headers, library and the check of the Python functions are made from it.
"""

"""numba kernels of `wire`. Each has a plain twin that its tests compare it with."""

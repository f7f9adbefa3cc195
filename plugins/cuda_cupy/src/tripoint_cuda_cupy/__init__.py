"""Dense CUDA tensors for Tripoint, on CuPy"""

"""Sparse coordinate (COO) CPU tensors for Tripoint"""

"""Quantized integer CPU tensors for Tripoint"""

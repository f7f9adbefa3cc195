"""Blocked-layout CPU tensors for Tripoint"""

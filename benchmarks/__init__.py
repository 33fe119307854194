"""Benchmarks: every figure stands beside a baseline or an aim measured in the same run."""

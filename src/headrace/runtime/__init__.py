"""Threads and clocks: the real shell round the engine."""

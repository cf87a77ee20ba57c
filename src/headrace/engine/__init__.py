"""The engine: tasks that turn raw records into raw records. Pure: what it needs from outside it is handed.

The driver, and the real runtime, are shells round it.
"""

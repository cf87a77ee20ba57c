"""The fault lab: real brokers and instances, faults drawn from a seed, and what must hold in spite of them.

``python -m faults --seed 1 --minutes 2`` with ``tests`` on the path, or ``make faults``.
"""

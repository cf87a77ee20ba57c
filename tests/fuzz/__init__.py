"""Differential fuzzing: random cases of the conformance vocabulary, run by the Java library and by headrace.

``python -m fuzz --seed SEED --cases N`` (``make fuzz``). One seed is one case: :func:`fuzz.generate.case`.
"""

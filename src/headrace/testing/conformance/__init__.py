"""Runs the Java library's recorded cases with this library and says where the results differ.

``python -m headrace.testing.conformance CASES EXPECTED [--only TEXT]``. The format of cases and every named function
in them are described in ``conformance/VOCABULARY.md``.
"""

from headrace.testing.conformance.runner import Outcome as Outcome
from headrace.testing.conformance.runner import Result as Result
from headrace.testing.conformance.runner import case_names as case_names
from headrace.testing.conformance.runner import check_case as check_case
from headrace.testing.conformance.runner import run_case as run_case

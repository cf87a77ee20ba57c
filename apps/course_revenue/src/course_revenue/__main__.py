"""``python -m course_revenue`` is the ``course-revenue`` command."""

from __future__ import annotations

from course_revenue.cli import main

if __name__ == "__main__":
    main()

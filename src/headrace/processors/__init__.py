"""What each operator does: frozen descriptions that are bound into one closure per task.

``try`` wraps the user's call and never the child's: the innermost operator's handler decides about an error, and
siblings go on.
"""

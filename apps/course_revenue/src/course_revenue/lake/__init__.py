"""The totals in a Delta Lake table, by merge (``course-revenue lake``; extra ``lake``).

``table`` knows Delta Lake and no Kafka, ``landing`` the topic and no files, ``command`` the command line.
"""

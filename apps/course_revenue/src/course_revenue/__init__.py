"""The course-revenue job: a running total of purchase lines per course, in integer cents, exactly once.

``model``     the records and the money rule, pure
``contract``  what makes a purchase line broken, and what is done about it
``dedupe``    lines that come again
``settings``  the product's own settings beside those of Kafka Streams
``topology``  the job itself
``sample``, ``promotion``  made-up purchase lines and courses: a sample, a day with a promotion
``topics``    the topics, and loading them
``totals``    the output topic as a table
``checks``    the plain sum over the input, and how the totals compare with it
``headers``   what the product adds to records' headers
``rejected``  the rejected topic, and replaying from it
``preflight`` what must be true of the brokers before the job runs
``formats``   values in JSON and in Avro
``adjustments``, ``skipping``  moving past a poison record, with a written adjustment
``stepping``  bringing the job right before a record that stops it
``rebuild``, ``rebuilding``  the totals anew from the first line on
``shadow``, ``shadowing``    the same beside the live job; ``catching_up``, an instance of a command's own
``rehearse``, ``rehearsal``  a promotion day in minutes, against the budget
``following`` how far a job has got; ``jobs`` an instance in a process; ``progress`` of what goes on; ``interrupts``
``dashboard`` the totals on a web page
``screen``    what a demo shows
``demo``      all of it on a local Kafka, in one terminal
``cli``       the ``course-revenue`` command; ``operations``, ``loading`` and ``rebuild`` parts
              of it, ``options`` what they share
"""

from __future__ import annotations

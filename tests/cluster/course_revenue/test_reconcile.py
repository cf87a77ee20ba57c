"""Reconciliation on real brokers: a job that stands, a job under load, and a PostgreSQL table of lines."""

from __future__ import annotations

import csv
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest
from cluster.course_revenue.postgres import PostgresServer
from cluster.course_revenue.product import command as product_command
from cluster.course_revenue.product import encode, lines, wait_until
from course_revenue import headers
from course_revenue.options import target
from course_revenue.reconciling import Landed, Outcome, reconcile_job
from course_revenue.rejected import since_rebuilt

from headrace.errors import ConfigException
from headrace.topics import TopicReader, TopicWriter

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.course_revenue.conftest import ProductFactory
    from cluster.course_revenue.product import Instance, Product


def reconciled(instance: Instance, landed: Landed | None = None) -> Outcome:
    return reconcile_job(target(instance.directory / "app.properties", None, None), timeout_s=60.0, landed=landed)


def command(instance: Instance, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "course_revenue", "reconcile"),
            *("--config", str(instance.directory / "app.properties"), *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=instance.directory,
    )
    return done.returncode, done.stdout, done.stderr


def write_output(product: Product, course: str, total: dict[str, Any]) -> None:
    with TopicWriter(product.bootstrap) as writer:
        writer.send(product.topics["output"], course.encode(), encode(total))


def test_every_cut_of_a_job_under_load_is_exact_and_so_is_that_of_a_stopped_one(
    product_factory: ProductFactory, tmp_path: Path
) -> None:
    product = product_factory(2)
    product.load(2_000, courses=20, seed=1, duplicates=0.05, refunds=0.2)
    instances = [product.instance(name, num_stream_threads=1).start() for name in ("a", "b")]
    one = instances[0]
    watch = product.watch()
    watch.wait_for(1_000, "both run", product.tails)
    over = threading.Event()

    def keep_sending() -> None:
        seed = 2
        while not over.is_set():
            product.load(200, courses=20, seed=seed, duplicates=0.05)
            seed += 1

    sender = threading.Thread(target=keep_sending)
    sender.start()
    try:
        outcomes = [reconciled(one) for _ in range(4)]

        def more_lines() -> bool:
            outcomes.append(reconciled(one))
            return outcomes[0].comparison.sums.fates.records < outcomes[-1].comparison.sums.fates.records

        wait_until(more_lines, "lines come in while the cuts are taken", detail=product.tails)
    finally:
        over.set()
        sender.join(60)
    for outcome in outcomes:
        fates = outcome.comparison.sums.fates
        assert outcome.cut.exact
        assert all(row.verdict in ("equal", "duplicates") for row in outcome.comparison.rows), outcome.comparison.rows
        assert (fates.applied + fates.in_flight, fates.lost) == (fates.records, 0)
    seen = [outcome.comparison.sums.fates.records for outcome in outcomes]
    assert seen == sorted(seen)

    watch.wait_for(product.sums.lines, "every line", product.tails)
    for instance in instances:
        instance.stop()
    code, rows, said = command(one, "--all", "--csv", "report.csv", "--parquet", "report.parquet")
    assert code == 0, said
    assert "in flight" in said
    assert "0 different" in said
    table = list(csv.DictReader(rows.splitlines(), delimiter="\t"))
    assert {row["course_id"]: int(row["topic_cents"]) for row in table} == dict(product.sums.net_cents)
    assert all(row["difference_cents"] == row["duplicate_cents"] for row in table)
    with (one.directory / "report.csv").open() as file:
        assert list(csv.DictReader(file)) == table
    query = "SELECT sum(topic_cents), typeof(any_value(sql_cents)) FROM read_parquet(?)"
    written = duckdb.execute(query, [str(one.directory / "report.parquet")]).fetchall()
    assert written == [(product.sums.net_cents.total(), "DECIMAL(38,0)")]

    # somebody writes into the output topic
    course, total = next(iter(watch.totals.items()))
    write_output(product, course, {**total, "net_cents": total["net_cents"] + 5})
    code, rows, said = command(one)
    assert (code, f"1 different ({course} by 0.05)" in said) == (1, True), said
    assert f"\n{course}\t" in rows


def test_rejected_repeated_and_skipped_lines_are_accounted_for(product_factory: ProductFactory) -> None:
    product = product_factory(2)
    product.send(lines(10, "course-a"))
    broken = {"order_id": "b", "line_id": "1", "course_id": "course-a", "learner_id": "secret", "quantity": 1}
    product.send_raw(encode({**broken, "unit_price_cents": 5, "line_type": "gift", "event_time": 1}))
    product.send_raw(None)
    product.send_raw(b"no json")
    instance = product.instance(
        "a",
        course_revenue_on_broken_line="reject",
        course_revenue_dedupe="line-key",
        default_deserialization_exception_handler="org.apache.kafka.streams.errors.LogAndContinueExceptionHandler",
    ).start()
    watch = product.watch()
    watch.wait_for(10, "the first lines", product.tails)
    counted = product.sums.totals()
    product.send(lines(10, "course-a"))  # the same lines again
    product.send(lines(1, "course-b"))
    watch.wait_for(11, "the line behind them", product.tails)
    instance.stop()
    code, rows, said = command(instance, "--all")
    assert code == 0, said
    assert "24 lines: 11 applied, 0 in flight, 10 repeats left out, 2 rejected" in said
    assert "1 not decodable" in said
    assert "secret" not in rows + said
    assert watch.latest()["course-a"] == counted["course-a"]

    # a line that the rejected topic holds and the totals have: a fault of exactly the rejected amount, until a rebuild
    topic = product.topics["lines"]
    at = next(record for record in product.admin.read(topic) if b"course-b" in (record.value or b""))
    with TopicWriter(product.bootstrap) as writer:
        place = headers.source_headers(headers.Place(topic, at.partition, at.offset))
        writer.send(product.topics["rejected"], at.key, at.value, headers=[(headers.REASON, b"late"), *place])
    code, _, said = command(instance)
    assert (code, "1 different (course-b by 1.00)" in said) == (1, True), said
    assert "rebuild once more" in said
    rebuilt = product_command(instance, "rebuild", "--yes")
    assert "the totals of 2 courses agree with the input" in rebuilt
    code, _, said = command(instance)
    assert code == 0, said
    product.admin.delete_records(product.topics["rejected"], 0, product.admin.offsets(product.topics["rejected"])[0])
    product.admin.delete_records(product.topics["rejected"], 1, product.admin.offsets(product.topics["rejected"])[1])
    code, _, said = command(instance)
    assert (code, "of 2 broken lines nobody can say whether they were rejected" in said) == (0, True), said
    # a topic that has lost all it held is marked, too: nobody could say any more what the job of then rejects
    product_command(instance, "rebuild", "--yes", "--no-run")
    with TopicReader(product.bootstrap, product.topics["rejected"]) as reader:
        assert since_rebuilt(reader.to_end()) == ([], dict.fromkeys(range(2), product.application_id))


def test_a_postgres_table_is_told_apart_into_tail_duplicates_and_true_differences(
    product_factory: ProductFactory,
) -> None:
    product = product_factory(1)
    product.send(lines(50, "course-a"))
    product.send(lines(50, "course-b", price=10))
    product.send(lines(1, "course-b", price=10))  # sent twice
    product.send(lines(20, "course-c", start=100))
    instance = product.instance("a").start()
    product.watch().wait_for(121, "all lines", product.tails)
    instance.stop()
    table = 'close"; DROP TABLE x; --'
    with PostgresServer() as server, psycopg.connect(server.dsn) as connection:
        name = psycopg.sql.Identifier("books", table)
        connection.execute("CREATE SCHEMA books")
        connection.execute(
            psycopg.sql.SQL(
                "CREATE TABLE {} (order_id text, line_id text, course_id text, unit_price_cents numeric(20, 2),"
                " quantity integer, line_type text, event_time bigint, learner_id text)"
            ).format(name)
        )
        insert = psycopg.sql.SQL("INSERT INTO {} VALUES (%s, 'line-1', %s, %s, 1, 'sale', 1, 'secret')").format(name)
        landed = [(f"course-a-order-{n}", "course-a", 100) for n in range(50)]
        landed += [(f"course-b-order-{n}", "course-b", 10 if n else 11) for n in range(50)]
        landed += landed[:7]  # the batch ran twice
        with connection.cursor() as cursor:
            cursor.executemany(insert, landed)
        connection.commit()
        outcome = reconciled(instance, Landed(server.dsn, f"books.{table}"))
        with pytest.raises(ConfigException, match="there is no such table"):
            reconciled(instance, Landed(server.dsn, "books.nothing"))
        connection.execute(psycopg.sql.SQL("CREATE TABLE emptied AS SELECT * FROM {} WHERE false").format(name))
        connection.commit()
        with pytest.raises(ConfigException, match="table emptied has no rows"):
            reconciled(instance, Landed(server.dsn, "emptied"))
        connection.execute(
            "CREATE TABLE inexact AS SELECT 1::float8 AS unit_price_cents, 1 AS quantity,"
            " 'a' AS order_id, 'a' AS line_id, 'a' AS course_id, 'sale' AS line_type"
        )
        connection.commit()
        with pytest.raises(ConfigException, match="unit_price_cents is of type double precision"):
            reconciled(instance, Landed(server.dsn, "inexact"))
        code, rows, said = command(instance, "--postgres", server.dsn, "--postgres-table", f"books.{table}")
    a, b, c = outcome.comparison.rows
    assert (a.verdict, a.sql, a.topic) == ("equal", (5_000, 50), (5_000, 50))
    assert (b.verdict, b.duplicates, b.unexplained, b.landed.changed) == ("different", (10, 1), (-1, 0), 1)
    assert (c.verdict, c.tail, c.sql) == ("tail", (2_000, 20), (0, 0))
    assert (code, "1 different (course-b by -0.01)" in said) == (1, True), said
    assert "107 rows: 7 repeats" in said
    assert "secret" not in rows + said

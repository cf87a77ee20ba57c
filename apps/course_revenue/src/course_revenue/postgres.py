"""Reading a table of purchase lines from PostgreSQL, as the morning close has them (extra ``postgres``).

The table has the columns of a line by their names. One ``COPY`` sends it as one snapshot; identifiers are quoted by the
client library and never put together as text. Numbers come as whole numbers of any size or not at all: a column of
floating point numbers is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from course_revenue.ledger import LANDED_COLUMNS
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_TABLE: Final = "purchase_line"

_NUMBERS: Final = ("unit_price_cents", "quantity")
_EXACT: Final = frozenset({"smallint", "integer", "bigint", "numeric"})
_AS_NUMBER: Final = "trim_scale({}::numeric)::text"
_AS_TEXT: Final = "{}::text"
_TYPES: Final = """
    SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""


def export_lines(dsn: str, table: str, file: Path) -> int:
    """Writes the table's lines to a CSV file without a header, columns as in ``LANDED_COLUMNS``.

    Args:
        dsn: libpq's connection string or URL; what it leaves out comes from libpq's environment (``PGPASSWORD`` …).
        table: ``name`` or ``schema.name``, as it is written in the catalog.
        file: is overwritten.

    Returns:
        The number of rows.

    Raises:
        ConfigException: psycopg is not installed, the database does not answer, there is no such table, or it lacks a
            column or has one of another type.
    """
    try:
        import psycopg
        from psycopg import sql
    except ImportError as error:
        raise ConfigException("--postgres needs psycopg: pip install 'course-revenue[postgres]'") from error
    name = sql.Identifier(*table.split("."))
    try:
        with psycopg.connect(dsn, application_name="course-revenue reconcile") as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            _check(table, dict(connection.execute(_TYPES, [name.as_string(connection)]).fetchall()))
            columns = sql.SQL(", ").join(
                sql.SQL(_AS_NUMBER if column in _NUMBERS else _AS_TEXT).format(sql.Identifier(column))
                for column in LANDED_COLUMNS
            )
            copy = sql.SQL("COPY (SELECT {columns} FROM {table}) TO STDOUT (FORMAT csv)").format(
                columns=columns, table=name
            )
            with file.open("wb") as out, connection.cursor() as cursor:
                with cursor.copy(copy) as blocks:
                    for block in blocks:
                        out.write(block)
                return cursor.rowcount
    except psycopg.Error as error:
        raise ConfigException(f"--postgres: table {table} cannot be read: {str(error).strip()}") from error


def _check(table: str, types: dict[str, Any]) -> None:
    if not types:
        raise ConfigException(f"--postgres-table {table}: there is no such table, or no permission to see it")
    missing = [column for column in LANDED_COLUMNS if column not in types]
    if missing:
        raise ConfigException(f"--postgres-table {table} lacks {', '.join(missing)}: it must have a line's columns")
    for column in _NUMBERS:
        if types[column] not in _EXACT:
            raise ConfigException(
                f"--postgres-table {table}: {column} is of type {types[column]}, which does not hold whole numbers"
                f" exactly: make it {', '.join(sorted(_EXACT))}, or name a view that casts it"
            )

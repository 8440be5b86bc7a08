"""Many rows into one table: the statement is compiled and the column types are looked up once, not for every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Date, Table
from sqlalchemy.engine import Dialect

from .columns import Moment

__all__ = ["Insert", "insert_into"]


class Insert:
    """An INSERT into some columns of a table, for one kind of database; rows have their values in the same order."""

    def __init__(self, dialect: Dialect, table: Table, columns: tuple[str, ...]) -> None:
        compiled: Any = table.insert().compile(dialect=dialect, column_keys=list(columns))
        self._sql = str(compiled)
        self._names = columns
        self._changes: list[tuple[int, Callable[[Any], Any]]] = []
        for at, name in enumerate(columns):
            kind = table.c[name].type
            change = kind.dialect_impl(dialect).bind_processor(dialect)
            if change is not None:  # days and moments come again and again
                self._changes.append((at, lru_cache(256)(change) if isinstance(kind, Date | Moment) else change))
        order = compiled.positiontup  # None where values go by name
        self._places = None if order is None else [self._names.index(name) for name in order]

    def __call__(self, conn: Connection, rows: Iterable[list[Any]]) -> None:
        """Write the rows; their lists are used up."""
        made: list[Any] = []
        for row in rows:
            for at, change in self._changes:
                row[at] = change(row[at])
            if self._places is None:
                made.append(dict(zip(self._names, row, strict=True)))
            else:
                made.append(tuple([row[at] for at in self._places]))
        if made:
            conn.exec_driver_sql(self._sql, made)


@lru_cache(16)
def insert_into(dialect: Dialect, table: Table, columns: tuple[str, ...]) -> Insert:
    """The INSERT of a database, made when it is first asked for."""
    return Insert(dialect, table, columns)

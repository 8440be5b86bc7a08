"""The database: opening, columns, migrations, the audit log; the tables are in `schema/`."""

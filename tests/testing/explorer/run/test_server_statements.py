"""Statements that reach beyond a copy of a database are known by their words."""

from __future__ import annotations

import pytest

from flowguard.testing.explorer.run.server_statements import of_server


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE DATABASE shop", "CREATE DATABASE"),
        ("alter  role clerk SET x = 1", "ALTER ROLE"),
        ("DROP USER clerk", "DROP USER"),
        ("CREATE GROUP clerks", "CREATE GROUP"),
        ("DROP TABLESPACE fast", "DROP TABLESPACE"),
        ("CREATE SUBSCRIPTION orders CONNECTION 'x' PUBLICATION y", "CREATE SUBSCRIPTION"),
        ("ALTER SYSTEM SET work_mem = 1", "ALTER SYSTEM"),
        ("REASSIGN OWNED BY clerk TO boss", "REASSIGN OWNED"),
        ("COMMENT ON DATABASE shop IS 'x'", "COMMENT ON DATABASE"),
        ("GRANT CONNECT ON DATABASE shop TO clerk", "GRANT CONNECT ON DATABASE"),
        ("REVOKE boss FROM clerk", "REVOKE"),
        ("COPY orders TO PROGRAM 'sh'", "COPY ORDERS TO PROGRAM"),
        ("COPY orders TO '/tmp/orders'", "COPY ORDERS TO '"),
        ("SELECT 1; -- a role\n DROP ROLE clerk", "DROP ROLE"),
        ("/* why */ CREATE ROLE clerk", "CREATE ROLE"),
        ("DO $$ BEGIN EXECUTE 'DROP ROLE clerk'; END $$", "DROP ROLE"),
        ("SELECT pg_terminate_backend(7)", "pg_terminate_backend"),
        ("SELECT * FROM dblink_exec('host=x', 'DELETE FROM y')", "dblink_exec"),
        ("SELECT E'it\\'s'; DROP ROLE clerk", "DROP ROLE"),
        ("CREATE USER MAPPING FOR clerk SERVER x", None),
        ("GRANT SELECT ON orders TO clerk", None),
        ("COPY orders TO STDOUT", None),
        ("INSERT INTO notes VALUES ('; DROP ROLE clerk')", None),
        ("INSERT INTO notes VALUES ('pg_reload_conf()')", None),
        ("-- ; DROP ROLE clerk\nSELECT 1", None),
        ("DO $$ BEGIN UPDATE orders SET a = 1; END $$", None),
        ("CREATE TABLE role (user_id text)", None),
        ("COMMENT ON TABLE orders IS 'on database'", None),
    ],
)
def test_a_statement_of_the_whole_server_is_told_by_its_words(sql: str, expected: str | None) -> None:
    assert of_server(sql) == expected

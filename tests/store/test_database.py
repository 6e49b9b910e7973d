"""Opening a database: settings, transactions, and tables that agree with their migrations."""

from __future__ import annotations

import gc
import re
import threading
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, insert, inspect, select, text

import openworld.store
from openworld.store import Database, StorageError
from openworld.store.tables import descriptions, metadata, samples

MIGRATIONS = Path(openworld.store.__file__).parent / "migrations"


def _texts(database: Database) -> dict[str, str]:
    with database.read() as connection:
        return {row.label: row.text for row in connection.execute(select(descriptions))}


def test_migrations_make_the_tables_of_the_code(database: Database) -> None:
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, "alembic_version"}


def test_every_older_revision_is_brought_up_to_date_with_its_rows(url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(text("INSERT INTO descriptions (label, text) VALUES ('cat', 'purrs')"))
    engine.dispose()
    database = Database(url)
    assert _texts(database) == {"cat": "purrs"}
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        revision = MigrationContext.configure(connection).get_current_revision()
    assert revision == ScriptDirectory(str(MIGRATIONS)).get_current_head()
    database.close()


def test_tables_of_a_newer_version_are_not_touched(url: str) -> None:
    first = Database(url)
    with first.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    first.close()
    with pytest.raises(ValueError, match=r"from a newer version of openworld.*9999"):
        Database(url)


def test_opening_again_keeps_everything(url: str) -> None:
    first = Database(url)
    with first.write() as connection:
        connection.execute(insert(descriptions), {"label": "cat", "text": "purrs"})
    first.close()
    second = Database(url)
    assert _texts(second) == {"cat": "purrs"}
    second.close()


def test_an_error_undoes_the_transaction(database: Database) -> None:
    def write_and_fail() -> None:
        with database.write() as connection:
            connection.execute(insert(descriptions), {"label": "cat", "text": "purrs"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert _texts(database) == {}


def test_one_server_at_a_time_holds_an_advisory_lock(database: Database, url: str) -> None:
    """On PostgreSQL; SQLite has one server, which needs none."""
    other = Database(url)
    with (
        database.advisory_lock("cook") as mine,
        other.advisory_lock("cook", wait=False) as theirs,
        other.advisory_lock("wash") as wash,
    ):
        assert (mine, theirs, wash) == (True, not database.is_shared, True)
    with other.advisory_lock("cook", wait=False) as theirs:
        assert theirs
    order: list[str] = []
    with database.advisory_lock("cook"):
        waiting = threading.Thread(target=lambda: _cook(other, order))
        waiting.start()
        waiting.join(0.3 if database.is_shared else 20)
        order.append("first")
    waiting.join()
    assert order == (["first", "second"] if database.is_shared else ["second", "first"])
    other.close()


def _cook(database: Database, order: list[str]) -> None:
    with database.advisory_lock("cook"):
        order.append("second")


def test_a_server_that_hangs_loses_its_lock(database: Database, url: str) -> None:
    """Its connection stays open, so only the idle time tells. SQLite needs no lock."""
    other = Database(url)
    with database.advisory_lock("cook", idle_milliseconds=200):
        with other.advisory_lock("cook") as theirs:  # waits until PostgreSQL ends the idle transaction
            assert theirs
        with other.advisory_lock("cook", wait=False) as theirs:
            assert theirs
    with database.advisory_lock("cook", wait=False) as mine:  # and its next connection is a new one
        assert mine
    other.close()


def test_readers_do_not_wait_for_a_writer_and_see_only_what_is_committed(database: Database) -> None:
    with database.write() as connection:
        connection.execute(insert(descriptions), {"label": "cat", "text": "purrs"})
        seen: list[dict[str, str]] = []
        reader = threading.Thread(target=lambda: seen.append(_texts(database)))
        reader.start()
        reader.join(300)
        assert seen == [{}]
    assert _texts(database) == {"cat": "purrs"}


def test_a_reader_sees_one_moment(database: Database) -> None:
    with database.read() as connection:
        assert connection.execute(select(descriptions)).all() == []
        with database.write() as writing:
            writing.execute(insert(descriptions), {"label": "cat", "text": "purrs"})
        assert connection.execute(select(descriptions)).all() == []
    assert _texts(database) == {"cat": "purrs"}


def test_writers_of_two_databases_on_one_file_take_turns(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'world.db'}"
    pair = Database(url), Database(url)

    def write(database: Database, who: str) -> None:
        for i in range(20):
            with database.write() as connection:
                n_rows = len(connection.execute(select(descriptions)).all())
                connection.execute(insert(descriptions), {"label": f"{who}{i}", "text": str(n_rows)})

    threads = [threading.Thread(target=write, args=(pair[i], str(i))) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, _texts(pair[0]).values())) == list(range(40))  # each saw all that came before
    for database in pair:
        database.close()


def test_sqlite_flushes_every_commit_and_keeps_a_write_ahead_log(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'world.db'}")
    with database.read() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    database.close()


def test_an_sqlite_connection_keeps_few_pages_and_statements(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'world.db'}")
    with database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA cache_size").scalar_one() == -512  # KiB
        before = _n_statements()
        for i in range(200):
            connection.exec_driver_sql(f"SELECT {i}")
        assert _n_statements() - before <= 40
    database.close()


def test_the_connection_used_last_is_used_next(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'world.db'}")
    with database.read() as first, database.read() as second:
        ids = [id(each.connection.driver_connection) for each in (second, first)]  # in the order of return
    with database.read() as again:
        assert id(again.connection.driver_connection) == ids[-1]
    database.close()


def _n_statements() -> int:
    return sum(type(found).__name__ == "Statement" for found in gc.get_objects())


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://somewhere/world"])
def test_a_database_that_cannot_hold_a_world_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"on disk|not supported"):
        Database(url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("foo.db", "write sqlite:///foo.db for a file, or postgresql://USER@HOST/NAME."),
        ("/data/foo.db", "write sqlite:////data/foo.db for"),
        ("", "write sqlite:///FILE for"),
        ("postgres:me:secret@host/name", "write sqlite:///FILE for"),
    ],
)
def test_a_path_is_no_url(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"^The database must be a URL: {re.escape(words)}"):
        Database(url)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_postgresql_is_reached_by_its_usual_url(url: str, scheme: str) -> None:
    database = Database(url.replace("postgresql+psycopg", scheme))
    try:
        with database.read() as connection:
            assert connection.execute(select(samples.c.id)).all() == []
    finally:
        database.close()


def test_a_mistyped_name_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no database .*typo\.db. Check its name"):
        Database(f"sqlite:///{tmp_path / 'typo.db'}", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot be created: the folder .*missing does not exist"):
        Database(f"sqlite:///{tmp_path / 'missing' / 'world.db'}")


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("more", "seconds"), [("", "10"), ("&connect_timeout=3", "3")])
def test_a_connection_whose_other_end_is_gone_is_found_out(url: str, more: str, seconds: str) -> None:
    """Both ends are asked to look: a lock of a machine without power must not be held for hours."""
    database = Database(url + more)
    connection = database.engine.raw_connection()
    parameters = connection.driver_connection.info.get_parameters()
    connection.close()
    database.close()
    assert parameters["connect_timeout"] == seconds
    assert parameters["keepalives_idle"] == "15"
    assert parameters["tcp_user_timeout"] == "30000"

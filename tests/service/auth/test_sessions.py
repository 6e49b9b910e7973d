from __future__ import annotations

import stat

from openworld.service.auth.sessions import session_secret


def test_the_secret_of_sessions_is_kept_in_the_database_which_only_its_owner_reads(
    world, settings_of, tmp_path
):
    secret = session_secret(settings_of(), world)
    assert secret == session_secret(settings_of(), world)
    assert len(secret) >= 32
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("world.db*")} == {0o600}
    assert session_secret(settings_of(session_secret="s" * 16), world) == "s" * 16

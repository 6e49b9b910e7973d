"""Notifications: a slow subscriber loses the oldest, and listeners are called at once."""

from __future__ import annotations

from openworld.service.notifications import Notification, Notifications


def test_a_subscriber_who_does_not_listen_loses_the_oldest_and_can_tell() -> None:
    notifications = Notifications()
    with notifications.subscribe() as slow:
        for i in range(1005):
            notifications.publish("event", {"number": i})
        first = slow.get(0)
        assert first is not None
        assert (first.id, first.data["number"]) == (6, 5)
    notifications.publish("event", {})
    heard = [change.id for change in iter(lambda: slow.get(0), None) if change is not None]
    assert heard == list(range(7, 1006))


def test_listeners_are_called_before_publishing_returns() -> None:
    notifications, heard = Notifications(), list[Notification]()
    notifications.add_listener("lease", heard.append)
    notifications.publish("event", {})
    notifications.publish("lease", {"cluster": 1}, here=False)
    assert heard == [Notification(2, "lease", {"cluster": 1}, False)]

"""Tasks of Label Studio, read and written."""

import json

import pytest

from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.label_studio import data_url, open_tasks, task
from openworld.data.sources import open_source


@pytest.fixture
def tasks_in(tmp_path):
    def write(tasks):
        path = tmp_path / "tasks.json"
        path.write_text(tasks if isinstance(tasks, str) else json.dumps(tasks))
        return path

    return write


def test_what_is_written_is_read_again(tasks_in):
    source = open_source(tasks_in([task(1, {"text": "hello"}, "hi"), task(2, {"text": "bye"}, "bye")]))
    assert source.kind == "text"
    assert [(item.label, item.read()) for item in source] == [("hi", b"hello"), ("bye", b"bye")]
    picture = task(7, {"image": data_url(b"\x89PNG...", "image/png")}, "cat")
    source = open_tasks(tasks_in([picture]))
    assert source.kind == "image"
    assert [(item.name, item.label, item.read()) for item in source] == [("task 1", "cat", b"\x89PNG...")]


def test_an_export_as_label_studio_writes_it(tasks_in):
    """Fields of version 1.x: several annotations, results of other kinds, tasks that nobody annotated."""
    choices = {"from_name": "c", "to_name": "t", "type": "choices", "value": {"choices": ["spam", "x"]}}
    region = {"type": "labels", "value": {"start": 0, "end": 3, "labels": ["PER"]}}
    tasks = [
        {
            "id": 5,
            "data": {"text": "win now", "meta": 3},
            "annotations": [
                {"id": 9, "completed_by": 1, "result": [region, choices], "was_cancelled": False}
            ],
            "predictions": [],
        },
        {"id": 6, "data": {"text": "hello"}, "annotations": []},
        {"id": 7, "data": {"text": "odd"}, "annotations": [{"result": [{"value": {"choices": []}}]}]},
    ]
    assert [item.label for item in open_tasks(tasks_in(tasks))] == ["spam", None, None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ({"data": {}}, "list of tasks"),
        ([], "the file is empty"),
        ([{"data": {"audio": "x"}}], "data.text"),
        ([{"data": {"text": "a"}}, {"data": {"image": "b"}}], "every task needs"),
        ([{"data": None}], "data.text"),
    ],
)
def test_other_files_are_refused(tasks_in, content, message):
    with pytest.raises(DataError, match=message):
        open_tasks(tasks_in(content))


@pytest.mark.parametrize("address", ["/data/upload/1.jpg", "http://host/1.jpg", "data:image/png;base64,?"])
def test_urls_are_not_downloaded(tasks_in, address):
    (item,) = open_tasks(tasks_in([{"data": {"image": address}}]))
    with pytest.raises(DataError, match=r"not downloaded|not valid base64"):
        item.read()


def test_a_group_is_a_field_of_the_data(tasks_in):
    data = [{"text": "a", "template": "x"}, {"text": "b", "template": "x"}, {"text": "c"}]
    path = tasks_in([{"data": one} for one in data])
    source = open_source(path, columns=Columns(group="template"))
    assert source.grouped
    assert [item.group for item in source] == ["x", "x", None]
    with pytest.raises(DataError, match=r"Did you mean --group-column template\?"):
        open_source(path, columns=Columns(group="templates"))

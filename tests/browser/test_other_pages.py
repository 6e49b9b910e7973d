"""Map, classes, try it, dashboard, login, texts, and pages with nothing on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import expect

from openworld.service.settings import ServiceSettings
from openworld.store.records import ClusterDraft, SampleContent


def test_lasso_on_the_map(site: Any, tabs: Any) -> None:
    page = tabs(site).open("/map")
    canvas = page.locator("#map[data-dots='42']")
    box = canvas.bounding_box()
    assert box is not None
    page.locator("#legend").get_by_role("button", name="Cluster 1 · 14").click()
    expect(page.locator("#selected-count")).to_have_text("14")
    page.get_by_role("button", name="None").click()

    corners = [(2, 2), (box["width"] - 2, 2), (box["width"] - 2, box["height"] - 2), (2, box["height"] - 2)]
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    for x, y in (*corners, corners[0]):
        page.mouse.move(box["x"] + x, box["y"] + y, steps=3)
    page.mouse.up()
    expect(page.locator("#selected-count")).to_have_text("42")

    places = site.service.clustering.places()
    xs, ys = np.array([p[0] for p in places.values()]), np.array([p[1] for p in places.values()])
    unit = min((box["width"] - 48) / np.ptp(xs), (box["height"] - 48) / np.ptp(ys))
    first = np.array([p[2] == 1 for p in places.values()])
    dots = np.column_stack(
        [
            box["x"] + box["width"] / 2 + (xs - (xs.min() + xs.max()) / 2) * unit,
            box["y"] + box["height"] / 2 + (ys - (ys.min() + ys.max()) / 2) * unit,
        ]
    )
    (left, top), (right, bottom) = dots[first].min(axis=0) - 7, dots[first].max(axis=0) + 7
    inside = int(np.all((dots > [left, top]) & (dots < [right, bottom]), axis=1).sum())
    page.mouse.move(left, top)
    page.mouse.down()
    for x, y in ((right, top), (right, bottom), (left, bottom), (left, top)):
        page.mouse.move(x, y, steps=5)
    page.mouse.up()
    expect(page.locator("#selected-count")).to_have_text(str(inside))
    expect(page.locator("#chosen figure")).to_have_count(inside)  # seen before they are named

    apart = np.linalg.norm(dots[:, np.newaxis] - dots, axis=2) + 1e9 * np.eye(len(dots))
    alone = int(apart.min(axis=1).argmax())  # the dot with the most room around it
    (x, y), sample = dots[alone], str(list(places)[alone])
    page.mouse.move(x, y)
    expect(page.locator("#map-hover img")).to_be_visible()
    page.mouse.wheel(0, -300)
    expect(canvas).to_have_attribute("data-zoom", "2.74")
    page.mouse.move(x + 1, y)  # what is under the pointer stays there
    expect(page.locator("#map-hover figure")).to_have_attribute("data-id", sample)
    page.get_by_role("button", name="Zoom out").click()
    expect(canvas).to_have_attribute("data-zoom", "1.96")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("0")
    expect(canvas).to_have_attribute("data-zoom", "1.00")
    page.get_by_role("button", name="Move").click()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 45, box["y"] + 5, steps=3)
    page.mouse.up()
    expect(page.locator("#selected-count")).to_have_text(str(inside))  # the map moved, nothing was selected
    page.mouse.move(x + 40, y)
    expect(page.locator("#map-hover figure")).to_have_attribute("data-id", sample)
    page.get_by_label("What is it?").fill("triangle")
    page.keyboard.press("Enter")
    expect(page.locator("#outcome")).to_contain_text(f"Learned “triangle” from {inside} samples.")
    assert site.recognizes("triangle") == ["triangle"] * 3


def test_two_fingers_zoom_and_pan_the_map(site: Any, tabs: Any) -> None:
    tab = tabs(site, has_touch=True)
    page = tab.open("/map")
    canvas = page.locator("#map[data-dots='42']")
    box = canvas.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = tab.context.new_cdp_session(page)

    def touch(kind: str, *fingers: tuple[float, float]) -> None:
        points = [{"x": x + dx, "y": y + dy, "id": i} for i, (dx, dy) in enumerate(fingers)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", (-50, 0), (50, 0))
    touch("touchMove", (-100, 0), (100, 0))
    touch("touchMove", (-100, 40), (100, 40))
    expect(canvas).to_have_attribute("data-zoom", "2.00")
    touch("touchMove", (-75, 0), (75, 0))
    expect(canvas).to_have_attribute("data-zoom", "1.50")
    touch("touchEnd", (75, 0))
    touch("touchMove", (90, 60))  # the finger that stays draws nothing
    touch("touchEnd")
    expect(page.locator("#selected-count")).to_have_text("0")

    left, right, top, bottom = -box["width"] / 2 + 4, box["width"] / 2 - 4, -box["height"] / 2 + 4, 0.0
    page.get_by_role("button", name="Whole map").tap()
    expect(canvas).to_have_attribute("data-zoom", "1.00")
    touch("touchStart", (left, top))  # one finger draws
    for corner in ((right, top), (right, bottom), (left, bottom), (left, top)):
        touch("touchMove", corner)
    touch("touchEnd")
    expect(page.locator("#selected-count")).not_to_have_text("0")


def test_draw_and_see_why(site: Any, tabs: Any) -> None:
    tab = tabs(site)
    tab.allowed.append("422 (Unprocessable")
    page = tab.open("/try")
    box = page.locator("#letter").bounding_box()
    assert box is not None

    def stroke(*points: tuple[int, int]) -> None:
        (x, y), *others = points
        page.mouse.move(box["x"] + x, box["y"] + y)
        page.mouse.down()
        for x, y in others:
            page.mouse.move(box["x"] + x, box["y"] + y, steps=4)
        page.mouse.up()

    stroke((50, 50), (172, 172))
    stroke((50, 172), (172, 50))
    expect(page.locator(".verdict")).to_contain_text("cross")
    expect(page.locator("#answer")).to_contain_text("“cross”, is near enough.")
    expect(page.locator("#answer")).to_contain_text("Decision +0")
    expect(page.locator("#answer tbody th").first).to_have_text("cross")
    expect(page.locator("#answer thead th")).to_have_text(["Class", "Match", "Distance"])
    expect(page.locator("#answer tbody tr").last.locator("td").first).to_contain_text("0 %")
    page.get_by_role("button", name="Wipe").click()
    page.locator("form", has=page.locator("#letter")).get_by_label("Save to Unknowns").check()
    stroke((50, 50), (172, 52))
    expect(page.locator(".verdict")).to_contain_text("unknown")
    page.get_by_role("link", name="name it").click()
    expect(page.locator(".tile").first.locator("img")).to_be_visible()

    page = tab.open("/try")
    circle = site.shapes["items"](site.shapes["draw"]("circle", 1, 4), "")[0].thumbnail
    page.set_input_files("#letter-file", {"name": "c.png", "mimeType": "image/png", "buffer": circle})
    expect(page.locator(".verdict")).to_contain_text("circle")
    page.get_by_label("256 numbers").fill("1, 2, x")
    page.get_by_role("button", name="Recognize").click()
    expect(page.locator("#answer")).to_contain_text("Give numbers")


def test_classes_are_described_renamed_merged_and_forgotten(site: Any, tabs: Any) -> None:
    tab = tabs(site)
    page, dialog = tab.open("/classes"), tab.page.locator("#dialog")

    def edit(label: str) -> None:
        tab.ready()
        page.locator(".card", has=page.locator(".title", has_text=label)).click()
        expect(dialog.locator("h2")).to_have_text(label)

    expect(page.locator(".card")).to_have_count(3)
    edit("circle")
    dialog.get_by_label("Description").fill("round")
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator(".card", has_text="round")).to_have_count(1)
    edit("circle")
    dialog.get_by_label("Name").fill("ring/2")
    dialog.get_by_role("button", name="Rename").click()
    expect(page.locator("#outcome")).to_contain_text("Renamed to “ring/2”.")
    assert site.recognizes("circle") == ["ring/2"] * 3
    edit("ring/2")
    similar = [near.label for near in site.world.classes.similar("ring/2")]
    expect(dialog.locator("#into optgroup").first.locator("option")).to_have_text(similar)
    dialog.get_by_label("Merge into").select_option("square")
    dialog.get_by_role("button", name="Merge").click()
    expect(page.locator(".card")).to_have_count(2)
    edit("cross")
    dialog.get_by_role("button", name="Forget this class").click()
    expect(page.locator(".card")).to_have_count(1)
    assert [info.label for info in site.world.classes.all()] == ["square"]
    page.locator("#outcome").get_by_role("button", name="Undo").click()
    expect(page.locator(".card")).to_have_count(2)
    page.locator("#search").fill("squ")
    expect(page.locator(".card")).to_have_count(1)


def test_the_samples_of_a_class_are_moved_and_removed(site: Any, tabs: Any) -> None:
    ids = site.world.pool.ids()[:14]
    site.world.labels.label(ids, "triangle", "local")
    page = tabs(site).open("/classes")
    page.locator(".card", has=page.locator(".title", has_text="triangle")).click()
    page.get_by_role("link", name="Samples, confusions and corrections").click()
    expect(page.locator("h1")).to_have_text("triangle")
    tiles = page.locator(".tile")
    expect(tiles).to_have_count(14)
    expect(page.locator("section", has=page.get_by_role("heading", name="Confused with"))).to_contain_text(
        "square"
    )
    tiles.nth(0).click()
    page.keyboard.press("u")
    expect(tiles).to_have_count(13)
    assert site.world.pool.get(ids[0]).label is None
    tiles.nth(0).click()
    page.get_by_label("Move to").fill("wedge")
    page.keyboard.press("Enter")
    expect(page.locator("#outcome")).to_contain_text("Learned “wedge” from 1 sample.")
    expect(tiles).to_have_count(12)
    assert site.world.pool.get(ids[1]).label == "wedge"

    page.reload()
    moved = page.locator("section", has=page.get_by_role("heading", name="Corrections")).locator(
        ".correction"
    )
    expect(moved).to_have_count(2)
    expect(moved.nth(0)).to_contain_text("You moved 1 sample to “wedge” just now")
    expect(moved.nth(1)).to_contain_text("You moved 1 sample back to the unknown just now")
    moved.nth(0).get_by_role("button", name=f"Sample {ids[1]}").click()
    expect(page.locator("#dialog")).to_contain_text("labeled as “wedge” by local")
    page.goto(f"{site.url}/unknowns/group?of=wedge")
    expect(page.locator(".correction")).to_contain_text("You moved 1 sample here from “triangle”")


def test_the_page_of_a_class_does_not_move_under_the_pointer(site: Any, tabs: Any) -> None:
    site.world.labels.label(site.world.pool.ids()[:14], "triangle", "local")
    tab = tabs(site)
    held: list[Any] = []
    tab.page.route("**/unknowns/hints", lambda route: held.append(route))
    page = tab.open("/unknowns/group?of=triangle")
    below = page.get_by_role("heading", name="Corrections")
    with page.expect_response("**/unknowns/hints"):
        while not held:
            page.wait_for_timeout(20)
        before = below.bounding_box()
        held[0].continue_()
    expect(page.locator("#hints")).not_to_have_class("htmx-request")
    assert below.bounding_box() == before

    page.set_viewport_size({"width": 1280, "height": 300})  # so small that it scrolls
    below.scroll_into_view_if_needed()
    box = below.bounding_box()
    shown = page.evaluate("([x, y]) => document.elementFromPoint(x, y).id", [box["x"] + 5, box["y"] + 5])
    assert shown == "corrections"  # and not the label box over it


def test_a_class_of_the_first_model_says_where_its_samples_are(site: Any, tabs: Any) -> None:
    page = tabs(site).open("/unknowns/group?of=square")
    expect(page.locator("main")).to_contain_text("Learned from 20 samples, 20 of them with the first model.")
    expect(page.locator(".empty")).to_contain_text("All its samples came with the first model")
    expect(page.locator("#label-form")).to_have_count(0)


def test_dashboard_is_live_and_goes_back(site: Any, tabs: Any) -> None:
    page = tabs(site).open("/dashboard")
    expect(page.locator("tbody tr")).to_have_count(1)
    ids = [sample.id for sample in site.world.pool.page().samples]
    site.world.labels.label(ids[:14], "triangle", "Ann")
    expect(page.locator("tbody tr").first).to_contain_text("+ triangle")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#dialog")).to_contain_text("Addedtriangle")
    page.locator("#dialog").get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Roll back").click()
    expect(page.locator("#outcome")).to_contain_text("Rolled back.")
    assert site.recognizes("triangle") == [None] * 3


def test_texts_are_sentences(site: Any, tabs: Any) -> None:
    shapes = site.shapes
    features = shapes["features"](shapes["draw"]("ell", 2, 6))
    ids = site.world.recognize(
        features, [SampleContent("text", "The quick brown fox."), SampleContent("text", "jumps")]
    ).sample_ids
    (cluster,) = site.world.clusters.replace([ClusterDraft(ids, ids[0])])
    page = tabs(site).open(f"/unknowns/group?cluster={cluster}")
    expect(page.locator(".tile.sentence")).to_have_count(2)
    expect(page.locator(".tile").first).to_contain_text("The quick brown fox.")
    assert page.locator(".tile img").count() == 0


def test_with_keys_one_logs_in_and_viewers_only_look(serve: Any, tabs: Any, tmp_path: Path) -> None:
    with serve(tmp_path, ServiceSettings(clustering=False)) as site:
        site.stream(0)
        viewer, labeler = (site.world.keys.create(name, name) for name in ("viewer", "labeler"))
        tab = tabs(site)
        tab.allowed.append("401 (Unauthorized)")
        page = tab.open("/map")
        assert page.url.endswith("/login")
        page.get_by_label("Your key").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#problem")).to_contain_text("This key does not exist")
        page.get_by_label("Your key").fill(viewer)
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Unknowns")
        tab.open("/unknowns/group?cluster=1")
        expect(page.get_by_role("button", name="Learn")).to_be_disabled()
        page.keyboard.press("x")
        page.keyboard.press("y")
        expect(page.locator(".toast")).to_have_count(0)
        tab.open("/login")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("button", name="Log out")).to_have_count(0)
        page.get_by_label("Your key").fill(labeler)
        page.keyboard.press("Enter")
        expect(page.locator(".me")).to_have_text("labeler")
        tab.open("/unknowns/group?cluster=1")
        page.get_by_label("What is it?").fill("triangle")
        page.keyboard.press("Enter")
        expect(page.locator("#outcome")).to_contain_text("Learned “triangle” from 14 samples.")
        tab.context.close()


def test_an_empty_world_says_what_to_do(serve: Any, tabs: Any, tmp_path: Path) -> None:
    with serve(tmp_path, ServiceSettings(clustering=False)) as site:
        tab = tabs(site)
        page = tab.open("/")
        expect(page.locator(".empty")).to_contain_text("No unknown samples are waiting")
        expect(page.locator(".empty pre")).to_contain_text(f"{site.url}/v1/recognize")
        tab.open("/map")
        expect(page.locator("#map-empty")).to_be_visible()
        tab.open("/history")
        expect(page.locator(".empty")).to_contain_text("Nothing happened yet")
        tab.open("/unknowns/next")
        assert page.url == site.url + "/"
        tab.allowed.append("404 (Not Found)")
        tab.open("/unknowns/group?cluster=9")
        expect(page.locator(".empty")).to_contain_text("There is no cluster 9")
        tab.context.close()


SOURCES = """
window.sources = [];
window.EventSource = class extends EventSource { constructor(url) { super(url); sources.push(this); } };
"""


def test_new_clusters_do_not_call_a_person_back_who_goes_to_another_page(site: Any, tabs: Any) -> None:
    tab = tabs(site)
    tab.page.add_init_script(SOURCES)
    page = tab.open("/")
    tab.ready()
    page.evaluate("""() => {
      window.same = true;
      dispatchEvent(new Event("beforeunload")); // as when a link is followed
      sources.at(-1).dispatchEvent(new MessageEvent("clusters", { data: "{}" }));
    }""")
    page.wait_for_timeout(500)  # in which it would load again
    assert page.evaluate("window.same")

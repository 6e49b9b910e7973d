import itertools
import sys
from collections import Counter

import numpy as np
import pytest
from scipy.fft import idctn

from openworld.data import letters as module
from openworld.data.letters import FACES, Letters, load_letters


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """The real letters, drawn once for all tests of this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENWORLD_CACHE", str(tmp_path_factory.mktemp("drawn")))
        return load_letters()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, which does not exist yet."""
    folder = tmp_path / "not" / "yet"
    monkeypatch.setenv("OPENWORLD_CACHE", str(folder))
    return folder


@pytest.fixture
def drawings(letters, monkeypatch):
    """Make drawing cheap, and list the times it was done."""
    done = []
    monkeypatch.setattr(module, "_draw_letters", lambda progress: done.append(progress) or letters)
    return done


def assert_same(left, right):
    for name in ("images", "labels", "faces"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), strict=True)


def image_of(letters, letter, face):
    (row,) = np.flatnonzero((letters.labels == letter) & (letters.faces == face))
    return letters.images[row]


# --- What the data set holds ---


def test_arrays(letters):
    n_samples = len(letters.images)
    assert letters.images.shape == (n_samples, 28, 28)
    assert letters.images.dtype == np.uint8
    assert letters.labels.shape == letters.faces.shape == (n_samples,)
    assert {len(letter) for letter in letters.classes.tolist()} == {1}
    assert set(letters.faces.tolist()) == set(FACES)
    assert len(FACES) == 16


def test_frequencies_are_the_images(letters):
    spectrum = np.zeros((50, 28, 28))
    spectrum[:, :16, :16] = letters.frequencies[:50].reshape(50, 16, 16)
    images = idctn(spectrum, axes=(1, 2), norm="ortho")
    assert letters.frequencies.shape == (len(letters.images), 256)
    assert letters.frequencies.dtype == np.float32
    assert letters.frequencies.std(axis=0).min() > 0.01
    assert np.corrcoef(images.ravel(), letters.X[:50].ravel())[0, 1] > 0.9


def test_arrays_are_read_only(letters):
    for array in (letters.images, letters.labels, letters.faces):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


def test_rows_are_sorted_by_letter_then_face_and_occur_once(letters):
    rows = list(zip(letters.labels.tolist(), letters.faces.tolist(), strict=True))
    assert rows == sorted(set(rows))


def test_over_1300_classes_of_12_faces_or_more(letters):
    assert len(letters.classes) > 1300
    assert letters.classes.tolist() == sorted(set(letters.labels.tolist()))
    assert min(Counter(letters.labels.tolist()).values()) >= 12


def test_X_is_the_images_scaled_to_one(letters):
    X = letters.X
    assert X.shape == (len(letters.images), 784)
    assert X.dtype == np.float32
    assert X.min() == 0
    assert X.max() == 1
    np.testing.assert_allclose(X[5] * 255, letters.images[5].ravel(), rtol=1e-6)


def test_every_image_has_ink_and_an_empty_margin(letters):
    images = letters.images
    assert images.reshape(len(images), -1).max(axis=1).min() >= 64
    assert not images[:, [0, -1], :].any()
    assert not images[:, :, [0, -1]].any()


def test_ink_is_centered(letters):
    columns = letters.images.any(axis=1)
    left, right = columns.argmax(axis=1), columns[:, ::-1].argmax(axis=1)
    assert np.abs(left - right).max() <= 1


def test_size_and_height_on_the_line_are_kept(letters):
    for face in FACES:
        small, capital = image_of(letters, "o", face), image_of(letters, "O", face)
        assert small.any(axis=1).sum() < capital.any(axis=1).sum()
    above, below = image_of(letters, "ˈ", "DejaVuSans"), image_of(letters, "ˌ", "DejaVuSans")
    assert above.any(axis=1).argmax() + 8 < below.any(axis=1).argmax()


# --- One class per shape ---


@pytest.mark.parametrize(
    "twins", ["A\u0391\u0410", "o\u03bf\u043e", "\u00c5\u212b", "\u03a9\u2126", "\u00eb\u0451"]
)
def test_letters_of_one_shape_are_one_class_named_by_the_first(letters, twins):
    assert [twin for twin in twins if twin in letters.classes] == [twins[0]]


@pytest.mark.parametrize("different", ["Oo", "Il", "ŎǑ", "ÀÁ", "AÀ", "OQ", "ʾʿ", "mт", "ἀἁ"])
def test_letters_of_different_shape_stay_apart(letters, different):
    assert set(different) <= set(letters.classes.tolist())


def test_no_two_classes_are_identical_in_half_of_the_faces_they_share(letters):
    faces_of, identical = {}, Counter()
    for letter in letters.classes.tolist():
        faces_of[letter] = set(letters.faces[letters.labels == letter].tolist())
    for face in FACES:
        same = {}
        here = letters.faces == face
        for letter, image in zip(letters.labels[here].tolist(), letters.images[here], strict=True):
            same.setdefault(image.tobytes(), []).append(letter)
        identical.update(pair for group in same.values() for pair in itertools.combinations(group, 2))
    assert all(2 * n < len(faces_of[a] & faces_of[b]) for (a, b), n in identical.items())


def gray(*levels):
    """One face, one flat image per letter."""
    return np.array(levels, np.uint8)[:, None, None] * np.ones((28, 28), np.uint8)


def test_twins_of_twins_are_twins():
    assert module._first_of_twins(np.array([gray(10, 61, 112, 164)])).tolist() == [0, 3]


def test_twins_are_alike_in_half_of_the_faces_that_have_both():
    alike, apart, alone = gray(10, 12), gray(10, 200), gray(0, 12)
    assert module._first_of_twins(np.array([alike, apart, alone])).tolist() == [0]
    assert module._first_of_twins(np.array([alike, apart, apart])).tolist() == [0, 1]


def test_alike_pairs_are_those_of_a_plain_search(monkeypatch):
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    base = rng.integers(0, 200, (5, 784))
    rows = np.repeat(base, 8, axis=0) + rng.integers(0, 40, (40, 1)) + rng.integers(0, 16, (40, 784))
    rows = rows.astype(np.uint8)
    pairs = itertools.combinations(range(40), 2)
    expected = {(i, j) for i, j in pairs if np.abs(rows[i].astype(int) - rows[j]).max() <= 51}
    batches = list(module._alike_pairs(rows))
    found = [pair for a, b in batches for pair in zip(a.tolist(), b.tolist(), strict=True)]
    assert len(batches) > 1
    assert sorted(found) == sorted(expected)


# --- What counts as a letter of a face ---


def drawn(face, letter):
    images = np.zeros((1, 28, 28), np.uint8)
    module._draw_face(module._open_font(face), [letter], out=images)
    return images[0]


def test_letters_that_a_face_lacks_stay_blank():
    assert drawn("DejaVuSans", "Ա").any()
    assert not drawn("STIXGeneral", "Ա").any()  # not in the face
    assert drawn("DejaVuSans", "ᴽ").any()
    assert not drawn("DejaVuSansMono-Oblique", "ᴽ").any()  # in the face, but without outline
    assert drawn("DejaVuSans-Bold", "ᙳ").any()
    assert not drawn("DejaVuSans-Bold", "ᙱ").any()  # too wide


class BoxForB:
    """A font whose table of characters sends B to the box of a missing character."""

    def __init__(self, font):
        self.font = font

    def __getattr__(self, name):
        return getattr(self.font, name)

    def load_char(self, point, flags):
        return self.font.load_glyph(0, flags) if point == ord("B") else self.font.load_char(point, flags)


def test_box_of_a_missing_character_stays_blank():
    images = np.zeros((2, 28, 28), np.uint8)
    module._draw_face(BoxForB(module._open_font("DejaVuSerif")), ["A", "B"], out=images)
    assert images.any(axis=(1, 2)).tolist() == [True, False]


def is_box(image):
    """Whether the ink is the outline of a rectangle."""
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    ink = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] > 0
    inside = ink[3:-3, 3:-3]
    return inside.size and not inside.any() and ink[[0, -1]].all() and ink[:, [0, -1]].all()


def test_no_image_is_a_box(letters):
    box = np.zeros((28, 28), np.uint8)
    box[8:24, 9:19] = 255
    box[9:23, 10:18] = 0
    assert is_box(box)
    boxes = [row for row, image in enumerate(letters.images) if is_box(image)]
    assert not letters.labels[boxes].tolist()


# --- Drawing and keeping ---


@pytest.mark.parametrize("face", FACES[::6])  # all would take as long as all other tests of this file
def test_drawing_again_gives_the_same(letters, face):
    drawn = np.zeros((len(letters.classes), 28, 28), np.uint8)
    module._draw_face(module._open_font(face), letters.classes.tolist(), out=drawn)
    rows = letters.faces == face
    assert rows.sum() > 500
    classes = np.searchsorted(letters.classes, letters.labels[rows])
    np.testing.assert_array_equal(drawn[classes], letters.images[rows])


def test_progress_is_reported_face_by_face(letters, monkeypatch):
    monkeypatch.setattr(module, "_draw_face", lambda font, letters, out: None)
    monkeypatch.setattr(module, "_select", lambda images, labels: letters)
    steps = []
    load_letters(cache=False, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(done, 16) for done in range(1, 17)]


def test_second_load_comes_from_the_cache(letters, cache, drawings):
    assert_same(load_letters(), letters)
    assert_same(load_letters(), letters)
    assert len(drawings) == 1
    (file,) = cache.iterdir()
    assert f"recipe{module.RECIPE}-matplotlib{sys.modules['matplotlib'].__version__}.npz" in file.name


def test_without_cache_nothing_is_read_or_written(cache, drawings):
    load_letters(cache=False)
    load_letters(cache=False)
    assert len(drawings) == 2
    assert not cache.exists()


def flip_a_bit(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "damage", [lambda content: content[: len(content) // 2], lambda content: b"", flip_a_bit]
)
def test_damaged_cache_file_is_replaced(letters, cache, drawings, damage):
    load_letters()
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert_same(load_letters(), letters)
    assert_same(load_letters(), letters)
    assert len(drawings) == 2
    assert list(cache.iterdir()) == [file]


def test_cache_file_of_another_shape_is_replaced(letters, cache, drawings):
    load_letters()
    (file,) = cache.iterdir()
    np.savez(file, images=letters.images, labels=letters.labels[1:], faces=letters.faces)
    assert_same(load_letters(), letters)
    assert len(drawings) == 2


def test_unwritable_cache_is_warned_of_once(letters, tmp_path, drawings, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "file" / "below"))
    module._warn_not_kept.cache_clear()
    with pytest.warns(UserWarning, match="drawn again each time") as caught:
        assert_same(load_letters(), letters)
    assert caught[0].filename == __file__
    assert_same(load_letters(), letters)
    assert len(drawings) == 2


def test_failed_write_leaves_nothing_behind(cache, drawings, monkeypatch):
    def full(*args, **kwargs):
        raise OSError("no space left")

    module._warn_not_kept.cache_clear()
    monkeypatch.setattr("openworld.files.os.replace", full)
    with pytest.warns(UserWarning, match="no space left"):
        load_letters()
    assert list(cache.iterdir()) == []


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.ft2font", raising=False)
    with pytest.raises(ImportError, match=r"pip install openworld\[evaluate\]"):
        load_letters()


def test_letters_does_not_freeze_the_arrays_it_is_given():
    images = np.zeros((1, 28, 28), np.uint8)
    Letters(images, np.array(["A"]), np.array(["DejaVuSans"]))
    images[0] = 1
    assert images.all()

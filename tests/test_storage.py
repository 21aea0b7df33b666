"""Files: a write is whole or has not happened; a model file comes back or says why not."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import pickle
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import unrelu.storage
from unrelu import __version__
from unrelu.errors import InvalidParameterError, ModelFileError, OutputError
from unrelu.model import RectifiedGaussian, read_header
from unrelu.storage import atomic_write

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files and limits")


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(unrelu.storage).failed == 0


# --- writing aside, then renaming -----------------------------------------------------------------


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("as_type", [str, Path])
def test_the_file_changes_only_when_the_block_ends(tmp_path: Path, as_type: Any) -> None:
    target = tmp_path / "result.csv"
    with atomic_write(as_type(target)) as stream:
        stream.write(b"old")
        stream.flush()
        assert not target.exists()
    with atomic_write(as_type(target)) as stream:
        stream.write(b"new and longer")
        stream.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new and longer"
    assert _names(tmp_path) == ["result.csv"]


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_in_the_block_leaves_the_old_file(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "result.csv"
    target.write_bytes(b"old")

    def half_a_write() -> None:
        with atomic_write(target) as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(type(error)) as caught:
        half_a_write()
    assert caught.value is error
    assert target.read_bytes() == b"old"
    assert _names(tmp_path) == ["result.csv"]


def test_an_exception_in_the_block_leaves_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), atomic_write(tmp_path / "result.csv") as stream:
        stream.write(b"%d" % (1 // 0))
    assert _names(tmp_path) == []


@posix_only
def test_a_process_that_dies_in_the_block_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "result.csv"
    target.write_bytes(b"old")
    code = """
import os, sys
from unrelu.storage import atomic_write
with atomic_write(sys.argv[1]) as stream:
    stream.write(b"half" * 100_000)
    stream.flush()
    os._exit(7)
"""
    assert subprocess.run([sys.executable, "-c", code, str(target)], check=False).returncode == 7
    assert target.read_bytes() == b"old"


def _cannot_write(target: Path) -> str:
    with pytest.raises(OutputError) as caught, atomic_write(target) as stream:
        stream.write(b"anything")
    message = str(caught.value)
    assert str(target) in message
    assert "\n" not in message
    assert isinstance(caught.value.__cause__, OSError)
    return message


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    message = _cannot_write(tmp_path / "nowhere" / "result.csv")
    assert f"the folder {tmp_path / 'nowhere'} does not exist. Create it first." in message


def test_a_folder_is_no_place_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "it is a folder. Give a file name." in _cannot_write(tmp_path / "folder")
    assert _names(tmp_path) == ["folder"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    assert "Not a directory" in _cannot_write(tmp_path / "file" / "result.csv")
    assert (tmp_path / "file").read_bytes() == b"old"


@contextlib.contextmanager
def _folder_of_another_user() -> Iterator[Path]:
    """A folder that may be read but not written; an administrator becomes nobody meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o555)
        administrator = os.geteuid() == 0
        if administrator:
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            if administrator:
                os.seteuid(0)
            os.chmod(name, 0o755)


@posix_only
def test_a_folder_that_may_not_be_written() -> None:
    with _folder_of_another_user() as folder:
        assert f"the folder {folder} is not writable" in _cannot_write(folder / "result.csv")
        assert _names(folder) == []


def _is_full_device() -> bool:
    return os.path.exists("/dev/full") and stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.skipif(not _is_full_device(), reason="needs the device /dev/full")
@pytest.mark.parametrize("size", [3, 1_000_000])  # found out when flushed, and when written
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, size: int) -> None:
    target = tmp_path / "result.csv"
    target.write_bytes(b"old")

    def write() -> None:
        with atomic_write(target) as stream:
            # Only the open file is turned to the device; its name is never given to atomic_write.
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, stream.fileno())
            os.close(full)
            stream.write(b"x" * size)

    with pytest.raises(OutputError, match="No space left while writing"):
        write()
    assert target.read_bytes() == b"old"
    assert _names(tmp_path) == ["result.csv"]


@posix_only
def test_a_model_that_does_not_fit_leaves_the_old_model(tmp_path: Path) -> None:
    old = RectifiedGaussian([1.0], [[2.0]])
    old.save(tmp_path / "m")
    code = """
import resource, signal, sys
sys.dont_write_bytecode = True
import numpy as np
from unrelu.model import RectifiedGaussian
from unrelu.errors import OutputError
model = RectifiedGaussian(np.zeros(100), np.eye(100))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    model.save(sys.argv[1])
except OutputError as error:
    sys.exit(str(error))
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip() == f"Cannot write {tmp_path / 'm'}: File too large."
    assert _names(tmp_path) == ["m"]
    assert RectifiedGaussian.load(tmp_path / "m") == old


@posix_only
def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with atomic_write(tmp_path / "pipe") as stream:
            stream.write(b"x")
        assert os.read(reader, 2) == b"x"
        assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    finally:
        os.close(reader)


# --- model files ----------------------------------------------------------------------------------

NAMES = ("As", "Pb", "Zn")
BIAS = np.array([0.5, -1.0, 2.0])
COVARIANCE = np.array([[4.0, 1.0, -0.3], [1.0, 1.0, 0.2], [-0.3, 0.2, 0.25]])


@pytest.fixture
def model() -> RectifiedGaussian:
    return RectifiedGaussian(BIAS, COVARIANCE, floor=[0.0, -0.5, 1.5], feature_names=NAMES)


def _entries(path: Path) -> dict[str, np.ndarray]:
    """The arrays in a model file, read without our code."""
    with zipfile.ZipFile(path) as archive:
        return {
            name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
            for name in archive.namelist()
        }


def _write(path: Path, header: Any, **arrays: Any) -> None:
    """A model file written without our code."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with open(path, "wb") as stream:
        np.savez(stream, header=np.frombuffer(text, dtype=np.uint8), **arrays)


HEADER = {"format": "unrelu.RectifiedGaussian", "format_version": 5, "n_features": 2}
ARRAYS: dict[str, Any] = {"mean": np.zeros(2), "covariance": np.eye(2), "floor": np.zeros(2)}


@pytest.mark.parametrize("name", ["model.npz", "model", "model.unrelu", "ä b"])
def test_save_and_load_at_exactly_the_path_given(tmp_path: Path, name: str) -> None:
    model = RectifiedGaussian(BIAS, COVARIANCE / 3, [0.1, 0.2, 1 / 3], ["Ärsen", "鉛", "\n"])
    model.save(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert RectifiedGaussian.load(tmp_path / name) == model
    model.marginal([0]).save(str(tmp_path / name))  # as a string, over the old one
    assert RectifiedGaussian.load(str(tmp_path / name)) == model.marginal([0])


def test_the_file_holds_what_the_format_says(tmp_path: Path, model: RectifiedGaussian) -> None:
    details = {"n_rows": np.int64(5), "share": np.float32(0.5), "margins": np.arange(2), "notes": ["a"]}
    model.save(tmp_path / "m", details=details)
    entries = _entries(tmp_path / "m")
    header = entries.pop("header")
    assert header.dtype == np.uint8
    expected = {
        "format": "unrelu.RectifiedGaussian",
        "format_version": 5,
        "unrelu_version": __version__,
        "n_features": 3,
        "feature_names": list(NAMES),
        **dict.fromkeys(("mean", "covariance", "floor", "ceiling", "scoring_covariance", "margins")),
        "arrays": ["mean", "floor", "covariance"],
        "details": {"n_rows": 5, "share": 0.5, "margins": [0, 1], "notes": ["a"]},
    }
    assert json.loads(header.tobytes().decode("utf-8")) == expected == read_header(tmp_path / "m")
    assert set(entries) == {"mean", "covariance", "floor"}
    for name, array in entries.items():
        assert_array_equal(array, getattr(model, name))


def test_details_that_are_not_json_are_refused_and_nothing_is_written(tmp_path: Path, model: RectifiedGaussian) -> None:
    with pytest.raises(InvalidParameterError, match="details must be plain JSON values: object is not one"):
        model.save(tmp_path / "m", details={"x": object()})
    assert list(tmp_path.iterdir()) == []


def test_saving_into_a_missing_folder(tmp_path: Path, model: RectifiedGaussian) -> None:
    with pytest.raises(OutputError, match="does not exist"):
        model.save(tmp_path / "nowhere" / "m")


def test_load_reads_what_another_program_wrote(tmp_path: Path) -> None:
    _write(tmp_path / "m", HEADER, **ARRAYS)
    assert RectifiedGaussian.load(tmp_path / "m") == RectifiedGaussian([0.0, 0.0], np.eye(2))


def _refused(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        RectifiedGaussian.load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message.replace(str(path), "FILE")


def test_load_without_a_file(tmp_path: Path) -> None:
    assert _refused(tmp_path / "none") == "There is no model file FILE."
    assert _refused(tmp_path) == "FILE is a folder, not a model file."
    (tmp_path / "file").touch()
    assert _refused(tmp_path / "file" / "m") == "There is no model file FILE."


def test_load_refuses_a_newer_format(tmp_path: Path) -> None:
    _write(tmp_path / "m", HEADER | {"format_version": 6}, something="else")
    expected = "FILE was written by a newer unrelu (format 6); this one reads up to 5: upgrade unrelu."
    assert _refused(tmp_path / "m") == expected
    with pytest.raises(ModelFileError, match="newer unrelu"):
        read_header(tmp_path / "m")


@pytest.mark.parametrize("content", [b"", b"PK", b"hello, world\n" * 9, bytes(range(256)), pickle.dumps({"a": 1})])
def test_load_refuses_foreign_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m").write_bytes(content)
    assert _refused(tmp_path / "m") == "FILE is not an unrelu model file, or is damaged."


def test_load_refuses_other_archives(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("letter.txt", "dear reader")
    assert "not an unrelu model file" in _refused(path)
    np.savez(path.with_suffix(".npz"), X=np.ones(3))
    assert "not an unrelu model file" in _refused(path.with_suffix(".npz"))
    np.save(path.with_suffix(".npy"), np.ones(3))
    assert "not an unrelu model file" in _refused(path.with_suffix(".npy"))


@pytest.mark.parametrize(
    ("header", "change", "message"),
    [
        (b"no json", {}, "not an unrelu model file"),
        (["a list"], {}, "not an unrelu model file"),
        ({"format": "else"}, {}, "not an unrelu model file"),
        (HEADER | {"format_version": None}, {}, "no format version"),
        (HEADER | {"n_features": 3}, {}, "damaged: mean has shape (2,) instead of (3,)"),
        (HEADER | {"n_features": -1}, {}, "damaged: n_features is -1"),
        (HEADER | {"n_features": True}, {}, "damaged: n_features is True, not of type int"),
        (HEADER, {"mean": np.zeros(3)}, "damaged: mean has shape (3,) instead of (2,)"),
        (HEADER, {"covariance": np.eye(3)}, "damaged: covariance has shape (3, 3) instead of (2, 2)"),
        (HEADER, {"floor": np.float64(0.0)}, "damaged: floor has shape () instead of 1 dimensions"),
        (HEADER, {"mean": np.array([0.0, np.nan])}, "damaged: mean holds values that are not finite"),
        (HEADER, {"median": np.zeros(2)}, "damaged: it has 'median', which this version cannot read"),
        (HEADER, {"margins.0": np.zeros(2)}, "damaged: there is no place for its array margins.0"),
        (HEADER, {"n_features": np.zeros(2)}, "damaged: it states n_features twice"),
        (HEADER, {"covariance": -np.eye(2)}, "damaged: covariance has a negative variance"),
        (HEADER, {"mean": np.array(["a", "b"])}, "damaged: mean holds str32 values"),
        (HEADER, {"mean": np.array([{}, {}], dtype=object)}, "or is damaged"),  # would need pickle
        (HEADER | {"feature_names": ["a", "a"]}, {}, "damaged: feature_names must be distinct"),
        (HEADER | {"feature_names": ["a"]}, {}, "damaged: feature_names has 1 items instead of 2"),
        (HEADER | {"feature_names": ["a", 2]}, {}, "damaged: feature_names.1 is 2, not of type text"),
        (HEADER | {"feature_names": 3}, {}, "damaged: feature_names is no list"),
    ],
)
def test_load_refuses_wrong_content(tmp_path: Path, header: Any, change: dict[str, Any], message: str) -> None:
    _write(tmp_path / "m", header, **(ARRAYS | change))
    assert message in _refused(tmp_path / "m")


@pytest.mark.parametrize("missing", ["mean", "covariance", "floor"])
def test_load_refuses_missing_arrays(tmp_path: Path, missing: str) -> None:
    _write(tmp_path / "m", HEADER, **{name: array for name, array in ARRAYS.items() if name != missing})
    assert _refused(tmp_path / "m") == f"FILE is damaged: its header lacks '{missing}'."


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_files_from_before_the_first_release_are_refused_with_the_reason(tmp_path: Path, version: int) -> None:
    _write(tmp_path / "m", HEADER | {"format_version": version}, **ARRAYS)
    expected = "FILE is from before the first release and cannot be read: make the file again."
    assert _refused(tmp_path / "m") == expected


def test_load_refuses_every_truncation(tmp_path: Path, model: RectifiedGaussian) -> None:
    model.save(tmp_path / "m")
    whole = (tmp_path / "m").read_bytes()
    for length in range(0, len(whole), 23):
        (tmp_path / "m").write_bytes(whole[:length])
        assert "damaged" in _refused(tmp_path / "m")


def _flipped(path: Path, data: st.DataObject, places: list[int] | None = None) -> RectifiedGaussian:
    """Save a model, flip bits of one byte, one of ``places`` if these are given, and give the model saved."""
    model = RectifiedGaussian(BIAS, COVARIANCE)
    model.save(path)
    content = bytearray(path.read_bytes())
    content[data.draw(st.sampled_from(places or range(len(content))))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    return model


def _places_of_arrays(path: Path) -> list[int]:
    RectifiedGaussian(BIAS, COVARIANCE).save(path)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        spans = [(whole.index(archive.read(name)), len(archive.read(name))) for name in archive.namelist()]
    return [start + k for start, length in spans for k in range(length)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_flipped_byte_of_an_array_is_refused(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("flip") / "m"
    _flipped(path, data, _places_of_arrays(path))
    assert "damaged" in _refused(path)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_flipped_byte_never_changes_what_is_read(tmp_path_factory: Any, data: st.DataObject) -> None:
    """Dates and flags of the archive do not matter; what does is refused, as above."""
    path = tmp_path_factory.mktemp("flip") / "m"
    model = _flipped(path, data)
    with contextlib.suppress(ModelFileError):
        assert RectifiedGaussian.load(path) == model

"""Tensors in .npz files: round trips by bits, what stands in the file, and the errors."""

from __future__ import annotations

import io
import zipfile

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.errors import SimError
from ascend_sim.ops.tensor_files import load_tensors, save_tensors

pytestmark = pytest.mark.fast

FORMATS = {
    "float32": (np.uint32, np.float32),
    "float16": (np.uint16, np.float16),
    "bfloat16": (np.uint16, ml_dtypes.bfloat16),
    "hifloat8": (np.uint8, np.uint8),
    "float8_e4m3fn": (np.uint8, np.uint8),
}


@given(dtype=st.sampled_from(list(FORMATS)), shape=st.lists(st.integers(0, 4), max_size=5).map(tuple), seed=st.integers(0, 99))
def test_every_bit_pattern_survives(tmp_path_factory, dtype, shape, seed):
    """NaN payloads and negative zeros included: the arrays are compared as bits."""
    bits, in_memory = FORMATS[dtype]
    array = np.random.default_rng(seed).integers(0, np.iinfo(bits).max, shape, bits, endpoint=True).view(in_memory)
    path = tmp_path_factory.mktemp("tensors") / "tensors.npz"
    save_tensors(path, {"input": (array, dtype)})
    loaded, name = load_tensors(path)["input"]
    assert (name, loaded.dtype, loaded.shape) == (dtype, np.dtype(in_memory), shape)
    np.testing.assert_array_equal(loaded.view(bits), array.view(bits))


def test_the_file_needs_only_numpy(tmp_path):
    """Another program reads the bit patterns and the names of their formats without ml_dtypes."""
    path = tmp_path / "tensors.npz"
    ones = np.ones(3, ml_dtypes.bfloat16)
    eight = np.ones(3, ml_dtypes.float8_e4m3fn)
    save_tensors(path, {"self": (ones, "bfloat16"), "bias": (eight, "float8_e4m3fn"), "input": (np.ones(3, "f4"), "float32")})
    with np.load(path, allow_pickle=False) as entries:
        assert sorted(entries) == ["bias", "bias_dtype", "input", "self", "self_dtype"]
        assert entries["self"].dtype == np.uint16
        assert entries["self"].tolist() == [0x3F80] * 3
        assert str(entries["self_dtype"]) == "bfloat16"
        assert entries["bias"].dtype == np.uint8
        assert entries["bias"].tolist() == [0x38] * 3
        assert str(entries["bias_dtype"]) == "float8_e4m3fn"


def test_what_a_user_wrote_with_numpy(tmp_path):
    """Big-endian and Fortran order are numpy's matter; a dtype entry for a dtype that numpy knows is allowed."""
    path = tmp_path / "tensors.npz"
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(path, input=np.asfortranarray(values.astype(">f4")), weight=values, weight_dtype="float32")
    loaded = load_tensors(path, {"input": ((2, 3), "float32"), "weight": ((2, 3), "float32")})
    for array, dtype in loaded.values():
        assert dtype == "float32"
        assert array.dtype.isnative
        assert array.flags.c_contiguous
        np.testing.assert_array_equal(array, values)


def test_only_expected_tensors_are_read(tmp_path):
    path = tmp_path / "tensors.npz"
    np.savez(path, input=np.ones(2, np.float16), note=np.array([1, 2]))
    assert list(load_tensors(path, {"input": ((2,), "float16")})) == ["input"]


def error_of(path, expected=None):
    with pytest.raises(SimError) as caught:
        load_tensors(path, expected)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


NEEDED = {"grad_output": ((2, 3), "float16"), "input": ((2, 3), "float16")}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"input": np.ones((2, 3), "f2")}, "missing grad_output; needed: grad_output, input; there: input"),
        ({}, "missing grad_output, input; needed: grad_output, input; there: nothing"),
        (
            {"grad_output": np.ones((2, 3), "f2"), "input": np.ones((3, 2), "f2")},
            "input: shape [3, 2] given, the case needs [2, 3]",
        ),
        (
            {"grad_output": np.ones((2, 3), "f2"), "input": np.ones((2, 3), "f4")},
            "input: dtype float32 given, the case needs float16",
        ),
        (
            {"grad_output": np.ones((2, 3)), "input": np.ones((2, 3), "f2")},
            "grad_output: dtype float64 is not allowed; allowed: float32, float16, bfloat16, hifloat8, float8_e4m3fn",
        ),
        (
            {"grad_output": np.array([{}, "x"], object), "input": np.ones((2, 3), "f2")},
            "grad_output: not an array of numbers (it holds Python objects)",
        ),
        (
            {"grad_output": np.ones((2, 3), "u2"), "grad_output_dtype": np.array("bf16")},
            "missing input; needed: grad_output, input; there: grad_output",
        ),
        (
            {"grad_output": np.ones((2, 3), "u2"), "grad_output_dtype": np.array("bf16"), "input": np.ones((2, 3), "f2")},
            "grad_output_dtype: 'bf16' is not a known dtype; allowed: float32, float16, bfloat16, hifloat8, float8_e4m3fn",
        ),
        (
            {"grad_output": np.ones((2, 3), "u1"), "grad_output_dtype": np.array("bfloat16"), "input": np.ones((2, 3), "f2")},
            "grad_output: bfloat16 is stored as uint16, but the array is uint8",
        ),
    ],
)
def test_unusable_arrays_are_named(tmp_path, arrays, message):
    path = tmp_path / "tensors.npz"
    np.savez(path, **arrays)
    assert error_of(path, NEEDED) == message


def test_a_bfloat16_array_saved_by_numpy_alone_gets_a_hint(tmp_path):
    path = tmp_path / "tensors.npz"
    np.savez(path, input=np.ones(3, ml_dtypes.bfloat16))
    assert error_of(path).endswith("bit patterns need a string entry input_dtype")


def test_files_that_are_no_npz(tmp_path):
    assert error_of(tmp_path / "none.npz").startswith("no such file")
    assert error_of(tmp_path).startswith("is a folder")
    text = tmp_path / "text.npz"
    text.write_text("hello")
    assert error_of(text).startswith("not an .npz file")
    single = tmp_path / "single.npy"
    np.save(single, np.ones(3))
    assert error_of(single).startswith("not an .npz file")


def test_a_damaged_file(tmp_path):
    path = tmp_path / "tensors.npz"
    save_tensors(path, {"input": (np.arange(1000, dtype=np.float32), "float32")})
    content = bytearray(path.read_bytes())
    content[1000] ^= 0xFF
    path.write_bytes(content)
    assert "damaged" in error_of(path)
    path.write_bytes(content[:2000])
    assert "not an .npz file" in error_of(path)


def declared(path, shape, values, descr="<f4", name="grad_output", compressed=True):
    """An archive whose array has a header of `shape` and so many zero bytes behind it."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": descr, "fortran_order": False, "shape": shape})
    packed = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "a", packed, compresslevel=1) as archive:
        archive.writestr(f"{name}.npy", head.getvalue() + bytes(values))
    return path


def test_a_wrong_shape_is_refused_before_the_values_are_read(tmp_path, monkeypatch):
    path = declared(tmp_path / "t.npz", (1 << 20,), 4 << 20)
    declared(path, (2, 3), 24, name="input")
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("values were read"))
    needed = {"grad_output": ((2, 3), "float32"), "input": ((2, 3), "float32")}
    assert error_of(path, needed) == "grad_output: shape [1048576] given, the case needs [2, 3]"


@pytest.mark.parametrize(
    ("shape", "values", "descr", "message"),
    [
        ((1 << 40,), 24, "<f4", "grad_output: damaged: [1099511627776] of float32 take 4398046511104 bytes, it has 24"),
        ((-1, 3), 24, "<f4", "grad_output: damaged: [-1, 3]"),
        ((2, 3), 20, "<f4", "grad_output: damaged: [2, 3]"),
        ((2, 3), 24, "|O", "grad_output: not an array of numbers (it holds Python objects)"),
        ((1,) * 99, 4, "<f4", "damaged"),
        ((True, 2, 3), 24, "<f4", "grad_output: damaged: a shape of [True, 2, 3]"),
    ],
)
def test_headers_that_lie(tmp_path, shape, values, descr, message):
    path = declared(tmp_path / "t.npz", shape, values, descr)
    assert error_of(path).startswith(message)


def test_an_entry_that_is_there_twice(tmp_path):
    path = declared(tmp_path / "t.npz", (2, 3), 24)
    with pytest.warns(UserWarning, match="Duplicate"):
        declared(path, (2, 3), 24)
    assert error_of(path).startswith("grad_output: is there twice")


def test_a_label_is_a_short_text(tmp_path):
    path = tmp_path / "t.npz"
    for label in (np.array(["bfloat16"] * 2), np.array(3), np.array("x" * 5000)):
        np.savez(path, input=np.ones(3, np.uint16), input_dtype=label)
        assert error_of(path).startswith("input_dtype: not the name of a dtype")


def test_an_encrypted_archive(tmp_path):
    path = declared(tmp_path / "t.npz", (2, 3), 24, compressed=False)
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    assert "encrypted" in error_of(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "tensors.npz"
    save_tensors(path, {"input": (np.ones(2, np.float32), "float32")})
    before = path.read_bytes()

    def full_disk(file, **entries):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(SimError, match=r"tensors\.npz: cannot be written \(No space left on device\)"):
        save_tensors(path, {"input": (np.zeros(2, np.float32), "float32")})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_of_the_old_file_keeps_it(tmp_path):
    path = tmp_path / "tensors.npz"
    save_tensors(path, {"input": (np.ones(2, np.float32), "float32")})
    with np.load(path) as reader:
        save_tensors(path, {"input": (np.zeros(200, np.float32), "float32")})
        assert reader["input"].tolist() == [1, 1]
    assert not load_tensors(path)["input"][0].any()


def test_equal_tensors_make_equal_files(tmp_path):
    for name in ("one.npz", "two.npz"):
        save_tensors(tmp_path / name, {"input": (np.ones(5, ml_dtypes.bfloat16), "bfloat16")})
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


@pytest.mark.parametrize(
    ("array", "dtype", "message"),
    [
        (np.ones(2), "float64", "'float64' is not allowed"),
        (np.ones(2, np.float32), "bfloat16", "an array of float32 is not bfloat16"),
        (np.ones(2, np.float32), "hifloat8", "an array of float32 is not hifloat8"),
    ],
)
def test_save_refuses_what_it_could_not_load(tmp_path, array, dtype, message):
    with pytest.raises(SimError, match=message):
        save_tensors(tmp_path / "tensors.npz", {"input": (array, dtype)})
    assert not any(tmp_path.iterdir())


def test_save_into_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(SimError, match="cannot be written"):
        save_tensors(tmp_path / "none" / "tensors.npz", {"input": (np.ones(2, np.float32), "float32")})

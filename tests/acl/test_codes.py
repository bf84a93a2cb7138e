"""The table of assumed codes and its page, the page's program, and the vendor's numbers."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from ascend_sim import acl
from tests.support.places import DOCS

pytestmark = pytest.mark.fast

PAGE = (DOCS / "acl.md").read_text(encoding="utf-8")


def test_the_page_shows_the_table():
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)
    expected = [(key, str(row.code), row.name, row.when) for key, row in acl.ASSUMED_CODES.items()]
    assert rows == expected


def test_the_program_of_the_page_prints_what_the_page_says():
    program, output = re.search(r"```python\n(.+?)```\n\nIt prints\n\n```\n(.+?)```", PAGE, re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "docs/acl.md", "exec"), {})
    assert printed.getvalue() == output


@pytest.mark.parametrize("key", acl.ASSUMED_CODES)
def test_every_reason_is_used(key):
    package = Path(acl.__file__).parent
    text = "".join(file.read_text(encoding="utf-8") for file in package.glob("*.py") if file.name != "codes.py")
    assert f'"{key}"' in text

"""Shorthands for the tests of the C interface: compile a program as a user does, run it, read the documents' programs."""

import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

from ascend_sim.built import built_file
from tests.support.places import ROOT, TESTS

HERE = TESTS / "acl" / "c"
SPEC = ROOT.parent / "shared" / "spec"
"""The operator documents, where there are any; what reads them is skipped elsewhere."""
DOCUMENTS = sorted(path for path in SPEC.glob("*.txt") if not path.with_suffix(".repaired.txt").exists())

LINKABLE = bool(sysconfig.get_config_var("Py_ENABLE_SHARED")) and Path(sysconfig.get_path("include"), "Python.h").is_file()
"""True if a library can be linked with this Python."""


def documents_programs():
    """Name and text of every C++ program in the documents: from its first include to the end of its main."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8", errors="replace")
        if "int main(" in text:
            begin = text.index("#include")
            found.append((path.name[:3], text[begin : text.index("\n}\n", text.index("int main(")) + 3]))
    return found


def documents_signatures():
    """Every declaration of an operator that stands in the documents, by document."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8", errors="replace")
        for declaration in re.findall(r"aclnnStatus\s+aclnnConv\w+\s*\([^;)]*\)", text):
            found.append((path.name[:3], " ".join(declaration.split())))
    return found


def compiler_call(compiler, source, program, flags):
    """Compile one file; every warning is an error."""
    command = [*compiler, "-Wall", "-Wextra", "-Werror", str(source), "-o", str(program), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
    return program


def run(program, *arguments, code=0, **environment):
    """Run a program and return its output; the variables of `environment` are those without ASCEND_SIM_ before their name, or
    others.
    """
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND_SIM_")}
    if built_file() is None:  # which a program says once, where nobody chose the engine
        plain["ASCEND_SIM_ENGINE"] = "simpy"
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain | environment)
    assert done.returncode == code, f"{shlex.join(command)}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done


def numbers(printed):
    """Values by name from lines like "gradInputResult[3] is: 2.000000" and "gradInput 2"."""
    values = {}
    for name, value in re.findall(r"^(grad[A-Z][a-z]+)(?:Result\[\d+\] is:)? ([-\d.e+]+)$", printed, re.MULTILINE):
        values.setdefault(name, []).append(float(value))
    return values

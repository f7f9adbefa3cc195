"""What `tripoint.plugins.findings` says of sick installations, each made for real: what is wrong, and what to type."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., str]
Write = Callable[..., Path]

ENTRY = "[tripoint.backends.v1]\nyard.strided = yard:backend\n"
YARD = """
from tripoint.plugin import Backend, Device, strided
class P:
    shape = ()
backend = Backend(Device("yard"), strided, payload=P)
"""
PROGRAM = """
import tripoint as tp
for f in tp.plugins.findings(load_all=True):
    if f.what.partition(" ")[0] != "cuda.strided":
        print(repr((f.level, f.what, f.remedy)))
"""


@pytest.fixture
def doctor(run_program: Run, tmp_path: Path) -> Callable[..., list[tuple[str, str, str]]]:
    """The findings of a fresh interpreter, but that a machine has no GPU."""

    def doctor(site: Path | None = None, **env: str) -> list[tuple[str, str, str]]:
        return [ast.literal_eval(line) for line in run_program(PROGRAM, site=site, env=env).splitlines()]

    return doctor


def metadata(*requires: str) -> str:
    return "Metadata-Version: 2.1\nName: yard\nVersion: 1.0\n" + "".join(f"Requires-Dist: {r}\n" for r in requires)


def test_a_sound_installation_has_nothing(doctor: Callable[..., object], write_distribution: Write) -> None:
    needs = metadata(
        "numpy>=1.0,<999", "pluggy", "tripoint>=0.0.1", 'no-such; extra == "gpu"', 'nor-such; os_name == "x"'
    )
    assert doctor(write_distribution("yard", ENTRY, yard=YARD, metadata=needs)) == []


def test_what_is_needed_and_not_installed_comes_first_and_says_what_to_type(
    doctor: Callable[..., list[tuple[str, str, str]]], write_distribution: Write
) -> None:
    write_distribution(
        "other", "[tripoint.names.v1]\nother_name = other:x\n", metadata=metadata("no-such-thing<9"), other="x = 1"
    )
    site = write_distribution(
        "yard", ENTRY, yard="import no_such_thing\n", metadata=metadata("No_Such.Thing >= 1.5, !=2.0")
    )
    missing, broken, *rest = doctor(site)
    assert missing == (
        "error",
        "no-such-thing is not installed, and needed by other 1.0 (no-such-thing<9) and by yard 1.0 (No_Such.Thing>=1.5,!=2.0)",
        'pip install "no-such-thing<9,>=1.5,!=2.0"',
    )
    assert broken[:2] == ("error", "yard 1.0 is broken: ModuleNotFoundError: No module named 'no_such_thing'")
    assert [what for _, what, _ in rest if "calls it yard" not in what] == []  # of the other one, whose metadata lies


def test_another_version_than_is_needed(
    doctor: Callable[..., list[tuple[str, str, str]]], write_distribution: Write
) -> None:
    write_distribution("tool", "", version="1.2", tool="")
    ((level, what, remedy),) = doctor(write_distribution("yard", ENTRY, yard=YARD, metadata=metadata("tool>=1.10,<2")))
    assert level == "warning"
    assert what == "tool 1.2 is installed, another version is needed by yard 1.0 (tool>=1.10,<2)"
    assert remedy == 'pip install "tool>=1.10,<2"'


def test_a_first_party_plugin_that_is_needed_may_be_in_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    from tripoint.plugins.records import Plugin
    from tripoint.plugins.surroundings import Installed

    monkeypatch.setattr(
        Installed, "needs", lambda self, plugin: [("tripoint-nowhere", []), ("tripoint-sparse-coo", [])]
    )
    around = Installed([Plugin("yard", "1.0")])
    del around.found["tripoint-sparse-coo"]
    (_, _, elsewhere), (level, what, remedy) = around.unmet()
    assert (level, remedy) == ("error", "pip install tripoint-sparse-coo (in a checkout: ./plugins/sparse_coo)")
    assert what == "tripoint-sparse-coo is not installed, and needed by yard 1.0 (tripoint-sparse-coo)"
    assert elsewhere == 'pip install "tripoint-nowhere"'


@pytest.mark.parametrize("name", ["tripoint", "numpy", "yard"])
def test_a_file_that_hides_a_module_is_found_in_the_current_folder(
    name: str, run_program: Run, write_distribution: Write, tmp_path: Path
) -> None:
    site = write_distribution("yard", ENTRY, yard=YARD, metadata=metadata("numpy"))
    record = site / "yard-1.0.dist-info" / "RECORD"
    record.write_text("yard.py,,\n")
    there = tmp_path / "started_here"
    (there / "folder_without_an_init" / "numpy").mkdir(parents=True)
    program = f"import os; os.chdir({str(there)!r})\n{PROGRAM}"
    assert run_program(program, site=site, flags=("-P",)) == ""
    (there / f"{name}.py").write_text("raise SystemExit('who starts this by accident')\n")
    (line,) = run_program(program, site=site, flags=("-P",)).splitlines()
    level, what, remedy = ast.literal_eval(line)
    assert level == "warning"
    assert what.startswith(f"{there / name}.py hides ")
    assert what.endswith(f": a program that is started here imports it as {name}")
    assert remedy.startswith("rename it, or start programs in another folder")
    # Where the folder is on the path it is no warning any more, and comes before what breaks for it.
    if name == "yard":
        program = f"import sys; sys.path.insert(0, {str(there)!r})\n{PROGRAM}"
        first, *_ = run_program(program, site=site, flags=("-P",)).splitlines()
        level, what, _ = ast.literal_eval(first)
        assert (level, what.endswith("yard.py: this program imports it as yard")) == ("error", True)


def test_the_current_folder_may_be_that_of_the_module_and_may_be_gone(
    run_program: Run, write_distribution: Write, tmp_path: Path
) -> None:
    site = write_distribution("yard", ENTRY, yard=YARD)
    (site / "yard-1.0.dist-info" / "RECORD").write_text("yard.py,,\nnothing_there.py,,\nyard_data/x.txt,,\n")
    assert run_program(f"import os; os.chdir({str(site)!r})\n{PROGRAM}", site=site, flags=("-P",)) == ""
    if os.name != "nt":
        gone = tmp_path / "gone"
        gone.mkdir()
        program = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n{PROGRAM}"
        assert run_program(program, site=site, flags=("-P",)) == ""


def test_metadata_that_is_not_whole(
    doctor: Callable[..., list[tuple[str, str, str]]], write_distribution: Write
) -> None:
    site = write_distribution("yard", ENTRY, yard=YARD)
    (site / "yard-1.0.dist-info" / "METADATA").unlink()
    ((level, what, remedy),) = doctor(site)
    assert (level, what.startswith("the metadata of yard in "), what.endswith("has no version: it is not whole")) == (
        "warning",
        True,
        True,
    )
    assert remedy == "reinstall it: pip install --upgrade --force-reinstall yard"


def test_without_the_metadata_of_the_core(run_program: Run) -> None:
    program = """
    import tripoint as tp
    from tripoint.plugins import diagnosis
    everything = tp.plugins.found()
    diagnosis.found = lambda: {name: p for name, p in everything.items() if name != "tripoint"}
    print(repr([(f.level, f.remedy) for f in tp.plugins.findings() if "tripoint itself" in f.what]))
    """
    assert ast.literal_eval(run_program(program)) == [
        ("error", "reinstall it: pip install --upgrade --force-reinstall tripoint")
    ]


def test_two_versions_side_by_side_are_half_an_installation(
    doctor: Callable[..., list[tuple[str, str, str]]], write_distribution: Write
) -> None:
    write_distribution("yard", ENTRY, version="2.0", yard=YARD)
    ((level, what, remedy),) = doctor(write_distribution("yard", ENTRY, yard=YARD))
    assert (level, "is hidden by" in what) == ("warning", True)
    assert remedy == (
        "one was left half removed: pip uninstall yard, once for each, then pip install --upgrade --force-reinstall yard"
    )


def test_a_blocked_plugin_is_a_note_and_its_entry_point_is_named_as_it_is_spelled(
    doctor: Callable[..., list[tuple[str, str, str]]], write_distribution: Write
) -> None:
    site = write_distribution("yard", ENTRY, yard=YARD)
    assert doctor(site, TRIPOINT_DISABLE="yard.strided") == [
        (
            "note",
            "yard 1.0 is blocked, so that yard.strided cannot be used",
            "take it out of TRIPOINT_DISABLE, or say tripoint.plugins.unblock('yard'), where it is wanted",
        )
    ]
    ((_, what, remedy),) = doctor(site, TRIPOINT_DISABLE="yard.stridd")
    assert what == "TRIPOINT_DISABLE names 'yard.stridd', which is not installed"
    assert remedy == "write 'yard.strided' if that is meant, or take it out of the variable"


def test_a_name_that_two_offer_is_found_before_it_is_asked_for(
    doctor: Callable[..., list[tuple[str, str, str]]], write_distribution: Write
) -> None:
    for name in ("one", "two"):
        site = write_distribution(name, f"[tripoint.names.v1]\nshared = {name}:shared\n", **{name: "shared = 1\n"})
    ((level, what, remedy),) = doctor(site)
    assert (level, what) == ("warning", "name tripoint.shared: one 1.0 and two 1.0")
    assert "tripoint.plugins.prefer('one')" in remedy
    ((level, what, _),) = doctor(site, TRIPOINT_PREFER="two")
    assert (level, what) == ("note", "name tripoint.shared: one 1.0 and two 1.0; two is preferred")


def test_two_owners_of_a_point_are_named_with_it(
    doctor: Callable[..., list[tuple[str, str, str]]], write_distribution: Write
) -> None:
    write_distribution("other", ENTRY.replace("yard:", "other:"), other=YARD)
    ((level, what, _), *more) = doctor(write_distribution("yard", ENTRY, yard=YARD))
    assert (level, more) == ("error", [])
    assert what.startswith("point yard.strided.plain: P from ")
    assert "(on " not in what

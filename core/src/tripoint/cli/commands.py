"""The commands: each gathers its answer, in which no plugin can mix its output, and prints it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tripoint.cli.output import answer, diverted, is_terminal, table
from tripoint.errors import cleaned

if TYPE_CHECKING:
    from tripoint.support import Coverage

__all__ = ["app"]

app = typer.Typer(
    help="Tensors on any device, layout and dtype, by plugins.",
    epilog="Exit statuses: 0 all is well; 1 something was found that is not, or failed; 2 what was asked for cannot be "
    "answered, such as an unknown option, operator or device; 141 whoever reads the answer has closed the pipe.",
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]
Load = Annotated[
    bool,
    typer.Option(
        "--load",
        help="Load every plugin and ask for its hardware first. Without it no plugin is imported: `found` says that it is "
        "installed and has not been loaded.",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        import tripoint

        answer(None, f"tripoint {tripoint.__version__}")


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(short_help="What is installed, and what is broken.")
def plugins(load: Load = False, as_json: Json = False) -> None:
    """What is installed, what it provides, and why something is broken. Status 1 when something is."""
    from tripoint import plugins

    with diverted():
        if load:
            plugins.load_all()
        data, text = plugins.listed(), plugins.report()
    answer(data, text, as_json=as_json, status=int(any(entry["state"] == "broken" for entry in data)))


@app.command(short_help="Devices, and why one cannot be used.")
def devices(load: Load = False, as_json: Json = False) -> None:
    """Devices, who brings them, and why one cannot be used. Status 1 when a device's plugin is broken."""
    from tripoint.cli.installation import devices
    from tripoint.plugins import load_all

    with diverted():
        if load:
            load_all()
        data = devices()
    said = {None: "not asked", True: "yes", False: "no"}
    rows = [
        (
            entry["device"],
            f"{entry['provider']} {entry['version']}" if entry["provider"] else "nobody",
            entry["state"],
            said[entry["usable"]] + f", {entry['count']}" * (entry["count"] is not None),
            "; ".join(filter(None, [entry["why"], f"also {', '.join(entry['adds'])}" if entry["adds"] else ""])),
        )
        for entry in data
    ]
    text = table(("device", "provider", "state", "usable", "why, and what others add"), rows)
    answer(data, text, as_json=as_json, status=int(any(entry["state"] == "broken" for entry in data)))


@app.command(short_help="Every operator.")
def ops(
    namespace: Annotated[
        str | None,
        typer.Argument(
            help="Only the operators of a namespace, such as nn; those of a plugin are known once it is loaded."
        ),
    ] = None,
    load: Load = False,
    as_json: Json = False,
) -> None:
    """Every operator: signature, family, whether backends must supply it, its derivative, and where it is declared."""
    import tripoint.nn  # noqa: F401 - whose operators count
    from tripoint.plugins import load_all
    from tripoint.support import ops

    with diverted():
        if load:
            load_all()
        found = ops(namespace)
    heads, *rows = found.rows()
    answer(found.to_dict(), table(heads, rows), as_json=as_json)


@app.command(short_help="Which operator works where, and by what.")
def coverage(
    operators: Annotated[list[str] | None, typer.Argument(help="Only these operators.", show_default=False)] = None,
    device: Annotated[list[str] | None, typer.Option(help="Only this device; may be given several times.")] = None,
    layout: Annotated[list[str] | None, typer.Option(help="Only this layout.")] = None,
    dtype: Annotated[
        list[str] | None, typer.Option(help="Only this dtype, or class of dtypes such as floating.")
    ] = None,
    load: Load = False,
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="As a table in Markdown.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with filters to this file.")] = None,
) -> None:
    """Which operator works on which point, and by what: a kernel, hooks, a decomposition, a fallback, or nothing."""
    from tripoint.support import coverage

    if markdown and (as_json or html is not None):
        raise typer.BadParameter("it is one form of the table; leave the other away", param_hint="--markdown")
    with diverted():
        found = coverage(
            operators or None, devices=device or None, layouts=layout or None, dtypes=dtype or None, load=load
        )
        text = found.to_markdown().rstrip("\n") if markdown else _folded(found) if is_terminal() else str(found)
        if html is not None:
            text = _written(html, found.to_html())
    answer(found.to_dict(), text, as_json=as_json)


@app.command(
    short_help="How a call is served, floor by floor.",
    epilog="An operand is a point with a shape, such as cpu.strided.float32[2,3] (in quotes where the shell would read the "
    "brackets); +grad behind it wants gradients; the shape of a 0-d tensor is []. Python's numbers and None stand for "
    "themselves. Example: tripoint explain matmul cpu.strided.float32[2,3]+grad cpu.sparse_coo.float32[3,4]",
)
def explain(
    operator: Annotated[str, typer.Argument(help="Its name, such as add or nn.relu.")],
    operands: Annotated[list[str] | None, typer.Argument(help="What it is called with.", show_default=False)] = None,
    meta: Annotated[
        list[str] | None, typer.Option(help="Metadata as name=value, such as axis=1; several times.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="With the source of the plan.")] = False,
    as_json: Json = False,
    html: Annotated[Path | None, typer.Option(help="Write the walk as a page to this file.")] = None,
) -> None:
    """How one call would be served, floor by floor. Nothing is run. Status 1 when the call would raise."""
    from tripoint.cli.operands import call
    from tripoint.explanation import explain

    with diverted():
        row, given, metadata = call(operator, operands or [], meta or [])
        walk = explain(row.call, *given, **metadata)
        text = cleaned(walk.to_text(plan=plan))
        if html is not None:
            text = _written(html, walk.to_html())
    answer(walk.to_dict(), text, as_json=as_json, status=int(walk.error is not None))


@app.command(
    short_help="Run the conformance kit on a backend.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def conformance(context: typer.Context) -> None:
    """Run the conformance kit against a backend; `tripoint conformance --help` has its options. It needs pytest."""
    from tripoint import conformance

    words = [word for word in context.args if word != "--json"]
    if words == context.args:
        raise typer.Exit(_status(conformance.main(words)))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        with diverted():
            status = _status(conformance.main([*words, "--report", str(report)]))
        text = report.read_text(encoding="utf-8").rstrip() if report.exists() else ""
    if not text:
        raise typer.Exit(status)
    answer(None, text, status=status)


def _status(status: int) -> int:
    """Of pytest's statuses those above 1 say that nothing was checked."""
    return min(status, 2)


@app.command(name="new-backend", short_help="Write the package of a new backend.")
def new_backend(
    name: Annotated[str, typer.Argument(help="Of the distribution, such as tripoint-vault.")],
    device: Annotated[str, typer.Option(help="Its new device; cpu for a new layout or dtype.")],
    layout: Annotated[str | None, typer.Option(help="Its new layout.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Its new dtype.")] = None,
    folder: Annotated[Path, typer.Option(help="Where to put the package.")] = Path("."),
    as_json: Json = False,
) -> None:
    """Write a package for a new backend, with tests, that builds, installs and passes the kit; and say how to go on."""
    from shlex import quote

    from tripoint.scaffold import new_backend

    with diverted():
        made = new_backend(name, device=device, layout=layout, dtype=dtype, folder=str(folder))
    point = ".".join(filter(None, (device, layout or "strided", dtype)))
    steps = [f"cd {quote(str(made))}", 'pip install -e ".[test]"', "python -m pytest", f"tripoint conformance {point}"]
    text = "\n".join([f"{made} is written, and works as it is: README.md says more", *[f"  {step}" for step in steps]])
    answer({"folder": str(made)}, text, as_json=as_json)


@app.command(short_help="What is wrong here, and what to type.")
def doctor(
    load: Annotated[bool, typer.Option(help="Load every plugin and ask for its hardware, to see what fails.")] = True,
    as_json: Json = False,
) -> None:
    """What is wrong with the installation, and what to type. Status 1 when something cannot be used."""
    from dataclasses import asdict

    from tripoint import plugins
    from tripoint.cli.installation import environment, versions

    with diverted():
        found = plugins.findings(load_all=load)
        data: dict[str, Any] = {
            "versions": versions(),
            "environment": environment(),
            "findings": [asdict(f) for f in found],
        }
        lines = [", ".join(f"{name} {version}" for name, version in data["versions"].items())]
        lines += [f"{name}={value}" for name, value in data["environment"].items()]
        lines += [f"{f.level}: {f.what}\n  {f.remedy}" for f in found] or ["nothing is wrong"]
    answer(data, cleaned("\n".join(lines)), as_json=as_json, status=int(any(f.level == "error" for f in found)))


def _folded(found: Coverage) -> str:
    """A coverage as text that is folded to the width of a terminal."""
    return "\n".join(part if isinstance(part, str) else table(part[0], part[1:]) for part in found.parts())


def _written(path: Path, page: str) -> str:
    """Write a page; say where.

    Raises:
        typer.BadParameter: it cannot be written there.
    """
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}", param_hint="--html") from None
    return f"written: {path}"

"""What is known of one installed plugin, and of the points that its entry points name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tripoint.errors import MOST_LINES, PluginError, RegistrationError, cleaned, said, shown, told
from tripoint.keys import Key
from tripoint.schema import Row

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from tripoint.plugins.registry import Registry

#: of the contract between the core and its plugins; it is part of the names of the groups of entry points.
PROTOCOL = 1
BACKENDS = f"tripoint.backends.v{PROTOCOL}"
NAMES = f"tripoint.names.v{PROTOCOL}"
KERNELS = f"tripoint.kernels.v{PROTOCOL}"
LAYERS = f"tripoint.layers.v{PROTOCOL}"
GROUPS = (BACKENDS, NAMES, KERNELS, LAYERS)
#: the distribution of the core, and its package.
OURS = "tripoint"
#: entries of a traceback, such as a frame or the text of an exception, that are kept.
_MOST_PARTS = 60


def protocol_of(group: str) -> tuple[str, int | None]:
    """``tripoint.backends.v2`` as ``("backends", 2)``; ``None`` for a name that is no group of ours."""
    kind, dot, version = group.removeprefix("tripoint.").rpartition(".v")
    known = any(g.startswith(f"tripoint.{kind}.v") for g in GROUPS)
    return kind, int(version) if dot and known and version.isascii() and version.isdigit() else None


def did_you_mean_group(group: str) -> str:
    """Advice about a group of entry points that no core reads."""
    import difflib

    near = difflib.get_close_matches(group, GROUPS, 1, 0.8)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(GROUPS)}"


class Claim:
    """One point of an entry-point name: device, layout and dtype (``None``: the plain ones), ``*`` for any."""

    __slots__ = ("device", "dtype", "layout")

    def __init__(self, text: str) -> None:
        parts = text.strip().split(".")
        if len(parts) not in (2, 3) or not all(p == "*" or p.replace("_", "a").isalnum() for p in parts):
            raise RegistrationError(
                f"entry-point name {text!r} is no point; write device.layout or device.layout.dtype, such as cpu.strided"
            )
        self.device, self.layout = parts[0], parts[1]
        self.dtype = parts[2] if len(parts) == 3 else None

    def covers(self, key: Key) -> bool:
        """Whether the claim covers the point of ``key``."""
        if self.device not in ("*", key.device.type) or self.layout not in ("*", key.layout.name):
            return False
        if self.dtype is None:
            return key.dtype.is_plain
        return self.dtype in ("*", key.dtype.name)

    def __str__(self) -> str:
        return ".".join(p for p in (self.device, self.layout, self.dtype) if p)


class Plugin:
    """One distribution that offers entry points.

    Attributes:
        name, version: of the distribution.
        installed: the version that the metadata last said; empty when it is uninstalled and goes on running.
        entries: its entry points that this core reads, by group.
        others: its entry points of other protocols, by group.
        claims: the points that its entry points name.
        taken: names that it would add to the namespace and cannot, each with the reason.
        unread: what it says of the core's version and is not understood.
        folder: where its metadata is, or an empty string.
        named: what its metadata calls it, where that should be its name.
        state: found, loaded, blocked, or broken.
        refused: why its metadata alone keeps it from loading, or ``None``.
        loaded, failed: the groups whose entry points are loaded, and those that could not be.
        loading: identities of the threads that are loading it.
        declared: operators of its modules, which are imported, that are taken back since the plugin is broken.
        stated: the registries of what its modules stated while they were imported.
        halfway: its modules that were imported for a load which failed.
        error: what it raised, with its traceback, or ``None``.
        reason: why its hardware cannot be used, or ``None``; known once it is ``probed``.
    """

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = self.installed = version
        self.entries: dict[str, list[EntryPoint]] = {}
        self.others: dict[str, list[EntryPoint]] = {}
        self.claims: list[tuple[Claim, ...]] = []
        self.taken: dict[str, str] = {}
        self.unread: list[str] = []
        self.folder, self.named = "", name
        self.state = "found"
        self.refused: PluginError | None = None
        self.loaded: set[str] = set()
        self.failed: set[str] = set()
        self.loading: list[int] = []
        self.declared: dict[str, Row] = {}
        self.stated: list[Registry] = []
        self.halfway: set[str] = set()
        self.error: BaseException | None = None
        self.target: Any = None
        self.manager: Any = None
        self.reason: str | None = None
        self.probed = False
        self.closes = False

    def refuse(self, why: PluginError) -> None:
        """Never load it, for what its metadata says; the first reason counts."""
        self.refused = self.refused or why
        self.state, self.error = "broken", self.refused

    def reset(self) -> None:
        """As if it had only been found: for what is unblocked, or tried again."""
        self.failed.clear()
        self.state, self.error = ("broken", self.refused) if self.refused is not None else ("found", None)

    def succeed(self, group: str) -> None:
        """Count a group as loaded; what went wrong with it before is over."""
        self.state = "loaded"
        self.failed.discard(group)
        if not self.failed:
            self.error = None
        self.loaded.add(group)
        self.halfway = set()

    def standing(self) -> tuple[str, BaseException | None, set[str], set[str]]:
        """What `succeed` changes, as it is now."""
        return self.state, self.error, set(self.loaded), set(self.failed)

    def put_back(self, had: tuple[str, BaseException | None, set[str], set[str]]) -> None:
        """As `standing` said it was."""
        self.state, self.error, self.loaded, self.failed = had

    @property
    def provides(self) -> tuple[str, ...]:
        """Names of its backend entry points."""
        return tuple(e.name for e in self.entries.get(BACKENDS, ()))

    @property
    def modules(self) -> frozenset[str]:
        """Modules that its entry points name."""
        return frozenset(e.value.partition(":")[0].strip() for es in self.entries.values() for e in es)

    @property
    def packages(self) -> frozenset[str]:
        """Top-level packages that its entry points name; the core's belongs to nobody else, whoever names it."""
        return frozenset(m.partition(".")[0] for m in self.modules) - ({OURS} if self.name != OURS else set())

    def kinship(self, module: str) -> tuple[int, bool]:
        """How much of a module's name one of its own has, in parts; and whether the package is called as it is."""
        parts = module.split(".")
        if parts[0] not in self.packages:
            return 0, False
        common = max(_leading(parts, own.split(".")) for own in self.modules)
        return common, normalise(parts[0]) == self.name

    def wants(self, group: str) -> bool:
        """Whether its entry points of a group are there, may be loaded and have not been."""
        untried = group not in self.loaded and group not in self.failed
        return untried and group in self.entries and self.state not in ("broken", "blocked")

    def brings(self, group: str, name: str) -> bool:
        """Whether it has an entry point of that name in a group."""
        return any(e.name == name for e in self.entries.get(group, ()))

    def owns(self, key: Key) -> bool:
        """Whether one of its points covers the key's."""
        return any(c.covers(key) for claim in self.claims for c in claim)

    def offers(self, key: Key) -> bool:
        """Whether its kernels for points of others, which count when preferred, are for the key's point."""
        for entry in self.entries.get(KERNELS, ()):
            try:
                if any(Claim(part).covers(key) for part in entry.name.split("+")):
                    return True
            except RegistrationError:
                continue
        return False

    def stands_on(self, key: Key) -> bool:
        """Whether it provides the key's point, or kernels for it."""
        return self.owns(key) or self.offers(key)

    def concerns(self, keys: Iterable[Key]) -> bool:
        """Whether each point of one of its names covers one of the keys."""
        keys = tuple(keys)
        return any(all(any(c.covers(k) for k in keys) for c in claim) for claim in self.claims)

    def traceback(self) -> str:
        """The traceback of what it raised, or an empty string."""
        return trace(self.error) if self.error is not None else ""

    def __repr__(self) -> str:
        return f"<plugin {self.name} {self.version}: {self.state}>"


def _leading(parts: list[str], others: list[str]) -> int:
    """How many of the parts at the beginning are the same."""
    return next(
        (i for i, (a, b) in enumerate(zip(parts, others, strict=False)) if a != b), min(len(parts), len(others))
    )


def target_of(entry: EntryPoint) -> Any:
    """The object that an entry point names; its module is imported.

    Raises:
        RegistrationError: the value is no place of an object.
    """
    module, _, attribute = entry.value.partition("[")[0].partition(":")
    words = [*module.strip().split("."), *(attribute.strip().split(".") if attribute.strip() else ())]
    if not all(word.isidentifier() for word in words):
        raise RegistrationError(
            f"the entry point {entry.name} has the value {entry.value!r}, which names no object; "
            "write module:attribute, such as my_package:backend"
        )
    return entry.load()


def normalise(name: str) -> str:
    """A distribution name in the one spelling that compares; ``__main__``, the running program, is no distribution."""
    if name == "__main__":
        return name
    words = name.lower().replace("_", "-").replace(".", "-")
    while "--" in words:  # runs count as one, as package managers have it
        words = words.replace("--", "-")
    return words


def reason_of(answer: object) -> str | None:
    """What a probe gave, as the text that says why the hardware cannot be used; ``None`` where it can."""
    if answer is None:
        return None
    text = told(answer) if issubclass(type(answer), str) else None
    if text and text.strip():
        return text.strip()
    return f"its probe gave {shown(answer)}, neither None, for hardware that can be used, nor words that say why not"


def trace(error: BaseException) -> str:
    """The traceback of what a plugin raised, whatever its class does; its middle is left out where it is endless."""
    import traceback

    try:
        parts = traceback.format_exception(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # notes, causes and truth are a class's own too
        frames = traceback.format_tb(BaseException.__dict__["__traceback__"].__get__(error))
        parts = ["Traceback (most recent call last):\n", *frames, said(error)]
    if len(parts) > _MOST_PARTS:
        parts[_MOST_PARTS // 3 : -_MOST_PARTS * 2 // 3] = [f"  ... {len(parts) - _MOST_PARTS} more entries"]
    return "".join(f"{cleaned(part, MOST_LINES)}\n" for part in parts)

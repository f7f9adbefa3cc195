"""A complete backend for an accelerator that does not exist: ``vault:0`` and ``vault:1``. Owns ``vault.strided``.

`minimal` has what any backend needs, `extra` what a good one adds, `machine` is the hardware.
"""

from __future__ import annotations

from tripoint.plugin import Capabilities
from tripoint_vault import extra, minimal
from tripoint_vault.extra import failing as failing
from tripoint_vault.extra import held as held
from tripoint_vault.extra import lose as lose
from tripoint_vault.extra import out_of_memory as out_of_memory

__all__ = ["backend", "failing", "held", "lose", "out_of_memory"]

#: with ``lacks={}`` it claims every operator there is, on its dtypes, and the conformance kit holds it to that.
backend = minimal.make(streams=extra.Queues(), capabilities=Capabilities(dtypes=minimal.DTYPES, lacks={}))
extra.add(backend)

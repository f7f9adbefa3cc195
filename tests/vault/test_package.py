"""The example as a package: its own tests, what its README shows, and its halves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

VAULT = Path(__file__).parents[2] / "examples" / "backend_vault"


def test_its_own_tests_pass(paths: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(VAULT / "tests")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_runs(run: Callable[[str], list[str]]) -> None:
    text = (VAULT / "README.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    out = run(code)
    assert out[0] == "tensor([[7., 7., 7.],"
    assert "memory of vault:0: live 48 bytes" in out[1]  # x, and what is printed
    assert "the kernel of exp failed" in out[-1]


def test_what_is_minimal_is_a_backend_by_itself(run: Callable[[str], list[str]]) -> None:
    """Without the powers of `extra`: calls are done when they return, streams have nothing to wait for, the kit passes."""
    out = run(
        """
        import tripoint as tp
        from tripoint import conformance
        from tripoint.plugin import minimal as wanted, register
        from tripoint.kernels import kernels
        from tripoint_vault import machine, minimal
        tp.plugins.block("tripoint-vault")
        register(minimal.make())
        x = tp.asarray([[1.0, 2.0], [3.0, 4.0]], device="vault").requires_grad_()
        s = tp.Stream("vault")
        with tp.stream(s):
            loss = tp.softmax(x @ x, axis=1).sum()
        print(s.query(), s.record().query(), s.queue, machine.machine(0).default.query())
        loss.backward()
        print(loss.item(), x.grad.shape)
        tp.synchronize("vault"), tp.synchronize()
        try:
            tp.sin(x)
        except tp.errors.NoKernelError as error:
            print(str(error).splitlines()[0])
        del x, loss
        print(tp.memory.stats("vault").counts["live"])
        mine = {n for n, entries in kernels.items() for k in entries for a in (k.args or (k.every,)) if a.device == "vault"}
        print(sorted(set(wanted()) - mine))
        report = conformance.run("vault.strided", tiers=(0, 1))
        print(report.ok or report)
        """
    )
    assert out == ["True True None True", "2.0 (2, 2)", "no kernel for sin", "0", "[]", "True"]

"""What fails later, and what is gone: kernels that fail on the device, and devices that are lost."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import ModuleType

import pytest

import tripoint as tp
from tripoint.errors import ArgumentError, AsyncError, DeviceError, OutOfMemoryError, ScalarRangeError

WORDS = (
    "vault:0: the kernel of exp failed after its call had returned: RuntimeError: an injected fault; "
    "its result, and what was computed from it, cannot be read"
)


def test_a_failure_is_told_at_the_next_wait_and_names_the_kernel(vault: ModuleType) -> None:
    x = tp.ones((3,), device="vault")
    with vault.failing("exp"):
        y = tp.exp(x) + 1  # returns
    with pytest.raises(AsyncError) as caught:
        tp.synchronize("vault")
    assert (str(caught.value), caught.value.operator) == (WORDS, "exp")
    assert isinstance(caught.value, RuntimeError)
    tp.synchronize("vault")  # told once
    for read in (y.tolist, y[0].item, (y * 2).tolist, lambda: y.to("vault:1").tolist()):
        with pytest.raises(AsyncError, match="the kernel of exp failed"):
            read()
    assert x.tolist() == [1, 1, 1]
    assert pickle.loads(pickle.dumps(caught.value)).operator == "exp"


def test_reading_tells_too_and_only_the_failed_result_is_damaged(vault: ModuleType) -> None:
    x = tp.ones((3,), device="vault")
    with vault.failing("multiply", at=2):
        first, second, third = x * 2, x * 3, x * 4
    with pytest.raises(AsyncError, match="the kernel of multiply"):
        second.item() if second.shape == () else second.tolist()
    assert (first.tolist(), third.tolist()) == ([2, 2, 2], [4, 4, 4])
    tp.synchronize()


@pytest.mark.parametrize("fresh", [lambda: tp.ones((3,), device="vault"), lambda: tp.empty((3,), device="vault")])
def test_damage_does_not_stay_with_the_memory(vault: ModuleType, fresh: object) -> None:
    x = tp.ones((3,), device="vault")
    with vault.failing("exp"):
        y = tp.exp(x)
    with pytest.raises(AsyncError):
        tp.synchronize("vault")
    del y
    for _ in range(3):
        assert len(fresh().tolist()) == 3  # type: ignore[operator]


def test_a_failed_write_damages_what_it_wrote_into(vault: ModuleType) -> None:
    x = tp.ones((4,), device="vault")
    part = x[1:]
    with vault.failing("add_"):
        part += 1
    with pytest.raises(AsyncError, match="add_"):
        x.tolist()


def test_a_failure_on_another_stream(vault: ModuleType) -> None:
    s = tp.Stream("vault")
    with vault.failing("exp"), tp.stream(s):
        y = tp.exp(tp.ones((3,), device="vault"))
        event = s.record()
    event.synchronize()  # says when, not whether
    with pytest.raises(AsyncError, match="exp"):
        s.synchronize()
    with pytest.raises(AsyncError, match="exp"):
        y.tolist()


def test_a_failure_in_backward(vault: ModuleType) -> None:
    w = tp.ones((3,), device="vault").requires_grad_()
    loss = tp.exp(w).sum()
    with vault.failing("multiply"):
        loss.backward()
    with pytest.raises(AsyncError, match="the kernel of multiply"):
        tp.synchronize()
    w.grad = None
    tp.exp(w).sum().backward()
    assert w.grad is not None
    assert w.grad.sum().item() == pytest.approx(3 * 2.718281828, rel=1e-6)


def test_every_device_is_waited_for_and_the_first_failure_told(vault: ModuleType) -> None:
    x, y = tp.ones((3,), device="vault:0"), tp.ones((3,), device="vault:1")
    with vault.failing("exp", "vault:0"), vault.failing("log", "vault:1"):
        gone = tp.exp(x), tp.log(y)
    with pytest.raises(AsyncError, match="exp"):
        tp.synchronize()
    tp.synchronize()  # what the other one had to tell went with it
    with pytest.raises(AsyncError, match="log"):
        gone[1].tolist()


def test_a_pending_download_of_a_damaged_tensor(vault: ModuleType) -> None:
    with vault.failing("exp"):
        y = tp.exp(tp.ones((3,), device="vault"))
        read = y.to("cpu", non_blocking=True)
    with pytest.raises(AsyncError, match="exp"):
        tp.synchronize("vault")
    assert read.shape == (3,)


def test_printing_what_cannot_be_read(vault: ModuleType) -> None:
    with vault.failing("exp"):
        y = tp.exp(tp.ones((3,), device="vault"))
    assert repr(y) == f"tensor(shape=(3,), dtype=float32, device=vault:0, unreadable: {WORDS})"


def test_printing_and_pickling() -> None:
    x = tp.asarray([[1.0, 2.5], [3.0, 4.0]], device="vault:1").requires_grad_()
    assert repr(x) == "tensor([[1. , 2.5],\n        [3. , 4. ]], dtype=float32, device=vault:1, requires_grad=True)"
    again = pickle.loads(pickle.dumps(x))
    assert (again.device, again.tolist(), again.requires_grad) == (x.device, x.tolist(), True)
    assert not tp.shares_memory(again, x)
    assert pickle.loads(pickle.dumps(x.detach().T)).tolist() == [[1.0, 3.0], [2.5, 4.0]]
    assert str(x[0, 1].detach()) == "tensor(2.5, dtype=float32, device=vault:1)"
    assert f"{x[0, 1].detach():.2f}" == "2.50"


def test_a_device_that_is_lost(run: Callable[[str], list[str]]) -> None:
    out = run(
        """
        import tripoint as tp
        import tripoint_vault as vault
        x = tp.ones((3,), device="vault:0").requires_grad_()
        y = (x * 2).sum()
        other = tp.ones((3,), device="vault:1")
        event = tp.Event("vault:0")
        with vault.held():
            pending = x + 1
            event.record()
            vault.lose("vault:0", "it overheated")
        event.synchronize()
        tries = dict(
            compute=lambda: x + 1,
            read=lambda: x.tolist(),
            pending=lambda: pending.tolist(),
            make=lambda: tp.zeros((1,), device="vault"),
            upload=lambda: tp.ones((2,)).to("vault"),
            leave=lambda: x.detach().to("vault:1").tolist(),
            backward=y.backward,
            wait=lambda: tp.synchronize("vault:0"),
            everywhere=tp.synchronize,
            stream=lambda: tp.Stream("vault").synchronize(),
        )
        for name, attempt in tries.items():
            try:
                attempt()
            except tp.errors.DeviceLostError as error:
                print(name, error)
            else:
                raise SystemExit(name)
        print(repr(x))
        print((other + 1).tolist(), tp.memory.stats("vault:1").counts["live"])
        del x, y, pending, tries, attempt
        print(tp.memory.stats("vault:0").counts["live"], tp.memory.empty_cache("vault:0") > 0)
        """
    )
    words = "vault:0 is lost: it overheated; what it held is gone, and it is of no use until the program starts again"
    names = ["compute", "read", "pending", "make", "upload", "leave", "backward", "wait", "everywhere", "stream"]
    assert out[: len(names)] == [f"{name} {words}" for name in names]
    assert out[len(names)] == (
        f"tensor(shape=(3,), dtype=float32, device=vault:0, requires_grad=True, unreadable: {words})"
    )
    assert out[len(names) + 1 :] == ["[2.0, 2.0, 2.0] 12", "0 True"]


def test_out_of_memory_is_no_async_error(vault: ModuleType) -> None:
    with vault.out_of_memory(), pytest.raises(OutOfMemoryError):
        tp.ones((1000, 1000), device="vault")
    tp.synchronize()


def test_a_fault_that_would_never_come_is_refused(vault: ModuleType) -> None:
    for operator, more in [("expp", {}), ("exp", {"at": 0}), ("exp", {"at": 1.5})]:
        with pytest.raises((ArgumentError, ScalarRangeError), match="failing: "), vault.failing(operator, **more):
            pass
    for device in ("cpu", "vaults", "vault:x", "vault:-1"):
        with pytest.raises(DeviceError, match="is no vault"), vault.out_of_memory(device):
            pass
    with pytest.raises(DeviceError, match="there is no vault:7"):
        vault.lose("vault:7", "it never was")


def test_each_failure_is_told_where_it_is_waited_for(vault: ModuleType) -> None:
    """Of two streams each tells its own, the default one and another device nothing; and reading tells once more."""
    x, y = tp.ones((3,), device="vault:0"), tp.ones((3,), device="vault:1")
    s, t = tp.Stream("vault"), tp.Stream("vault")
    tp.synchronize()
    with vault.failing("exp"), tp.stream(s):
        first = tp.exp(x)
    with vault.failing("sin"), tp.stream(t):
        second = tp.sin(x)
    assert (x.tolist(), (y + 1).tolist()) == ([1, 1, 1], [2, 2, 2])
    tp.synchronize("vault:1")
    with pytest.raises(AsyncError, match="the kernel of sin"):
        t.synchronize()
    with pytest.raises(AsyncError, match="the kernel of exp"):
        tp.synchronize("vault:0")
    for wait in (s.synchronize, t.synchronize, tp.synchronize):
        wait()
    for damaged, name in ((first, "exp"), (second, "sin")):
        with pytest.raises(AsyncError, match=f"the kernel of {name}"):
            damaged.tolist()

"""`interlock pools`: what it prints, and what is refused."""

from tests.acceptance.command import Command


def test_a_pool_is_made_shared_and_shown(il: Command):
    assert "No pools" in il("pools").out
    assert il.ok("pools", "set", "GPU", "--max", 2) == {"name": "gpu", "max": 2, "running": 0, "agents": []}
    il.ok("agents", "set", "ann", "--pool", "gpu")
    il.ok("agents", "set", "ben", "--pool", "gpu", "--max", 1)
    for _ in range(4):
        il.ok("add", "work")
    assert len(il.ok("next", "--agent", "ann", "--limit", 9)["leases"]) == 2
    il.ok("add", "for ben", "--agent", "ben")
    assert il("next", "--agent", "ben").code == 3
    assert "has 2 of 2 runs" in il("why", 5).out
    assert il.ok("pools")["pools"][0]["agents"] == ["ann", "ben"]
    assert "pools: gpu 2 of 2" in il("top").out
    assert "gpu" in il("agents").out
    assert il.ok("agents", "set", "ben", "--pool", "none")["pool"] is None
    assert il("next", "--agent", "ben").code == 0


def test_wrong_pools_are_refused_in_words(il: Command):
    unknown = il("--json", "agents", "set", "ann", "--pool", "gpu")
    assert (unknown.code, unknown.error["code"]) == (1, "not_found")
    assert "interlock pools set gpu" in unknown.error["hint"]
    for args in (["gpu"], ["gpu", "--max", "0"], ["gpu", "--max", "many"], ["no/../way", "--max", "1"]):
        assert il("--json", "pools", "set", *args).code == 2, args
    assert il.ok("pools") == {"pools": []}

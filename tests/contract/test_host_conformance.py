"""The conformance kit for hosts: ours passes, and hosts that break a rule are caught by the check named after it."""

from __future__ import annotations

from typing import Any

import pytest

from memory_sqlite.host import conformance
from memory_sqlite.host.audiences import Audiences
from memory_sqlite.host.conformance import CHECKS, OwnHost, run_all
from memory_sqlite.host.conformance.subject import SLOT
from memory_sqlite.host.memory_host import MemoryHost
from memory_sqlite.host.slots import Plugin
from memory_sqlite.runtime.callers import MemoryAudience, OwnerPrivateAudience
from memory_sqlite.runtime.plugins import MemoryCapability
from memory_sqlite.runtime.shapes import OpenRequest, OpenResult


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_our_host_passes(name: str) -> None:
    """Each check alone, as a third party's runner would call it."""
    CHECKS[name](OwnHost)


def test_every_check_is_listed_once() -> None:
    """A function that is written and not listed would never run."""
    modules = (conformance.slot_checks, conformance.binding_checks, conformance.audience_checks)
    written = {name for module in modules for name in vars(module) if name.startswith("check_")}
    assert written == set(CHECKS)
    assert len(CHECKS) == sum(len(module.ALL) for module in modules)


class Unbound(OwnHost):
    """Opens as it should and then gives out the provider's own handle, unbound."""

    async def open(self, request: OpenRequest) -> OpenResult:
        result = await self.host.open(request)
        if result.provider is None:
            return result
        handle: Any = result.provider
        return OpenResult(handle._provider, None, result.provider_id, result.adapter)


class ByEquality(Audiences):
    """Takes an audience for minted when it equals one."""

    def __init__(self, rows: Any) -> None:
        super().__init__(rows)
        self._equal: dict[tuple[Any, ...], Any] = {}

    async def resolve(self, **turn: Any) -> MemoryAudience:
        minted = await super().resolve(**turn)
        self._equal[(minted.kind, minted.agent_id)] = minted
        return minted

    def _find(self, audience: object) -> Any:
        if isinstance(audience, OwnerPrivateAudience):
            return super()._find(self._equal.get((audience.kind, audience.agent_id)))
        return super()._find(audience)


class Trusting(OwnHost):
    """A host whose audiences are by equality."""

    def __init__(self) -> None:
        super().__init__()
        self.host.audiences = ByEquality(self.host.rows)


class Reviving(OwnHost):
    """Compares lives when it is asked, instead of watching: a restored row revives."""

    def assert_current(self, audience: MemoryAudience, session_key: str) -> None:
        minted = self.host.audiences._find(audience)
        if minted is not None and minted.bound_to == session_key and not minted.footing._released:
            leases = [lease for lease in minted.footing._leases if not lease.pending]
            rows = [(self.host.rows.get(lease.key), lease._incarnation) for lease in leases]
            if rows and all((row.incarnation if row else None) == life for row, life in rows):
                return
        super().assert_current(audience, session_key)


class Merging(OwnHost):
    """Lets whoever registers have everything."""

    def register(self, plugin_id: str, kinds: frozenset[str], capability: Any) -> None:
        self.host = MemoryHost({"plugins": {"slots": {"memory": plugin_id}}}, self.host.rows)
        self.host.slot.register(Plugin(plugin_id, kinds | {"memory"}), capability)


def test_unbound_handles_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By every check of what is done around a call, and by no check of audiences or the slot."""
    monkeypatch.setattr(conformance.binding_checks, "PATIENCE_S", 0.01)  # what hangs here hangs for ever
    assert {finding.check for finding in run_all(Unbound).findings} == {
        "check_abort_ends_a_hanging_call",
        "check_capabilities_are_frozen",
        "check_close_is_once_and_final",
        "check_foreign_references_are_refused",
        "check_pending_publications_are_awaited",
        "check_results_of_a_revoked_caller_are_discarded",
        "check_retired_instance_answers_nothing",
        "check_undeclared_requests_reach_no_provider",
    }


def test_authority_by_equality_is_caught() -> None:
    """By the checks that use an equal audience."""
    found = {finding.check: finding.why for finding in run_all(Trusting).findings}
    assert "check_unminted_audience_is_refused" in found
    assert found["check_released_and_copied_audiences_are_refused"] == "a copy of an audience is current"


def test_revived_audiences_are_caught() -> None:
    """By the check of restored rows, and the one of a detached child's row that goes away again."""
    assert {finding.check for finding in run_all(Reviving).findings} == {
        "check_restored_row_does_not_revive",
        "check_detached_delegate_ends_when_a_row_appears",
        "check_delegates_are_bound_to_their_child",
    }


def test_a_slot_that_anybody_owns_is_caught() -> None:
    """By all checks of the slot."""
    found = {finding.check for finding in run_all(Merging).findings}
    assert found >= {check.__name__ for check in conformance.slot_checks.ALL}


def test_unexpected_failures_are_findings() -> None:
    """A host that cannot even be made fails every check, with the kind of failure."""

    def broken() -> OwnHost:
        raise OSError("with a path")

    found = run_all(broken).findings
    assert {finding.check for finding in found} == set(CHECKS)
    assert {finding.why for finding in found} == {"unexpected OSError"}


def test_slot_of_the_kit_is_the_selected_plugin() -> None:
    """The adapter over our host is what the protocol describes: fresh, with the kit's plugin selected."""
    host = OwnHost()
    assert host.host.slot.selected == SLOT
    assert host.active() is None
    host.register(SLOT, frozenset({"memory"}), MemoryCapability())
    assert host.active() == (SLOT, MemoryCapability())

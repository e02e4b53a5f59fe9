"""The conformance kit for a host's gateway: ours passes, and gateways that break a rule are caught by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from memory_sqlite.host import conformance
from memory_sqlite.host.conformance import GATEWAY_CHECKS, OwnGateway, run_all
from memory_sqlite.host.conformance.gateway_subject import client
from memory_sqlite.host.gateway.connections import Connection
from memory_sqlite.runtime.signals import AbortSignal


@pytest.mark.parametrize("name", sorted(GATEWAY_CHECKS))
def test_our_gateway_passes(name: str) -> None:
    """Each check alone, as a third party's runner would call it."""
    GATEWAY_CHECKS[name](OwnGateway)


def test_every_gateway_check_is_listed_once() -> None:
    """A function that is written and not listed would never run; no two kits have a check of one name."""
    written = {name for name in vars(conformance.gateway_checks) if name.startswith("check_")}
    assert written == set(GATEWAY_CHECKS)
    assert len(GATEWAY_CHECKS) == len(conformance.gateway_checks.ALL)
    names = run_all().not_run
    assert len(names) == len(set(names))


class Changed(OwnGateway):
    """A gateway that changes requests or answers on their way."""

    def request(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        return params

    def answer(self, response: dict[str, Any]) -> Mapping[str, Any]:
        return response

    def asks(self, connection: Connection) -> Connection:
        return connection

    async def call(
        self, method: str, params: Mapping[str, Any], connection: Connection, signal: AbortSignal | None = None
    ) -> Mapping[str, Any]:
        given = self.request(method, dict(params))
        response = await super().call(method, given, self.asks(connection), signal)
        return self.answer(dict(response))


class Newest(Changed):
    """Takes every request for one of version 2."""

    def request(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        return {**params, "version": 2} if method == "memory.search" else params


class Lenient(Changed):
    """Leaves out what it does not understand."""

    def request(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        if params.get("version") == 2 and not (type(params.get("maxResults")) is int and params["maxResults"] > 0):
            params.pop("maxResults", None)
        for name in ("sources", "cursor"):
            if not params.get(name) or params[name] in ("  ", 7, ["wiki"], "memory"):
                params.pop(name, None)
        return params


class Helpful(Changed):
    """Answers for the default agent when it does not know the one that is asked for."""

    def request(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        return params if params.get("agentId") in ("research", None) else {**params, "agentId": "main"}


class Talkative(Changed):
    """Makes of what is not there a failure, and of failures answers."""

    def answer(self, response: dict[str, Any]) -> Mapping[str, Any]:
        if response["ok"] and response["payload"].get("status") == "not_found":
            return {"ok": False, "error": {"code": "UNAVAILABLE", "message": "there is no such entry"}}
        return response


class Nameless(Changed):
    """Does not say whose answer it is."""

    def answer(self, response: dict[str, Any]) -> Mapping[str, Any]:
        if response["ok"]:
            return {"ok": True, "payload": {**response["payload"], "providerId": "memory"}}
        return response


class Hospitable(Changed):
    """Asks nobody who he is."""

    def asks(self, connection: Connection) -> Connection:
        return client(closed=connection.closed, is_current=lambda: not connection.invalidated)


class Unaware(Changed):
    """Hears of no disconnect, revocation or abort."""

    def asks(self, connection: Connection) -> Connection:
        return Connection(
            connection.role, connection.conn_id, connection.scopes, connection.kind, connection.run, lambda: True
        )

    async def call(
        self, method: str, params: Mapping[str, Any], connection: Connection, signal: AbortSignal | None = None
    ) -> Mapping[str, Any]:
        return await super().call(method, params, connection, None)


@pytest.mark.parametrize(
    ("gateway", "caught"),
    [
        (
            Newest,
            {
                "check_version_one_is_the_version_of_none",
                "check_version_one_names_the_native_owner",
                "check_numbers_of_results_are_bounded",
            },
        ),
        (Lenient, {"check_malformed_requests_are_invalid", "check_numbers_of_results_are_bounded"}),
        (Helpful, {"check_unknown_agents_are_refused_before_any_memory"}),
        (Talkative, {"check_not_found_is_an_answer_and_a_denial_is_none"}),
        (Nameless, {"check_success_names_version_agent_and_provider"}),
        (Hospitable, {"check_only_operators_are_answered"}),
        (
            Unaware,
            {"check_nobody_who_has_gone_gets_an_answer", "check_a_hanging_provider_holds_nobody_who_has_gone"},
        ),
    ],
)
def test_gateways_that_break_a_rule_are_caught(
    gateway: type[OwnGateway], caught: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the checks of that rule and by no other; each says the criterion's number."""
    if gateway is Unaware:  # what hangs in it hangs for ever
        monkeypatch.setattr(conformance.gateway_checks, "PATIENCE_S", 0.01)
    report = run_all(gateway=gateway)
    found = {finding.check: finding.why for finding in report.findings}
    assert set(found) == caught, found
    assert all(why.startswith("criterion 13") for why in found.values()), found
    assert set(report.ran) == set(GATEWAY_CHECKS)

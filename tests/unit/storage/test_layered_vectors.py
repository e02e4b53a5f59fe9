"""Names on disk are the layered-memory product's: every vector of section 1 of its reference."""

from __future__ import annotations

import pytest

from memory_sqlite.paths import agent_directory_name, session_token

DIRECTORIES = [
    ("main", "main-0d6e4079e367"),
    ("agent-a", "agent-a-a51d7389ba2c"),
    ("Sales Bot (EU)", "sales-bot-eu-1c093f7becc3"),
    ("客服小助手", "agent-9879e6b1e3a0"),
    ("--X--", "x-abce70d4cb04"),
    ("_ops_", "_ops_-4c926f6e25bb"),
    ("Agent/With/Slash", "agent-with-slash-fda68062f0d9"),
    ("a" * 40, f"{'a' * 32}-e33cdf9c7f71"),
    ("123456789 123456789 123456789 12 tail", "123456789-123456789-123456789-12-28549b7f1e57"),
    ("MAIN", "main-95832d038fbf"),
]
TOKENS = [
    ("s1", "3fe711aae85a53cba26fec699ea91acd"),
    ("session-contract", "7572f902555f5877c471a316fc7f3375"),
    ("agent:main:wecom:dm:u-1001", "1aa3d6ed088975f460389f76f9cd01f8"),
    ("会话-一", "42ba43477b616f279d83f63de03cafd2"),
]


@pytest.mark.parametrize(("agent", "directory"), DIRECTORIES)
def test_agent_directories_of_section_1_1(agent: str, directory: str) -> None:
    assert agent_directory_name(agent) == directory


@pytest.mark.parametrize(("session", "token"), TOKENS)
def test_session_tokens_of_section_1_2(session: str, token: str) -> None:
    """Key: the bytes 00 01 … 1f."""
    assert session_token(bytes(range(32)), session) == token


def test_a_slug_is_cut_after_stripping_so_it_may_end_in_a_dash() -> None:
    assert agent_directory_name("a" * 31 + " b").startswith("a" * 31 + "--")


def test_agents_that_share_a_slug_have_directories_of_their_own() -> None:
    assert agent_directory_name("main") != agent_directory_name("MAIN")

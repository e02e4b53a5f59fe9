"""One message of any host becomes the house's message, or an error that names the field."""

from __future__ import annotations

import base64
import json
import os
import time
from typing import Any

import pytest

from memory_sqlite import limits
from memory_sqlite.errors import InvalidArgument
from memory_sqlite.transcripts.normalise import normalise


def plain(**fields: Any) -> Any:
    return normalise({"role": "user", "content": "hello", **fields}, redact=False)


def test_fields_and_unknown_keys_are_kept() -> None:
    message = plain(id="m1", name="Mika", sender="u-1", at="2026-07-15T08:30:00.120Z", mood={"calm": [1, 2.5, None]})
    assert (message.host_id, message.name, message.sender, message.at) == ("m1", "Mika", "u-1", 1_784_104_200_120)
    assert message.entry_ids == ("m1",)
    assert json.loads(message.raw)["mood"] == {"calm": [1, 2.5, None]}
    assert '"mood":{"calm":[1,2.5,null]}' in message.raw


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ([], ""),
        (["a", {"type": "text", "text": "b"}, "", 7, None], "a\nb"),
        ({"type": "text", "text": "one block"}, "one block"),
        ([{"type": "input_text", "text": "in"}, {"type": "output_text", "text": "out"}], "in\nout"),
        ([{"type": "thinking", "thinking": "x"}, {"type": "reasoning", "text": "y"}, {"text": "z"}], "z"),
        ([{"thought": True, "text": "hidden"}, {"text": "said"}], "said"),
        ([{"type": "tool_use", "name": "n", "input": {"text": "x"}}, {"type": "image", "text": "x"}], ""),
        ([{"type": "refusal", "refusal": "I cannot."}], "I cannot."),
        ([{"type": ["odd"], "text": "kept"}, {"type": "text", "text": 5}], "kept"),
        # beside a person's words, tool output is no text: it would be indexed as theirs
        ([{"type": "tool_result", "content": "output"}, {"type": "text", "text": "mine"}], "mine"),
    ],
)
def test_text_of_every_form_of_content(content: object, text: str) -> None:
    message = normalise({"role": "user", "content": content}, redact=False)
    assert message.text == text and not message.is_tool_output


@pytest.mark.parametrize(
    "result", ["granite", [{"type": "text", "text": "granite"}], {"type": "text", "text": "granite"}]
)
def test_tool_results_are_marked_alike_in_every_form(result: object) -> None:
    message = normalise({"role": "user", "content": [{"type": "tool_result", "content": result}]}, redact=False)
    assert message.is_tool_output and message.text == "granite" and message.role == "user"


@pytest.mark.parametrize("role", ["tool", "toolResult", "function"])
def test_tool_roles_are_one_role(role: str) -> None:
    message = normalise({"role": role, "content": "granite"}, redact=False)
    assert message.role == "tool" and message.is_tool_output


def test_nul_is_kept_and_lone_surrogates_survive_in_the_raw_record() -> None:
    message = plain(content="a\0b \ud83d \ud83d\ude00")
    assert message.text == "a\0b \ufffd \U0001f600"
    assert json.loads(message.raw)["content"] == "a\0b \ud83d \U0001f600"
    message.raw.encode("utf-8")


def test_base64_is_replaced_by_its_size_in_text_and_raw_and_other_long_runs_stay() -> None:
    blob = base64.b64encode(bytes(range(256))).decode()
    message = plain(content=f"see data:image/png;base64,{blob} there", other=[blob], url_safe=blob.replace("+", "-"))
    assert message.text == "see data:image/png;base64,[base64:256] there"
    assert blob not in message.raw and message.raw.count("[base64:256]") >= 2
    path = "/Users/Someone/Very1" * 20
    for kept in ("x" * 2_000, "ab" * 400, "f00d" * 100, path, "字" * 500, blob[:200]):
        assert plain(content=kept).text == kept


def test_binary_fields_are_replaced_whatever_their_letters() -> None:
    wrapped = "\n".join(["QUJD" * 19] * 4)
    message = plain(content=[{"type": "image", "source": {"type": "base64", "data": wrapped}}])
    assert json.loads(message.raw)["content"][0]["source"]["data"] == "[base64:228]"


def test_looking_for_base64_takes_linear_time_on_hostile_text() -> None:
    started = time.process_time()
    for text in ("a" * 199 + " ", "Aa0/" * 40 + "_", "=" * 7, "A" * 201 + "="):
        plain(content=text * (1_000_000 // len(text)))
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("hello", r"messages\[2\] must be an object"),
        ({"content": "x"}, r"messages\[2\]\.role"),
        ({"role": "", "content": "x"}, r"messages\[2\]\.role"),
        ({"role": 5, "content": "x"}, r"messages\[2\]\.role"),
        ({"role": "r" * 65, "content": "x"}, r"messages\[2\]\.role"),
        ({"role": "user"}, r"messages\[2\]\.content"),
        ({"role": "user", "content": 5}, r"messages\[2\]\.content"),
        ({"role": "user", "content": "x", "id": 5}, r"messages\[2\]\.id"),
        ({"role": "user", "content": "x", "name": []}, r"messages\[2\]\.name"),
        ({"role": "user", "content": "x", "sender": "é" * limits.HOST_ID_MAX_BYTES}, r"messages\[2\]\.sender"),
        ({"role": "user", "content": "x", "at": "yesterday"}, r"messages\[2\]\.at"),
        ({"role": "user", "content": "x", "at": True}, r"messages\[2\]\.at"),
        ({"role": "user", "content": "x", "extra": {1, 2}}, r"messages\[2\] holds"),
        ({"role": "user", "content": "x", "extra": float("nan")}, r"messages\[2\] holds"),
    ],
)
def test_errors_name_the_field_and_never_quote_it(message: Any, field: str) -> None:
    with pytest.raises(InvalidArgument, match=field) as caught:
        normalise(message, redact=False, where="messages[2]")
    assert "yesterday" not in caught.value.message and "hello" not in caught.value.message


def test_a_record_that_holds_itself_or_is_too_deep_is_an_error() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for extra in (circle, deep):
        with pytest.raises(InvalidArgument, match="holds"):
            plain(extra=extra)


def test_redaction_masks_text_name_and_raw_and_is_counted() -> None:
    secret = "ghp_" + base64.b32encode(os.urandom(32)).decode().replace("=", "")[:36]
    message = normalise({"role": "user", "content": f"my key is {secret}", "tool": {"token": secret}}, redact=True)
    assert secret not in message.text and secret not in message.raw and message.redactions >= 1
    assert secret in normalise({"role": "user", "content": f"my key is {secret}"}, redact=False).text
    labels = {"name": f"Bob {secret}", "sender": f"bob {secret}"}
    labelled = normalise({"role": "user", "content": "granite", **labels}, redact=True)
    assert secret not in f"{labelled.name} {labelled.sender} {labelled.raw}" and labelled.redactions >= 2

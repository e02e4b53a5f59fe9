"""Building indexes from labelled sets and measuring what a search finds in them.

Not a test module: ``conftest.py`` puts this folder on the path. The sets are found through ``MEMORY_SQLITE_EVAL_DATA``
(default: the sibling ``shared/data`` of the repository). Everything goes through the same functions as the product:
the note reader and chunker, ``indexing.rows``, ``search.run``.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from memory_sqlite.evaluation.metrics import Scores
from memory_sqlite.generations import layout
from memory_sqlite.indexing import rows
from memory_sqlite.model import Chunk, Document, Hit
from memory_sqlite.search.assemble import assemble
from memory_sqlite.search.candidates import Candidate
from memory_sqlite.search.filters import OPERATOR, Filters
from memory_sqlite.search.query import understand
from memory_sqlite.search.retrieve import retrieve
from memory_sqlite.search.run import search
from memory_sqlite.sources.notes import discover, note_document, read_note

NOW_MS = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp() * 1000)
"""The day the sets with relative dates were made on."""

WITHOUT_CONTENT = ("q37", "q38", "q58", "q61", "q67", "q68")
"""Workspace queries whose right answer is empty: blank, stop words, an operator, words that occur nowhere. Three more
have no label and no right answer."""


def data_folder() -> Path | None:
    """Where the external sets are, or ``None``."""
    named = os.environ.get("MEMORY_SQLITE_EVAL_DATA")
    place = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"
    return place if place.is_dir() else None


def index(documents: Iterable[Document]) -> apsw.Connection:
    """A finished generation in memory."""
    connection = apsw.Connection(":memory:")
    sessions: dict[int, list[int]] = {}
    with connection:
        layout.create(connection, {})
        for document in documents:
            rows.put_document(connection, document)
            if document.kind == "message" and document.session_id is not None and document.position is not None:
                sessions.setdefault(document.session_id, []).append(document.position)
        for session_id, positions in sessions.items():
            rows.refresh_contexts(connection, session_id, positions)
        rows.finish(connection)
    return connection


def ask(connection: apsw.Connection, text: str, max_results: int = 10, **filters: Any) -> list[Hit]:
    """One operator search."""
    hits, _ = search(
        connection,
        text,
        Filters(OPERATOR, **filters),
        now_ms=NOW_MS,
        max_results=max_results,
        max_bytes=16 * 1024 * 1024,
    )
    return hits


def ranked(connection: apsw.Connection, text: str, max_results: int = 10, **filters: Any) -> list[Candidate]:
    """The same search without excerpts and without texts of hits: thousands of questions are asked here."""
    wanted = Filters(OPERATOR, **filters)
    candidates = retrieve(
        connection,
        understand(text, now_ms=NOW_MS),
        wanted,
        now_ms=NOW_MS,
        limit=max_results * 3 + 20,
        max_bytes=16 * 1024 * 1024,
    )
    hits = assemble(candidates, max_results=max_results, sessions_only=set(wanted.sources) == {"sessions"})
    return [hit.candidate for hit in hits]


def workspace_documents(folder: Path) -> list[Document]:
    """The notes of a workspace, read and chunked as the product does."""
    documents = []
    for place in discover(folder, ()).places:
        note = read_note(place)
        if not isinstance(note, str):
            documents.append(note_document(place, note)[0])
    return documents


def text_document(key: str, text: str, title: str = "") -> Document:
    """One passage as one note of one chunk."""
    return Document(
        kind="note",
        key=key,
        source="memory",
        path=f"memory/{key}.md",
        chunks=(Chunk(text, 1, text.count("\n") + 1),),
        hash=key,
        at=None,
        title=title,
        owner_private=True,
    )


_CLOCK = re.compile(r"(\d{1,2}):(\d\d) ([ap]m) on (\d{1,2}) (\w+),? (\d{4})")


def locomo_time(text: str) -> int:
    """``1:56 pm on 8 May, 2023`` in milliseconds."""
    match = _CLOCK.fullmatch(text.strip())
    assert match is not None
    hour, minute, half, day, month, year = match.groups()
    moment = datetime.strptime(f"{day} {month} {year} {hour}:{minute} {half}", "%d %B %Y %I:%M %p")
    return int(moment.replace(tzinfo=UTC).timestamp() * 1000)


def locomo_documents(conversation: dict[str, Any]) -> list[Document]:
    """One conversation as the messages of its sessions.

    The caption of a shared image stands after the text, as a transcript that describes its attachments carries it.
    """
    documents = []
    for name, messages in conversation.items():
        if not isinstance(messages, list):
            continue
        session = int(name.removeprefix("session_"))
        at = locomo_time(conversation[f"{name}_date_time"])
        for position, message in enumerate(messages, 1):
            text = message["text"]
            if message.get("blip_caption"):
                text += f" [shared image: {message['blip_caption']}]"
            documents.append(
                Document(
                    kind="message",
                    key=message["dia_id"],
                    source="sessions",
                    path=f"sessions/{session}",
                    chunks=(Chunk(text, position, position),),
                    hash=message["dia_id"],
                    at=at,
                    layer="L0",
                    session_id=session,
                    owner_private=True,
                    role="user",
                    speaker=message["speaker"],
                    position=position,
                    details={"session": name, "message_id": message["dia_id"]},
                )
            )
    return documents


def locomo(folder: Path) -> dict[str, Scores]:
    """Evidence messages and sessions over all questions with evidence of the dev conversations.

    Messages are judged by the first ten hits; sessions by the first five that the first fifty hits name.
    """
    messages, sessions = Scores(), Scores()
    for sample in json.loads((folder / "locomo" / "locomo-dev.json").read_text("utf-8")):
        documents = locomo_documents(sample["conversation"])
        known = {document.key for document in documents}
        connection = index(documents)
        for question in sample["qa"]:
            evidence = {part for item in question["evidence"] for part in re.findall(r"D\d+:\d+", item)} & known
            if not evidence:
                continue
            found = [c.key for c in ranked(connection, question["question"], 50, sources=("sessions",))]
            messages.add(found, evidence)
            sessions.add([key.split(":")[0] for key in found], {key.split(":")[0] for key in evidence}, 5)
    return {"message": messages, "session": sessions}


def xquad(folder: Path, language: str) -> Scores:
    """Passages as documents, questions as queries."""
    data = json.loads((folder / "xquad" / f"xquad.{language}.json").read_text("utf-8"))["data"]
    passages = [paragraph for article in data for paragraph in article["paragraphs"]]
    connection = index(text_document(f"p{number}", p["context"]) for number, p in enumerate(passages))
    scores = Scores()
    for number, paragraph in enumerate(passages):
        for question in paragraph["qas"]:
            scores.add([c.key for c in ranked(connection, question["question"])], [f"p{number}"])
    return scores


def scifact_rows(folder: Path) -> tuple[list[tuple[str, str, str]], dict[str, set[str]]]:
    """Abstracts as ``(id, title, text)``; claims of the validation split with the ids of what bears on them."""
    with zipfile.ZipFile(folder / "scifact" / "scifact.zip") as archive:

        def read(name: str) -> list[dict[str, str]]:
            return list(csv.DictReader(io.StringIO(archive.read(name).decode("utf-8"))))

        corpus, claims = read("corpus_train.csv"), read("claims_validation.csv")
    wanted: dict[str, set[str]] = {}
    for row in claims:
        bearing = {row["evidence_doc_id"]} if row["evidence_doc_id"] else set(re.findall(r"\d+", row["cited_doc_ids"]))
        wanted.setdefault(row["claim"], set()).update(bearing)
    documents = [(row["doc_id"], row["title"], _abstract(row["abstract"])) for row in corpus]
    return documents, {claim: bearing for claim, bearing in wanted.items() if bearing}


def scifact(folder: Path) -> Scores:
    """Abstracts as documents; claims of the validation split with evidence as queries."""
    documents, claims = scifact_rows(folder)
    connection = index(text_document(key, text, title) for key, title, text in documents)
    scores = Scores()
    for claim, wanted in claims.items():
        scores.add([c.key for c in ranked(connection, claim)], wanted)
    return scores


def _abstract(value: str) -> str:
    # a printed list of Python strings: one sentence a line
    return re.sub(r"['\"]\n ['\"]", "\n", value[1:-1]).strip("'\"")


def labelled(connection: apsw.Connection, queries: list[list[Any]], max_results: int = 6) -> dict[str, list[str]]:
    """Paths found for each query of a list of ``[id, query, expected]``."""
    return {query[0]: [hit.path for hit in ask(connection, query[1], max_results)] for query in queries}


def make_bigcorpus(folder: Path, target: Path) -> list[list[Any]]:
    """Run the generator of the 2,001-note corpus; returns its queries."""
    queries = target / "queries.json"
    script = folder / "openclaw-baseline" / "make_bigcorpus.py"
    subprocess.run([sys.executable, str(script), str(target), str(queries)], check=True)
    loaded: list[list[Any]] = json.loads(queries.read_text("utf-8"))
    return loaded


def scored(found: dict[str, list[str]], queries: list[list[Any]], keep: Callable[[list[Any]], bool]) -> Scores:
    """Scores over the queries that have an expected file and that ``keep`` keeps."""
    scores = Scores()
    for query in queries:
        if query[2] and keep(query):
            scores.add(found[query[0]], query[2])
    return scores

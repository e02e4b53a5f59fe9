"""The provider ``openai`` against a real server on loopback that behaves as servers do, well and badly."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from memory_sqlite import errors
from memory_sqlite.embeddings.conformance import check
from memory_sqlite.embeddings.openai import PROBE, OpenAiProvider
from memory_sqlite.embeddings.protocol import InputRefused
from memory_sqlite.embeddings.service import EmbeddingService, Unavailable
from memory_sqlite.limits import EMBEDDING_ATTEMPTS_MAX, EMBEDDING_RETRY_S

pytest.importorskip("httpx", reason="the provider openai needs the extra http")

KEY = "sk-never-to-be-shown-0123456789"
LONG = 30.0
Behaviour = Callable[["Handler", dict[str, Any]], None]


def embedding(text: str) -> list[float]:
    return [float(len(text)), float(sum(map(ord, text)) % 97), 1.0]


def rows(asked: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"object": "embedding", "index": n, "embedding": embedding(text)} for n, text in enumerate(asked["input"])]


def well(handler: Handler, asked: dict[str, Any]) -> None:
    handler.answer(200, {"object": "list", "data": rows(asked), "model": asked["model"]})


class Handler(BaseHTTPRequestHandler):
    """One request; the server's script says what is done with it."""

    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append((self.path, dict(self.headers), asked))
            behave = self.server.script.pop(0) if self.server.script else self.server.usual
        behave(self, asked)

    def answer(self, status: int, body: Any, kind: str = "application/json", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            pass  # nobody waits any more

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    """``script`` is what the next requests meet, ``usual`` what all others do; ``over`` ends those that hang."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.script: list[Behaviour] = []
        self.usual: Behaviour = well
        self.over = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made
    made.over.set()
    made.shutdown()
    made.server_close()
    thread.join(LONG)


class Time:
    """A clock that sleeping moves, and nothing else."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def passing() -> Time:
    return Time()


@pytest.fixture
def provider(server: Server, passing: Time) -> Iterator[OpenAiProvider]:
    """Loaded, with a key; the server has seen the probe."""
    made = OpenAiProvider(
        base_url=server.address,
        model="m",
        key_variable="THE_KEY",
        environ={"THE_KEY": KEY},
        sleep=passing.sleep,
        clock=passing,
        now=lambda: 0.0,
    )
    made.load(LONG)
    server.asked.clear()
    yield made
    made.close()


def status(code: int, **headers: str) -> Behaviour:
    return lambda handler, asked: handler.answer(code, {"error": {"message": f"text was {asked['input']}"}}, **headers)


def hang(handler: Handler, asked: dict[str, Any]) -> None:
    handler.server.over.wait(LONG)


def cut_off(handler: Handler, asked: dict[str, Any]) -> None:
    handler.close_connection = True
    handler.connection.close()


def half(handler: Handler, asked: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')
    handler.close_connection = True


def html(handler: Handler, asked: dict[str, Any]) -> None:
    handler.answer(200, b"<!doctype html><title>Sign in</title>", "text/html")


def body(data: Any) -> Behaviour:
    return lambda handler, asked: handler.answer(200, data)


def changed(change: Callable[[list[dict[str, Any]]], Any]) -> Behaviour:
    return lambda handler, asked: handler.answer(200, {"data": change(rows(asked))})


# --- asking well -----------------------------------------------------------------------------------------------------


def test_what_is_sent(provider: OpenAiProvider, server: Server) -> None:
    """Model and texts as JSON, the key in its header, to /embeddings below the address; nothing else."""
    assert provider.embed_query("茶 \U0001f375", LONG) == embedding("茶 \U0001f375")
    path, headers, asked = server.asked[0]
    assert path == "/v1/embeddings"
    assert asked == {"model": "m", "input": ["茶 \U0001f375"]}
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert headers["Content-Type"] == "application/json"


def test_a_proxy_gets_nothing_that_is_for_this_machine(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text for a model on this machine does not leave it by the environment's proxy."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://proxy.invalid:9")
    near = OpenAiProvider(base_url=server.address, model="m", dimensions=3)
    near.load(LONG)
    assert near.embed_query("q", LONG) == embedding("q")
    near.close()


def test_documents_go_in_one_request(provider: OpenAiProvider, server: Server) -> None:
    """In their order."""
    assert provider.embed_documents(["a", "bb", "ccc"], LONG) == [embedding(text) for text in ("a", "bb", "ccc")]
    assert len(server.asked) == 1


def test_the_dimensions_are_learnt_with_a_word(server: Server) -> None:
    """Where no setting says them; where one does, nothing is sent before there is something to embed."""
    learning = OpenAiProvider(base_url=server.address + "/", model="m")
    learning.load(LONG)
    assert [asked["input"] for _, _, asked in server.asked] == [[PROBE]]
    assert learning.identity.dimensions == 3
    told = OpenAiProvider(base_url=server.address, model="m", dimensions=256)
    told.load(LONG)
    assert len(server.asked) == 1
    assert told.identity.dimensions == 256
    told.embed_query("a", LONG)
    assert server.asked[1][2] == {"model": "m", "input": ["a"], "dimensions": 256}
    for one in (learning, told):
        one.close()


def test_models_with_prefixes_get_theirs(server: Server) -> None:
    """Questions and passages apart; the prefixes are part of the identity."""
    nomic = OpenAiProvider(base_url=server.address, model="nomic-embed-text:latest")
    nomic.load(LONG)
    nomic.embed_query("tea", LONG)
    nomic.embed_documents(["tea"], LONG)
    assert [asked["input"] for _, _, asked in server.asked[1:]] == [["search_query: tea"], ["search_document: tea"]]
    other = OpenAiProvider(base_url=server.address, model="nomic").identity.revision
    assert nomic.identity.revision != other
    nomic.close()


def test_another_server_is_another_identity() -> None:
    """Two servers may have different models of one name; their vectors are never compared."""
    one, other = (OpenAiProvider(base_url=f"http://{host}/v1", model="m").identity for host in ("a", "b"))
    assert one != other
    assert one == OpenAiProvider(base_url="http://a/v1/", model="m").identity


@pytest.mark.parametrize(
    ("address", "cost"),
    [
        ("http://localhost:11434/v1", "free"),
        ("http://127.0.0.2/v1", "free"),
        ("http://[::1]:80/v1", "free"),
        ("https://api.openai.com/v1", "paid"),
        ("http://10.0.0.1/v1", "paid"),
        ("http://localhost.example.com/v1", "paid"),
        (None, "paid"),
    ],
)
def test_this_machine_is_free_of_charge_and_nobody_else(address: str | None, cost: str) -> None:
    """What might cost money is not sent without being asked for."""
    assert OpenAiProvider(base_url=address).cost == cost


def test_it_conforms(server: Server) -> None:
    """The kit for third parties, on ours."""
    assert check(OpenAiProvider(base_url=server.address, model="m"), timeout_s=LONG) == []


# --- answers ---------------------------------------------------------------------------------------------------------


def test_vectors_are_ordered_by_their_index(provider: OpenAiProvider, server: Server) -> None:
    """Servers that work in parallel answer as they are done; without an index the order is that of the texts."""
    wanted = [embedding(text) for text in ("a", "bb", "ccc")]
    server.script = [
        changed(lambda found: found[::-1]),
        changed(lambda found: [{"embedding": r["embedding"]} for r in found]),
    ]
    assert provider.embed_documents(["a", "bb", "ccc"], LONG) == wanted
    assert provider.embed_documents(["a", "bb", "ccc"], LONG) == wanted


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (html, "not JSON"),
        (body(b""), "not JSON"),
        (body(b"\xff\xfe"), "not JSON"),
        (body(b"[" * 100_000), "not JSON"),
        (body([]), "no embeddings"),
        (body({"data": None}), "no embeddings"),
        (body({"data": [1, 2]}), "no embeddings"),
        (body({"error": "no"}), "no embeddings"),
        (changed(lambda found: found[:1]), "1 vectors for 2 texts"),
        (changed(lambda found: found * 2), "4 vectors for 2 texts"),
        (changed(lambda found: [found[0], found[0]]), "belong to no text"),
        (changed(lambda found: [found[0], {**found[1], "index": 7}]), "belong to no text"),
        (changed(lambda found: [found[0], {**found[1], "index": True}]), "belong to no text"),
        (changed(lambda found: [found[0], {**found[1], "index": "1"}]), "belong to no text"),
    ],
)
def test_answers_that_are_none(provider: OpenAiProvider, server: Server, behave: Behaviour, said: str) -> None:
    """HTML, half JSON, fewer vectors, indices twice: a sentence, and no second request for the same."""
    server.script = [behave]
    with pytest.raises(errors.EmbeddingFailed, match=said):
        provider.embed_documents(["a", "b"], LONG)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (
            changed(lambda found: [{**row, "embedding": row["embedding"][:2]} for row in found]),
            "2 dimensions instead of 3",
        ),
        (changed(lambda found: [{**row, "embedding": None} for row in found]), "no vector"),
        (changed(lambda found: [{**row, "embedding": "AAAA"} for row in found]), "no vector"),
        (body(b'{"data": [{"index": 0, "embedding": [NaN, 1, 1]}]}'), "no meaning"),
        (body(b'{"data": [{"index": 0, "embedding": [1e999, 1, 1]}]}'), "no meaning"),
        (body(b'{"data": [{"index": 0, "embedding": [0, 0, 0]}]}'), "no meaning"),
        (html, "not JSON"),
        (status(500), "HTTP 500"),
        (status(401), "refused the key"),
        (cut_off, "cannot be reached or broke off"),
        (half, "cannot be reached or broke off"),
    ],
)
def test_bad_servers_cost_the_vector_leg_alone(
    provider: OpenAiProvider, server: Server, behave: Behaviour, said: str
) -> None:
    """Through the service, as a search asks: a sentence without text and key."""
    service = EmbeddingService(provider, batch_timeout_s=LONG)
    assert service.identity(LONG) is not None
    server.usual = behave
    answer = service.query_vector("the secret plan", LONG)
    service.close()
    assert isinstance(answer, Unavailable)
    assert said in answer.reason
    assert "secret plan" not in answer.reason
    assert KEY not in answer.reason


# --- failing servers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behave", [status(500), status(502), status(503), status(429), status(408), cut_off, half])
def test_what_may_pass_is_tried_again_with_growing_pauses(
    provider: OpenAiProvider, server: Server, passing: Time, behave: Behaviour
) -> None:
    """Twice it fails, the third time it is well."""
    server.script = [behave, behave]
    assert provider.embed_documents(["a"], LONG) == [embedding("a")]
    assert len(server.asked) == 3
    assert passing.slept == [EMBEDDING_RETRY_S, 2 * EMBEDDING_RETRY_S]


def test_it_is_not_tried_for_ever(provider: OpenAiProvider, server: Server, passing: Time) -> None:
    """After a number of attempts it is said what happened last."""
    server.usual = status(503)
    with pytest.raises(errors.EmbeddingFailed, match=r"busy or failing \(HTTP 503\)"):
        provider.embed_documents(["a"], 1_000.0)
    assert len(server.asked) == EMBEDDING_ATTEMPTS_MAX


def test_retry_after_is_kept(provider: OpenAiProvider, server: Server, passing: Time) -> None:
    """As seconds and as a date."""
    server.script = [status(429, Retry_After="7"), status(503, Retry_After="Thu, 01 Jan 1970 00:00:11 GMT")]
    assert provider.embed_documents(["a"], 60.0) == [embedding("a")]
    assert passing.slept == [7.0, 11.0]


@pytest.mark.parametrize("said", ["soon", "-1", "1e9", "\u0663", "Thu, 99 Foo"])
def test_retry_after_that_means_nothing_is_passed_over(
    provider: OpenAiProvider, server: Server, passing: Time, said: str
) -> None:
    """Then the usual pause counts."""
    if not said.isascii():
        from memory_sqlite.embeddings.openai_wire import wait_s

        assert wait_s({"retry-after": said}, 0.0) is None
        return
    server.script = [status(429, Retry_After=said)]
    assert provider.embed_documents(["a"], LONG) == [embedding("a")]
    assert passing.slept == [EMBEDDING_RETRY_S]


def test_a_wait_longer_than_there_is_time_is_not_begun(provider: OpenAiProvider, server: Server, passing: Time) -> None:
    """A search of 1.5 s does not wait for a server that wants a minute: it hears at once."""
    server.usual = status(429, Retry_After="60")
    with pytest.raises(errors.EmbeddingFailed, match="HTTP 429"):
        provider.embed_query("a", 1.5)
    assert (len(server.asked), passing.slept) == (1, [])


@pytest.mark.parametrize(
    ("code", "said", "hint"),
    [
        (401, "refused the key", "embedding_api_key_env"),
        (403, "refused the key", "embedding_api_key_env"),
        (404, "no such address or model", "embedding_base_url"),
        (405, "HTTP 405", "memory-sqlite config"),
        (418, "HTTP 418", "memory-sqlite config"),
        (204, "HTTP 204", "memory-sqlite config"),
    ],
)
def test_what_waiting_cannot_help_is_said_at_once(
    provider: OpenAiProvider, server: Server, passing: Time, code: int, said: str, hint: str
) -> None:
    """With what to do about it."""
    server.usual = status(code)
    with pytest.raises(errors.EmbeddingFailed, match=said) as caught:
        provider.embed_documents(["a"], LONG)
    assert hint in caught.value.hint
    assert (len(server.asked), passing.slept) == (1, [])


def test_a_redirect_is_not_followed(provider: OpenAiProvider, server: Server) -> None:
    """The key would go along."""
    server.usual = status(307, Location="/elsewhere")
    with pytest.raises(errors.EmbeddingFailed, match="asked elsewhere"):
        provider.embed_documents(["a"], LONG)
    assert [path for path, _, _ in server.asked] == ["/v1/embeddings"]


@pytest.mark.parametrize("code", [400, 413, 422])
def test_refused_texts_are_told_from_failures(provider: OpenAiProvider, server: Server, code: int) -> None:
    """They are asked again in halves by the service, not by waiting."""
    server.usual = status(code)
    with pytest.raises(InputRefused) as caught:
        provider.embed_documents(["secret"], LONG)
    assert "secret" not in str(caught.value)
    assert len(server.asked) == 1


def test_a_refused_batch_is_halved_and_costs_one_text(provider: OpenAiProvider, server: Server) -> None:
    """Through the service: the text that the model cannot hold gets none, its neighbours do."""

    def picky(handler: Handler, asked: dict[str, Any]) -> None:
        (status(400) if "bad" in asked["input"] else well)(handler, asked)

    service = EmbeddingService(provider, batch_timeout_s=LONG)
    assert service.identity(LONG) is not None
    server.usual = picky
    found = service.embed(["a", "b", "bad", "d"])
    service.close()
    assert [one is None for one in found] == [False, False, True, False]


def test_a_server_that_hangs_is_given_up(server: Server) -> None:
    """After the time that was given, by the real clock."""
    provider = OpenAiProvider(base_url=server.address, model="m", dimensions=3)
    provider.load(LONG)
    server.usual = hang
    with pytest.raises(errors.EmbeddingFailed, match="did not answer in time"):
        provider.embed_query("a", 0.05)
    provider.close()


def test_a_server_that_trickles_is_given_up(server: Server) -> None:
    """Each byte comes in time and the answer never does."""
    ticks = iter(range(1_000_000))
    provider = OpenAiProvider(
        base_url=server.address, model="m", dimensions=3, clock=lambda: float(next(ticks)), sleep=lambda _: None
    )
    provider.load(LONG)

    def trickle(handler: Handler, asked: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not handler.server.over.is_set():
                handler.wfile.write(b" ")
                handler.wfile.flush()
        except OSError:
            pass  # given up

    server.usual = trickle
    with pytest.raises(errors.EmbeddingFailed, match="did not answer in time"):
        provider.embed_query("a", 5.0)
    provider.close()


def test_an_answer_without_end_is_given_up(
    provider: OpenAiProvider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded."""
    monkeypatch.setattr("memory_sqlite.embeddings.openai.EMBEDDING_ANSWER_MAX_BYTES", 1_000)
    server.usual = body(b" " * 1_001)
    with pytest.raises(errors.EmbeddingFailed, match="more than an answer can hold"):
        provider.embed_query("a", LONG)


def test_a_server_that_is_not_there(server: Server, passing: Time) -> None:
    """Loading fails with a sentence; on this machine at once, for nobody will be listening a second later."""
    address = server.address
    server.shutdown()
    server.server_close()
    provider = OpenAiProvider(base_url=address, model="m", sleep=passing.sleep, clock=passing)
    with pytest.raises(errors.EmbeddingFailed, match=r"cannot be reached or broke off \(ConnectError\)"):
        provider.load(LONG)
    assert passing.slept == []
    provider.close()


@pytest.mark.parametrize("address", ["http://[::1/v1", "http://[x]/v1", "http://127.0.0.1:x/v1"])
def test_an_address_that_is_none(address: str, passing: Time) -> None:
    """Is said in a sentence, and nothing that only looks at the provider fails."""
    provider = OpenAiProvider(base_url=address, model="m", dimensions=3, sleep=passing.sleep, clock=passing)
    assert provider.cost in ("free", "paid")
    provider.load(LONG)
    with pytest.raises(errors.EmbeddingFailed, match="embedding_base_url is no address"):
        provider.embed_query("q", LONG)
    provider.close()


@pytest.mark.parametrize(
    "answer", [status(400), body({"data": [{"embedding": []}]}), body({"data": [{"embedding": 3}]})]
)
def test_a_model_that_cannot_be_asked_is_not_loaded(server: Server, answer: Behaviour) -> None:
    """Nothing is filed with a model whose first answer is none."""
    server.usual = answer
    provider = OpenAiProvider(base_url=server.address, model="m")
    with pytest.raises(errors.EmbeddingFailed):
        provider.load(LONG)
    provider.close()


# --- the key ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environ", [{}, {"THE_KEY": ""}, {"THE_KEY": " \n"}, {"THE_KEY": "a\nb"}, {"THE_KEY": "schlüssel"}]
)
def test_a_key_that_is_not_there_is_said_before_anything_is_sent(server: Server, environ: dict[str, str]) -> None:
    """Neither the variable's name nor its value is shown: people put the key itself there by mistake."""
    provider = OpenAiProvider(base_url=server.address, model="m", key_variable="THE_KEY", environ=environ)
    with pytest.raises(errors.EmbeddingFailed, match="embedding_api_key_env") as caught:
        provider.load(LONG)
    assert "THE_KEY" not in caught.value.message + caught.value.hint
    assert server.asked == []


def test_without_a_key_none_is_sent(server: Server) -> None:
    """Servers of one's own need none."""
    provider = OpenAiProvider(base_url=server.address, model="m")
    provider.load(LONG)
    assert "Authorization" not in server.asked[0][1]
    provider.close()


def test_the_key_is_in_no_log_and_no_representation(
    provider: OpenAiProvider, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever level is logged, and whoever prints the provider."""
    caplog.set_level(1)
    server.script = [status(500)]
    provider.embed_documents(["the secret plan"], LONG)
    assert KEY not in caplog.text
    assert "secret plan" not in caplog.text
    assert provider._client is not None
    assert KEY not in repr(provider) + repr(provider._client.headers)


def test_closing_ends_a_request_under_way(server: Server) -> None:
    """Who waits in it is let go, with an exception of whatever kind; nothing can be asked afterwards."""
    provider = OpenAiProvider(base_url=server.address, model="m", dimensions=3)
    provider.load(LONG)
    provider.close()
    with pytest.raises((errors.EmbeddingFailed, RuntimeError)):
        provider.embed_query("a", LONG)
    assert server.asked == []


def test_nothing_waits_by_the_real_clock_here() -> None:
    """The pauses of this file are counted, not slept: the defaults are the real ones."""
    provider = OpenAiProvider()
    assert (provider._sleep, provider._clock, provider._now) == (time.sleep, time.monotonic, time.time)

"""First light: the same constrained work offline and over HTTP, every output judged by an independent authority.

    python examples/first_light.py [MODEL]

MODEL is a folder or a hub name; without it the embedded model is used. Exits non-zero if one check fails.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
from first_light_jobs import JOBS, REFUSALS, Job, Refusal
from rich.console import Console
from rich.markup import escape

CONTEXT_TOKENS = 1024
ANSWER_TOKENS = 256
SERVER_START_S = 600
SERVER_STOP_S = 30
LOG_CHARS = 4000
CONCURRENT_REQUESTS = 8

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Run both halves; 0 if every check holds."""
    parser = argparse.ArgumentParser(description="Constrained work offline and over HTTP, checked.")
    parser.add_argument("model", nargs="?", help="a folder or a hub name (default: the embedded model)")
    parser.add_argument("--half", choices=("offline", "server"), help="run only one half")
    args = parser.parse_args()
    # One gibibyte of key-value cache is plenty here; the host's log would drown what is shown.
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    model = args.model or embedded_model()
    if args.half == "offline":
        return offline(model)
    started = time.monotonic()
    failed = 0
    if args.half is None:
        failed = in_own_process([sys.executable, __file__, model, "--half", "offline"])
    if not failed:
        failed = over_http(model)
    verdict = "[bold red]A check failed.[/]" if failed else "[bold green]Every check holds.[/]"
    console.print(f"\n{verdict} {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


def embedded_model() -> str:
    """The folder of the embedded model, made on first use."""
    from ninfer_vllm.embedded import build

    return str(build("smollm2", progress=lambda line: console.print(f"[dim]{escape(line)}[/]")))


def in_own_process(command: list[str]) -> int:
    """Run the half in a process that ends with its engine, so that the server finds its memory free; its exit code.

    What the host writes to the error stream on its way is shown only if the half fails.
    """
    with tempfile.TemporaryFile() as log:
        failed = subprocess.run(command, stderr=log, check=False).returncode
        if failed:
            log.seek(0)
            show_log(log.read().decode(errors="replace"))
    return failed


def show_log(text: str) -> None:
    """The end of a log, where a failure is told."""
    console.print(f"[red]The log ends so:[/]\n{escape(text[-LOG_CHARS:])}")


def offline(model: str) -> int:
    """All jobs through vLLM's own Python API."""
    console.rule("Offline: vllm.LLM")
    console.print("starting the engine")
    from vllm import LLM, SamplingParams

    llm = LLM(model, additional_config={"ninfer": {}}, max_model_len=CONTEXT_TOKENS, enforce_eager=True)
    failures = 0
    for job in JOBS:
        params = SamplingParams(structured_outputs=job.constraint, temperature=0, max_tokens=ANSWER_TOKENS)
        started = time.monotonic()
        results = llm.chat([job.messages(prompt) for prompt in job.prompts], params, use_tqdm=False)
        outputs = [result.outputs[0] for result in results]
        records = [output.constraint.to_json() for output in outputs]
        failures += show(job, [output.text for output in outputs], records, time.monotonic() - started)
    return 1 if failures else 0


def over_http(model: str) -> int:
    """All jobs, streamed, and the refusals, through the OpenAI client."""
    import openai

    with served(model) as base_url:
        client = openai.OpenAI(base_url=f"{base_url}/v1", api_key="none", max_retries=0)
        failures = 0
        for job in JOBS:
            started = time.monotonic()
            with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
                answers = list(pool.map(lambda prompt, job=job: streamed(client, job, prompt), job.prompts))
            texts, records = [text for text, _ in answers], [record for _, record in answers]
            failures += show(job, texts, records, time.monotonic() - started)
        console.rule("What is refused, and where")
        failures += sum(refused(client, refusal, stream=False) for refusal in REFUSALS)
        failures += refused(client, REFUSALS[0], stream=True)
    return failures


def streamed(client: Any, job: Job, prompt: str) -> tuple[str, dict[str, Any]]:
    """The text of a streamed answer, and the record in its last chunk."""
    text, record = "", {}
    chunks = client.chat.completions.create(
        model="demo", messages=job.messages(prompt), temperature=0, max_tokens=ANSWER_TOKENS, stream=True, **job.http
    )
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
        record = (chunk.model_extra or {}).get("ninfer", {}).get("constraint", record)
    return text, record


def show(job: Job, texts: list[str], records: list[dict[str, Any]], seconds: float) -> int:
    """Print and judge the answers of a job; how many are not as they must be."""
    console.print(f"\n[bold]{escape(job.title)}[/]")
    failures = 0
    for prompt, text, record in zip(job.prompts, texts, records, strict=True):
        try:
            answer = job.judge(text)
            assert record.get("complete"), f"incomplete: {text}"
            assert record.get("terminated"), f"not ended by its end token: {text}"
        except (AssertionError, ValueError, jsonschema.ValidationError) as fault:
            failures += 1
            answer = f"FAILED: {type(fault).__name__}: {fault}"
        lines = answer.rstrip("\n").split("\n")
        console.print(f"  {escape(prompt)}")
        for line in lines:
            console.print(f"    [cyan]{escape(line)}[/]")
    verdict = f"[red]{failures} failed[/]" if failures else "[green]all valid[/]"
    built = sum(record.get("cache") == "built" for record in records)
    console.print(f"  {verdict}, judged by {job.judged_by}; {len(texts)} answers, {built} compiled; {seconds:.1f} s")
    return failures


def refused(client: Any, refusal: Refusal, *, stream: bool) -> int:
    """Send a request that must be refused; 0 if the answer says what it must."""
    import openai

    console.print(f"\n[bold]{escape(refusal.title)}[/]" + (" (asked for a stream)" if stream else ""))
    try:
        client.chat.completions.create(
            model="demo", messages=[{"role": "user", "content": "Hello."}], max_tokens=8, stream=stream, **refusal.http
        )
    except openai.BadRequestError as error:
        body: Any = error.body
        console.print(f"  HTTP {error.status_code} [yellow]{body['code']}[/] at {escape(body['param'])}")
        console.print(f"    {escape(body['message'])}")
        facts = (body["type"], body["code"], body["param"], body["place"])
        expected = ("invalid_request_error", refusal.code, refusal.param, refusal.place)
        if facts == expected:
            return 0
        console.print(f"  [red]expected {escape(str(expected))}, got {escape(str(facts))}[/]")
        return 1
    console.print("  [red]was not refused[/]")
    return 1


@contextmanager
def served(model: str) -> Iterator[str]:
    """A server of the model on a free port, stopped at the end; its log is shown if it fails."""
    with reserved_port() as port:
        yield from served_on(port, model)


def served_on(port: int, model: str) -> Iterator[str]:
    """The address of a server on a port, once it answers; it is stopped behind that."""
    words = [model, "--host", "127.0.0.1", "--port", str(port), "--served-model-name", "demo", "--enforce-eager"]
    words += ["--max-model-len", str(CONTEXT_TOKENS), "--max-num-seqs", str(CONCURRENT_REQUESTS)]
    console.print()
    console.rule("Server: ninfer serve")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as sink:
            command = [sys.executable, "-m", "ninfer_vllm", "serve", *words]
            server = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
        try:
            base_url = f"http://127.0.0.1:{port}"
            wait_until_healthy(base_url, server)
            yield base_url
        except BaseException:
            show_log(log.read_text(errors="replace"))
            raise
        finally:
            stop(server)


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that the system gives to nobody else meanwhile; a server that asks for it by number may listen on it."""
    with socket.socket() as holder:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            holder.setsockopt(socket.SOL_SOCKET, option, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


def wait_until_healthy(base_url: str, server: subprocess.Popen[bytes]) -> None:
    """Return once the server answers; raise if it ends or takes too long."""
    deadline = time.monotonic() + SERVER_START_S
    with console.status("starting the server"):
        while time.monotonic() < deadline:
            if server.poll() is not None:
                raise RuntimeError(f"the server ended with exit code {server.returncode}")
            try:
                with urllib.request.urlopen(f"{base_url}/health", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
    raise RuntimeError(f"the server did not answer within {SERVER_START_S} s")


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server as a service manager would: a request first, force only if it is ignored."""
    server.terminate()
    try:
        server.wait(SERVER_STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())

"""Adding, finding and removing models; what cannot be added, and why."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from local.tiny_model import write_model
from spindle.errors import ConfigError, UsageError
from spindle.local.plan import describe, measured_words, plan_for
from spindle.local.store import LocalModel, ModelStore, copy_in, name_for, read_sha256


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(str(tmp_path / "home"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny.gguf")


def add(store: ModelStore, file: Path, name: str = "tiny", wanted: str | None = None) -> LocalModel:
    return copy_in(store, str(file), name, wanted, lambda done, total: None)


def left(store: ModelStore) -> list[str]:
    return sorted(os.listdir(store.folder)) if os.path.isdir(store.folder) else []


def test_a_file_is_copied_checked_and_found_again(store: ModelStore, file: Path) -> None:
    told: list[tuple[int, int]] = []
    model = copy_in(store, str(file), "tiny", None, lambda done, total: told.append((done, total)))
    size = file.stat().st_size
    assert (model.size_bytes, model.source, told[-1]) == (size, str(file), (size, size))
    assert model.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert Path(model.path).read_bytes() == file.read_bytes()
    assert stat.S_IMODE(os.stat(model.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(store.folder).st_mode) == 0o700
    file.unlink()
    assert store.all() == [model] == [store.find(None)] and store.find("tiny") == model
    assert store.remove("tiny") == model and left(store) == []


def test_another_file_than_was_asked_for_is_not_added(store: ModelStore, file: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        add(store, file, wanted="0" * 64)
    assert hashlib.sha256(file.read_bytes()).hexdigest() in str(raised.value) and "0" * 64 in str(raised.value)
    assert store.all() == [] and left(store) == []


def test_what_cannot_be_run_is_not_added(store: ModelStore, file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{file} has no chat template"):
        add(store, write_model(file, tokenizer_chat_template=None))
    with pytest.raises(ConfigError, match="is not a GGUF file"):
        (tmp_path / "x.gguf").write_text("hello")
        add(store, tmp_path / "x.gguf")
    with pytest.raises(UsageError, match="is not a name for a model"):
        add(store, write_model(file), name="../x")
    assert left(store) == []


def test_a_name_is_given_once(store: ModelStore, file: Path) -> None:
    model = add(store, file)
    with pytest.raises(ConfigError, match=rf"there is a model tiny already, from {file} .*spindle local remove tiny"):
        add(store, file)
    add(store, file, name="other")
    assert [each.name for each in store.all()] == ["other", "tiny"] and store.find("tiny") == model
    with pytest.raises(ConfigError, match=r"which of your local models is meant\? Name one with -m: other, tiny"):
        store.find(None)
    with pytest.raises(ConfigError, match="has no model 'nope'; there is: other, tiny"):
        store.find("nope")


def test_without_any_model_it_is_said_how_to_add_one(store: ModelStore) -> None:
    with pytest.raises(ConfigError, match=r"no model has been added .*`spindle local add FILE`"):
        store.find(None)


def test_two_processes_cannot_add_the_same_name_at_once(store: ModelStore, file: Path) -> None:
    draft = store.draft("tiny")
    with pytest.raises(ConfigError, match="is being added by another process"):
        add(store, file)
    draft.discard()
    add(store, file)


def test_a_file_that_has_changed_since_counts_as_not_there(store: ModelStore, file: Path) -> None:
    model = add(store, file)
    os.truncate(model.path, 100)
    assert store.all() == []
    os.unlink(f"{store.folder}/tiny.json")
    assert store.all() == []


def test_a_measured_speed_is_remembered(store: ModelStore, file: Path) -> None:
    add(store, file)
    store.note_speed("tiny", 31.4, 9.26)
    store.note_speed("tiny", None, 9.5)
    assert (store.find("tiny").reads_per_s, store.find("tiny").writes_per_s) == (31.4, 9.5)
    store.note_speed("nobody", 1.0, 1.0)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/a/Qwen2.5-Coder-1.5B-Q4_K_M.gguf", "Qwen2.5-Coder-1.5B-Q4_K_M"),
        ("https://h/x/resolve/main/a%20b.GGUF?download=true", "a-20b"),
        ("./..", "model"),
        ("/a/ünï.gguf", "n"),
    ],
)
def test_the_name_follows_from_the_file(source: str, name: str) -> None:
    assert name_for(source) == name


def test_a_checksum_is_read_as_people_write_it() -> None:
    assert read_sha256(" SHA256:" + "aB" * 32 + "\n") == "ab" * 32
    with pytest.raises(UsageError, match="64 hexadecimal digits, not 'abc'"):
        read_sha256("abc")


# ---- what is said before a model starts --------------------------------------------------------------


def test_the_figures_are_said_before_it_starts(store: ModelStore, file: Path) -> None:
    model = add(store, write_model(file, llama_context_length=(4, 32768)))
    figures, limits = describe(plan_for(model, context=None, threads=3, free_bytes=None))
    assert figures == (
        "tiny runs on this computer: a file of 2 MB, about 0.16 GB of memory, 3 threads, a window of 16384 tokens; "
        "how fast it is, its first answer will show."
    )
    assert "does not fix bugs reliably" in limits
    store.note_speed("tiny", 31.4, 9.26)
    figures, _ = describe(plan_for(store.find("tiny"), context=None, threads=1, free_bytes=None))
    assert figures.endswith("it last read 31 and wrote 9.3 tokens a second here.") and "1 thread," in figures
    assert measured_words("tiny", 31.4, 9.26) == "tiny reads 31 and writes 9.3 tokens a second on this computer."


def test_the_window_follows_the_user_the_model_and_the_memory(store: ModelStore, file: Path) -> None:
    model = add(store, write_model(file, llama_context_length=(4, 32768), llama_embedding_length=(4, 32_000)))
    per_token = model.facts.token_bytes
    assert plan_for(model, context=None, threads=1, free_bytes=1 << 50).context == 16_384
    assert plan_for(model, context=99_999, threads=1, free_bytes=1).context == 32_768
    assert plan_for(model, context=2_048, threads=1, free_bytes=1 << 50).context == 2_048
    little = model.facts.memory_bytes(model.size_bytes, 8_192) + per_token
    assert plan_for(model, context=None, threads=1, free_bytes=little).context == 8_192
    least = plan_for(model, context=None, threads=1, free_bytes=1)
    assert least.context == 4_096 and "may be very slow, or the system may end it" in describe(least)[1]


def test_one_core_is_left_to_the_person(store: ModelStore, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = add(store, write_model(file))
    for cores, threads in ((8, 7), (2, 1), (1, 1)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: set(range(cores)), raising=False)
        assert plan_for(model, context=None, threads=None, free_bytes=None).threads == threads
    assert plan_for(model, context=None, threads=8, free_bytes=None).threads == 8

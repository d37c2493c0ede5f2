"""Settings: what wins, what is refused and in which words, and that `.env.example` says the same as the code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from agent.errors import SettingsError
from agent.prompts import SYSTEM_PROMPT, system_prompt
from agent.settings import Settings, env_file_warnings, read_env_file, variable_names

EXAMPLE = Path(__file__).resolve().parents[2] / ".env.example"
BY_HAND = {name: field for name, field in Settings.model_fields.items() if field.examples and field.examples[0]}


def env(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / ".env"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


# ------------------------------------------------------------------ where a value comes from


def test_nothing_set_is_every_default() -> None:
    assert Settings.load(None, {}) == Settings()


def test_the_environment_wins_over_the_file_and_a_flag_over_both(tmp_path: Path) -> None:
    path = env(tmp_path, "OPENAI_CHAT_MODEL=file\nAGENT_MAX_STEPS=5\nGLASSLOOP_PORT=1111\n")
    environ = {"OPENAI_CHAT_MODEL": "environment", "GLASSLOOP_PORT": "2222"}
    settings = Settings.load(path, environ, {"GLASSLOOP_PORT": "3333"})
    assert (settings.chat_model, settings.max_steps, settings.port) == ("environment", 5, 3333)


def test_an_old_name_in_the_environment_wins_over_a_new_name_in_the_file(tmp_path: Path) -> None:
    path = env(tmp_path, "OPENAI_CHAT_MODEL=file\n")
    assert Settings.load(path, {"LLM_MODEL": "environment"}).chat_model == "environment"


def test_of_two_names_in_one_place_the_new_one_wins() -> None:
    environ = {"LLM_MODEL": "old", "OPENAI_MODEL": "older", "OPENAI_CHAT_MODEL": "new"}
    assert Settings.load(None, environ).chat_model == "new"


@pytest.mark.parametrize("field", [name for name, field in BY_HAND.items() if len(variable_names(field)) > 1])
def test_every_old_name_works(field: str) -> None:
    info = Settings.model_fields[field]
    for name in variable_names(info):
        assert info.examples is not None
        settings = Settings.load(None, {name: info.examples[0]})
        assert settings.model_fields_set == {field}


@pytest.mark.parametrize("empty", ["", "   ", "\t"])
def test_empty_means_not_set(tmp_path: Path, empty: str) -> None:
    path = env(tmp_path, "OPENAI_CHAT_MODEL=file\nAGENT_MAX_STEPS=\n")
    settings = Settings.load(path, {"OPENAI_CHAT_MODEL": empty, "OPENAI_TEMPERATURE": empty})
    assert (settings.chat_model, settings.max_steps, settings.temperature) == ("file", 30, None)


def test_spaces_and_a_carriage_return_around_a_value_do_not_count() -> None:
    settings = Settings.load(None, {"OPENAI_API_KEY": " sk-12345678 \r", "OPENAI_BASE_URL": "http://a/v1/ "})
    assert settings.secrets() == ("sk-12345678",)
    assert settings.base_url == "http://a/v1"


def test_variables_of_others_are_let_be() -> None:
    assert Settings.load(None, {"PATH": "/bin", "OPENAI_ORGANIZATION": "x"}) == Settings()


# ------------------------------------------------------------------ the file


def test_quotes_several_lines_export_and_comments(tmp_path: Path) -> None:
    path = env(
        tmp_path,
        "# a comment\n"
        "export OPENAI_CHAT_MODEL='my model'\n"
        '\nAGENT_SYSTEM_PROMPT_FILE="first line\nOPENAI_API_KEY=not a line of its own\nlast line"\n'
        "OPENAI_BASE_URL=http://a/v1 # behind a value\n",
    )
    settings = Settings.load(path, {})
    assert settings.chat_model == "my model"
    assert settings.system_prompt_file == "first line\nOPENAI_API_KEY=not a line of its own\nlast line"
    assert settings.base_url == "http://a/v1"
    assert settings.secrets() == ()


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = env(tmp_path, "OPENAI_API_KEY=sk-${HOME}-$x\n")
    assert Settings.load(path, {}).secrets() == ("sk-${HOME}-$x",)


def test_a_byte_order_mark_does_not_hide_the_first_variable(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"\xef\xbb\xbfOPENAI_CHAT_MODEL=m\r\n")
    assert Settings.load(path, {}).chat_model == "m"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("OPENAI_CHAT_MODEL m\n", 1),
        ("# c\n\n\nOPENAI_CHAT_MODEL\nAGENT_MAX_STEPS=3\n", 4),
        ('A="one\ntwo"\n\nthis is no line\n', 4),
        ('AGENT_MAX_STEPS=3\nOPENAI_CHAT_MODEL="never closed\n', 2),
    ],
)
def test_a_broken_line_is_named_by_its_number(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(SettingsError, match=rf"^\.env, line {line}: "):
        Settings.load(env(tmp_path, text), {})


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_bytes("OPENAI_CHAT_MODEL=模型".encode("gb18030"))
    with pytest.raises(SettingsError, match="UTF-8"):
        Settings.load(path, {})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert read_env_file(tmp_path / "none") == {}
    assert env_file_warnings(tmp_path / "none") == []


@pytest.mark.skipif(os.name != "posix", reason="modes are a POSIX thing")
def test_a_file_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    path = env(tmp_path, "OPENAI_API_KEY=sk-12345678\n", mode=0o644)
    (warning,) = env_file_warnings(path)
    assert "chmod 600" in warning and "sk-" not in warning
    path.chmod(0o600)
    assert env_file_warnings(path) == []


def test_a_name_that_no_setting_has_is_a_warning(tmp_path: Path) -> None:
    (warning,) = env_file_warnings(env(tmp_path, "OPENAI_API_KYE=sk-12345678\n"))
    assert "OPENAI_API_KYE" in warning and "sk-" not in warning


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AGENT_MAX_STEPS", "0"),
        ("AGENT_MAX_STEPS", "many"),
        ("OPENAI_BASE_URL", "api.openai.com/v1"),
        ("OPENAI_BASE_URL", "file:///etc/passwd"),
        ("OPENAI_TEMPERATURE", "3"),
        ("OPENAI_REQUEST_TIMEOUT_MS", "120s"),
        ("OPENAI_IMAGE_SIZE", "large"),
        ("GLASSLOOP_PORT", "99999"),
        ("GLASSLOOP_LANGUAGE", "fr"),
        ("AGENT_PROTOCOL", "xml"),
        ("AGENT_MODE", "yolo"),
        ("DATABASE_URL", "postgresql://[half/db"),
        ("LLM_BASE_URL", "nowhere"),
    ],
)
def test_a_wrong_value_is_named_with_an_example(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(None, {name: value})
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{name}: ") and f"For example: {name}=" in line


def test_all_wrong_values_are_named_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(None, {"AGENT_MAX_STEPS": "0", "GLASSLOOP_PORT": "x"})
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["AGENT_MAX_STEPS", "GLASSLOOP_PORT"]


def test_no_message_and_no_repr_shows_a_value_that_may_be_a_key() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(None, {"OPENAI_BASE_URL": "sk-very-secret", "AGENT_MAX_STEPS": "sk-very-secret"})
    assert "sk-very" not in str(caught.value)
    settings = Settings(api_key=SecretStr("sk-very-secret"))
    assert "sk-very" not in f"{settings!r} {settings} {settings.model_dump()}"


def test_the_secrets_are_all_there_once() -> None:
    environ = {"OPENAI_API_KEY": "sk-11111111", "OPENAI_IMAGE_API_KEY": "sk-22222222"}
    database = {"DATABASE_URL": "postgresql://ann:p%40ss%20word@host/db"}
    assert Settings.load(None, environ | database).secrets() == ("sk-11111111", "sk-22222222", "p@ss word")
    assert Settings.load(None, {**environ, "OPENAI_IMAGE_API_KEY": "sk-11111111"}).secrets() == ("sk-11111111",)


# ------------------------------------------------------------------ .env.example


def test_the_example_lists_every_variable_in_order_with_its_default() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    listed = [line.partition("=")[::2] for line in lines if line and not line.startswith("#")]
    defaults = []
    for field in BY_HAND.values():
        default = field.default
        shown = default.get_secret_value() if isinstance(default, SecretStr) else "" if default is None else default
        defaults.append((variable_names(field)[0], str(shown)))
    assert listed == defaults


def test_the_example_explains_every_variable_in_the_code_s_words() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    for field in BY_HAND.values():
        name, *old_names = variable_names(field)
        above = text.partition(f"\n{name}=")[0].rpartition("\n\n")[2]
        comment = " ".join(line.removeprefix("# ") for line in above.splitlines())
        assert " ".join((field.description or "").split()) in comment
        assert all(old_name in comment for old_name in old_names)


def test_the_example_as_it_stands_is_every_default() -> None:
    assert Settings.load(EXAMPLE, {}) == Settings()


def test_every_setting_has_words() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


# ------------------------------------------------------------------ the system prompt


def test_the_prompt_is_the_same_each_time_and_says_the_boundary() -> None:
    assert system_prompt() == system_prompt() == SYSTEM_PROMPT
    assert system_prompt(boundary="sandbox: NONE").endswith("sandbox: NONE")


def test_a_file_replaces_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "my prompt.md").write_text("Du bist höflich.\n", encoding="utf-8")
    assert system_prompt("my prompt.md", tmp_path) == "Du bist höflich."
    assert system_prompt(str(tmp_path / "my prompt.md")) == "Du bist höflich."


@pytest.mark.parametrize("text", ["You are a pirate.", "One\ntwo", "你是 海盗", "x " * 5_000, "a\0b c"])
def test_a_text_that_names_no_file_is_the_prompt(tmp_path: Path, text: str) -> None:
    assert system_prompt(text, tmp_path) == text


def test_a_prompt_file_that_is_missing_empty_or_no_text(tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text(" \n")
    (tmp_path / "latin one.md").write_bytes(b"h\xf6flich")
    for name in ("missing.md", "empty.md", "latin one.md"):
        with pytest.raises(SettingsError, match="AGENT_SYSTEM_PROMPT_FILE"):
            system_prompt(name, tmp_path)

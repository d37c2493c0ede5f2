"""Settings: one frozen value, read once from the environment and a `.env` file.

Knows every variable, its default and its meaning. The only file that reads the environment. Refuses to act on any of
it: what a setting does is the business of whoever is handed it. `.env.example` mirrors this file and a test compares.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from dotenv import dotenv_values, set_key, unset_key
from dotenv.parser import parse_stream
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from agent.errors import SettingsError


def _http_url(value: str) -> str:
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("must be an address that starts with http:// or https://")
    return value.rstrip("/")


def _url(value: SecretStr) -> SecretStr:
    urlsplit(value.get_secret_value())  # raises ValueError for what is none
    return value


def _token(value: SecretStr) -> SecretStr:
    if 0 < len(value) < 16:
        raise ValueError("must have 16 characters or more")
    return value


HttpUrl = Annotated[str, AfterValidator(_http_url)]
SecretUrl = Annotated[SecretStr, AfterValidator(_url)]
Token = Annotated[SecretStr, AfterValidator(_token)]


def variable(name: str, *old_names: str, example: str, **rules: Any) -> Any:
    """A field read from `name`; the old names still work, the first one that is set wins."""
    return Field(validation_alias=AliasChoices(name, *old_names), examples=[example], **rules)


class Settings(BaseModel):
    """All settings. `Settings.load()` reads them; `Settings()` is every default."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True, validate_by_name=True)

    # ------------------------------------------------------------------ the chat model

    api_key: SecretStr = variable("OPENAI_API_KEY", "LLM_API_KEY", example="sk-...", default=SecretStr(""))
    """The key of your model server. Servers on this machine mostly need none."""

    base_url: HttpUrl = variable("OPENAI_BASE_URL", "LLM_BASE_URL", example="https://api.openai.com/v1", default="")
    """Where the server is, up to and including /v1. Empty with a key: OpenAI. Empty without: a server found on this
    machine, else the demo model."""

    chat_model: str = variable("OPENAI_CHAT_MODEL", "OPENAI_MODEL", "LLM_MODEL", example="gpt-5.5-mini", default="")
    """The model's name as the server knows it. Empty: the first chat model the server lists. demo: the demo model,
    whatever else is set."""

    temperature: float | None = variable(
        "OPENAI_TEMPERATURE", "LLM_TEMPERATURE", example="0.7", default=None, ge=0, le=2
    )
    """How freely the model chooses its words, 0 to 2. Empty: the server's default."""

    max_output_tokens: int | None = variable("OPENAI_MAX_OUTPUT_TOKENS", example="8192", default=None, ge=1)
    """Tokens of one reply at most. Empty: the server's default."""

    request_timeout_ms: int = variable("OPENAI_REQUEST_TIMEOUT_MS", example="120000", default=120_000, ge=1_000)
    """How long to wait for the first piece of a reply, in milliseconds."""

    idle_timeout_ms: int = variable("OPENAI_IDLE_TIMEOUT_MS", example="60000", default=60_000, ge=1_000)
    """How long a reply that has begun may be silent, in milliseconds."""

    provider: str = variable("OPENAI_PROVIDER", example="deepseek", default="auto")
    """Whose habits to expect: auto guesses from the address and learns from refusals; a name pins the profile."""

    protocol: Literal["auto", "tools", "json"] = variable("AGENT_PROTOCOL", example="auto", default="auto")
    """How the model asks for tools: tools (the API's own way), json (plain JSON, for models that cannot), or auto."""

    local_model: str = variable("LOCAL_MODEL", example="/models/model.gguf", default="")
    """A GGUF file, or a Hub repository that holds one, to run inside the app. Needs requirements-local.txt."""

    # ------------------------------------------------------------------ images

    image_base_url: HttpUrl = variable("OPENAI_IMAGE_BASE_URL", example="https://api.openai.com/v1", default="")
    """The Images API. Empty: the same server as the chat model."""

    image_api_key: SecretStr = variable("OPENAI_IMAGE_API_KEY", example="sk-...", default=SecretStr(""))
    """Its key. Empty: the chat model's key, where it is the same server. An app that others reach needs one here to
    draw."""

    image_model: str = variable("OPENAI_IMAGE_MODEL", example="gpt-image-2", default="gpt-image-2")
    """The image model's name."""

    image_size: str = variable(
        "OPENAI_IMAGE_SIZE", example="1024x1024", default="auto", pattern=r"^(auto|[1-9]\d{1,4}x[1-9]\d{1,4})$"
    )
    """Width x height in pixels, or auto."""

    image_quality: str = variable("OPENAI_IMAGE_QUALITY", example="high", default="auto")
    """low, medium, high or auto; other servers have words of their own."""

    # ------------------------------------------------------------------ the agent

    max_steps: int = variable("AGENT_MAX_STEPS", example="30", default=30, ge=1, le=1000)
    """Model calls in one turn at most."""

    plan: Literal["auto", "always", "off"] = variable("AGENT_PLAN", example="auto", default="auto")
    """Does the model keep a checklist? auto (of longer tasks), always (each task begins with one) or off."""

    max_tokens: int | None = variable("AGENT_MAX_TOKENS", example="500000", default=None, ge=1)
    """Tokens in one turn at most, read and written together. A turn that has used them up waits for you. Empty: no
    limit."""

    max_cost: float | None = variable("AGENT_MAX_COST", example="0.5", default=None, gt=0)
    """Money for one turn at most, in the currency of prices.json. A model without a price there costs nothing here.
    Empty: no limit."""

    max_seconds: float | None = variable("AGENT_MAX_SECONDS", example="600", default=None, gt=0)
    """Seconds of one turn at most, looked at before each model call; waiting for you does not count. Empty: no
    limit."""

    session_max_steps: int | None = variable("AGENT_SESSION_MAX_STEPS", example="300", default=None, ge=1)
    """Model calls in one conversation at most. Empty: no limit."""

    session_max_tokens: int | None = variable("AGENT_SESSION_MAX_TOKENS", example="5000000", default=None, ge=1)
    """Tokens in one conversation at most. Empty: no limit."""

    session_max_cost: float | None = variable("AGENT_SESSION_MAX_COST", example="5", default=None, gt=0)
    """Money for one conversation at most. Empty: no limit."""

    session_max_seconds: float | None = variable("AGENT_SESSION_MAX_SECONDS", example="7200", default=None, gt=0)
    """Seconds of one conversation at most, all turns together. Empty: no limit."""

    context_tokens: int | None = variable("AGENT_CONTEXT_TOKENS", example="32768", default=None, ge=1024)
    """How many tokens the model reads at once; at four fifths of it the conversation is made shorter. Empty: what its
    server says, else what is known of models of this name. Set it for a local server, which often gives less."""

    mode: Literal["", "read_only", "ask", "auto"] = variable("AGENT_MODE", example="ask", default="")
    """What runs without asking: auto (all that stays inside a whole fence), ask (reading and writing files), read_only
    (reading; everything else is refused). Empty: auto where the fence around commands is whole, else ask."""

    memory: Literal["on", "off"] = variable("AGENT_MEMORY", example="off", default="on")
    """Memory across conversations, each person's own: on, or off for everybody. On the page everyone can switch their
    own off, read it, change it and delete it."""

    system_prompt_file: str = variable(
        "AGENT_SYSTEM_PROMPT_FILE", "LLM_SYSTEM_PROMPT_TEMPLATE", example="prompt.md", default=""
    )
    """A text file beside app.py that replaces the built-in system prompt. A text with spaces that names no file is
    taken as the prompt itself."""

    workspace_dir: Path = variable("WORKSPACE_DIR", example="workspace", default=Path("workspace"))
    """The folder the agent works in."""

    # ------------------------------------------------------------------ the app

    data_dir: Path = variable("GLASSLOOP_DATA", example="generated", default=Path("generated"))
    """Where the app keeps images, handed-over files and its database."""

    database_url: SecretUrl = variable(
        "DATABASE_URL", example="postgresql://user:password@localhost/glassloop", default=SecretStr("")
    )
    """A PostgreSQL database instead of the SQLite file in GLASSLOOP_DATA. Needs: pip install "psycopg[binary]"."""

    host: str = variable("GLASSLOOP_HOST", example="127.0.0.1", default="127.0.0.1")
    """The address to listen on. Anything but 127.0.0.1 lets other machines in."""

    port: int = variable("GLASSLOOP_PORT", "PORT", example="7860", default=7860, ge=0, le=65535)
    """The port to listen on; when it is taken the next free one is used. 0: any free one."""

    api_token: Token = variable("GLASSLOOP_API_TOKEN", example="a-long-random-text", default=SecretStr(""))
    """What programs send as a bearer token to use /api: 16 characters or more, long and random. Empty: programs on this
    machine may use it without one, and where the app is open to others nobody may."""

    language: Literal["auto", "en", "zh"] = variable("GLASSLOOP_LANGUAGE", example="auto", default="auto")
    """The page's language: en, zh, or auto (what the browser asks for)."""

    # Set by others, never by hand, so `.env.example` leaves them out: they have no example.

    space_id: str = variable("SPACE_ID", example="", default="")
    """Set by a Hugging Face Space: the app is public then."""

    no_color: str = variable("NO_COLOR", example="", default="")
    """Anything: no colour in the terminal (no-color.org)."""

    locale: str = variable("LC_ALL", "LC_MESSAGES", "LANG", example="", default="")
    """The terminal's language, where GLASSLOOP_LANGUAGE is auto."""

    @classmethod
    def load(
        cls,
        env_file: Path | None = None,
        environ: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> Settings:
        """Read `env_file` (if it is there) and the environment; where both name a setting the environment wins.

        `overrides` (variables by name, such as the command line's) win over both. Empty values count as not set.
        Raises SettingsError with one line for each variable that is wrong.
        """
        sources = (overrides or {}, os.environ if environ is None else environ, read_env_file(env_file))
        values = [picked for field in cls.model_fields.values() if (picked := _pick(field, sources))]
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise SettingsError("\n".join(_explain(fault) for fault in error.errors())) from None

    def secrets(self) -> tuple[str, ...]:
        """What no result, log or error message may show."""
        password = unquote(urlsplit(self.database_url.get_secret_value()).password or "")
        keys = (self.api_key, self.image_api_key, self.api_token)
        return tuple(dict.fromkeys(key for key in [*(key.get_secret_value() for key in keys), password] if key))


def variable_names(field: FieldInfo) -> list[str]:
    """The field's variable, then its old names."""
    assert isinstance(field.validation_alias, AliasChoices)
    return [str(choice) for choice in field.validation_alias.choices]


def _pick(field: FieldInfo, sources: Sequence[Mapping[str, str]]) -> tuple[str, str] | None:
    """The variable that decides a field, and its value: the first source that sets any of the field's names."""
    for source in sources:
        for name in variable_names(field):
            if value := source.get(name, "").strip():
                return name, value
    return None


def read_env_file(path: Path | None) -> dict[str, str]:
    """The variables in a `.env` file, as written: `${...}` is not filled in, later lines win. No file: nothing.

    Values may be quoted and then run over several lines; `export NAME=value` is understood. Raises SettingsError for
    a line that is neither, with its number.
    """
    if path is None or not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path.name} is not a UTF-8 text file ({error.reason}). Save it as UTF-8.") from None
    except OSError as error:
        raise SettingsError(f"{path.name} cannot be read: {error.strerror}.") from None
    for binding in parse_stream(io.StringIO(text)):
        if binding.error or (binding.key is not None and binding.value is None):
            blank = len(binding.original.string) - len(binding.original.string.lstrip())
            number = binding.original.line + binding.original.string[:blank].count("\n")
            raise SettingsError(f"{path.name}, line {number}: a line reads NAME=value, or starts with #.")
    return {name: value for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items() if value}


def save_in_env_file(path: Path, values: Mapping[str, str]) -> list[str]:
    """Write variables into the `.env` file, for the app's next start; the file is the user's alone from then on.

    Old names of the same settings leave the file: an old key must not come back with a new server. Gives the variables
    that will not count because the environment sets them otherwise. Raises SettingsError where that cannot be done;
    the message names no value.
    """
    if any(char in value for value in values.values() for char in "\r\n\0"):
        raise SettingsError("A value has several lines; these have one.")
    try:
        path.touch(mode=0o600)
        path.chmod(0o600)
        there = read_env_file(path)
        for name, old_names in _names_of(values):
            set_key(path, name, values[name])
            for old in (old for old in old_names if old in there):
                unset_key(path, old)
    except OSError as error:
        raise SettingsError(f"{path.name} cannot be written: {error.strerror}.") from None
    return [
        name
        for name, old_names in _names_of(values)
        if any(os.environ.get(one, "").strip() not in ("", values[name]) for one in (name, *old_names))
    ]


def _names_of(values: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """The variables among the settings' with their old names."""
    named = [variable_names(field) for field in Settings.model_fields.values()]
    return [(name, old_names) for name, *old_names in named if name in values]


def env_file_warnings(path: Path) -> list[str]:
    """What is not wrong but should be known: others may read the keys, a name that no setting has."""
    if not path.is_file():
        return []
    known = {name for field in Settings.model_fields.values() for name in variable_names(field)}
    warnings = [f"{path.name}: nothing here is called {name}." for name in read_env_file(path) if name not in known]
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        warnings.append(
            f"{path.name} can be read by other users of this machine. To keep it yours: chmod 600 {path.name}"
        )
    return warnings


def _explain(fault: Any) -> str:
    """One line: the variable, what is wrong, an example. Not the value: it may be a key in the wrong place."""
    named = str(fault["loc"][0])
    fields = Settings.model_fields.values()
    example = next((f.examples[0] for f in fields if f.examples and named in variable_names(f)), "")
    return f"{named}: {fault['msg'].removeprefix('Value error, ')}. For example: {named}={example}"

"""What went wrong with a request, whose side it is on, and what to do.

Knows HTTP statuses, the error bodies of many servers and the words in them. Refuses to decide what happens next:
whether to ask again is `retry.py`, whether the request can be put right is `refusals.py`. No key leaves this file.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.errors import ContentFiltered, ContextOverflow, LoopDetected, ModelError, TurnStop
from agent.events import Fault

MAX_DETAIL = 500
"""Characters of the server's words that are kept."""


class Failure(Exception):
    """One attempt failed. Never leaves `agent/llm/`: what does is `stop()`."""

    def __init__(
        self,
        code: str,
        detail: str = "",
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        """One of `errors.FAULT_CODES`, or `content_filtered`, or `repeating`."""
        self.detail = detail
        self.status = status
        self.headers = headers or {}
        self.body = body

    @property
    def failed_generation(self) -> str:
        """What the model wrote, where the server refused that and not what we sent."""
        return _failed_generation(self.body)

    @property
    def misread(self) -> bool:
        """Could the server not read what its own model wrote? The model chooses other words the next time."""
        return bool(self.failed_generation or _tokens(self.body) & {"tool_use_failed", "output_parse_failed"})

    def stop(self, where: str) -> TurnStop:
        """What the loop is told when nothing more can be done. `where` names the server for the person."""
        if self.code == "repeating":
            return LoopDetected(self.detail)
        message = MESSAGES[self.code].format(where=where)
        if self.code == "content_filtered":
            filtered = ContentFiltered(message)
            filtered.fault = Fault("bad_request", message, self.detail)
            return filtered
        if self.code == "context_overflow":
            return ContextOverflow(message, self.detail, times_too_long(self.detail), window_in(self.detail))
        return ModelError(self.code, message, self.detail)


MESSAGES = {
    "wrong_key": "{where} refused the API key. Check OPENAI_API_KEY, and that it belongs to this server.",
    "forbidden": "{where} knows the key but does not allow this. Check what the key may do, and the region.",
    "unknown_model": "{where} has no model of this name. Choose one of the models it lists, or set OPENAI_CHAT_MODEL.",
    "quota_exhausted": "The account at {where} has no credit left, or its quota is used up. Top it up, or use another.",
    "rate_limited": "{where} wants fewer requests, and waiting did not help. Try again in a while.",
    "overloaded": "{where} has too much to do right now. That is their side; try again in a while.",
    "context_overflow": "The conversation is longer than the model can read. Start a new one, or use a larger model.",
    "bad_request": "{where} did not accept the request. Its own words tell why.",
    "provider_error": "{where} failed on its side, several times in a row. Try again later.",
    "malformed_response": "{where} answered with something that is not an answer. Does OPENAI_BASE_URL end in /v1?",
    "incomplete_stream": "{where} ended its answer in the middle, several times in a row. Try again later.",
    "connection_lost": "The connection to {where} broke in the middle of the answer, several times in a row.",
    "unreachable": "{where} cannot be reached. Is the server running, and is OPENAI_BASE_URL right?",
    "timeout": "{where} was silent for too long. It may be busy; the time allowed is OPENAI_REQUEST_TIMEOUT_MS.",
    "tls": "The secure connection to {where} failed: its certificate, the clock, a proxy, or no https there.",
    "content_filtered": "The content filter of {where} refused this. Put it in other words.",
}


@dataclass(frozen=True)
class Scrubber:
    """Takes the key out of texts that others see."""

    key: str = field(repr=False)

    def __call__(self, text: str) -> str:
        if len(self.key) >= 4:
            text = text.replace(self.key, "***")
        if len(self.key) >= 12:  # servers echo a beginning and an end with stars or dots between
            head = re.escape(self.key[:5])
            text = re.sub(rf"{head}[\w*.…\-]*", "***", text)
        return re.sub(r"\b(?:sk|gsk|xai|key|pk|nvapi|hf)[-_][\w*.\-]{8,}", "***", text)


def from_response(status: int, headers: Mapping[str, str], raw: str, scrub: Scrubber) -> Failure:
    """A refusal by status."""
    body = _body(raw)
    if body is not None:
        words = scrub(_words(body))
    else:
        words = scrub(_plain(raw))
    detail = cut(f"HTTP {status}: {words}".rstrip(": "))
    return Failure(_classify(status, words, _tokens(body)), detail, status, headers, body)


def _body(raw: str) -> Any:
    """The JSON of a refusal, also where it comes as an event; None where it is none."""
    for text in [raw, *(line[5:] for line in raw.splitlines()[:20] if line.startswith("data:"))]:
        try:
            return json.loads(text, strict=False)
        except (ValueError, RecursionError):
            continue
    return None


def from_payload(payload: Any, scrub: Scrubber) -> Failure | None:
    """An error that came as a payload of a stream, or as a body with status 200; None where it is none."""
    found = _find_error(payload)
    if found is None:
        return None
    words, tokens = scrub(_words(found)), _tokens(payload)
    status = next((int(t) for t in tokens if re.fullmatch(r"[45]\d\d", t)), None)
    if status is None and _BLAMES_US.search(f"{words} {' '.join(tokens)}"):
        status = 400
    return Failure(_classify(status or 500, words, tokens), cut(words), status, body=payload)


def from_connection(error: BaseException) -> Failure:
    """Nothing came back at all."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    text = " ".join(str(e) for e in chain)
    if any(isinstance(e, ssl.SSLError) for e in chain) or "CERTIFICATE_VERIFY" in text or "SSL" in text:
        return Failure("tls", cut(next((str(e) for e in chain if isinstance(e, ssl.SSLError)), text)))
    return Failure("unreachable", cut(str(chain[-1]) or type(chain[-1]).__name__))


def times_too_long(words: str) -> float:
    """How many times too long a request was, by the numbers in the refusal; 2 where it has none that fit."""
    pairs = _token_numbers(words)
    if len(pairs) >= 2:
        return min(pairs[-1] / pairs[0], 20.0)
    return 2.0


def window_in(words: str) -> int | None:
    """How many tokens fit, by the numbers in the refusal; None where it has none. The largest is what was asked for."""
    pairs = _token_numbers(words)
    return pairs[-2] if len(pairs) >= 2 and pairs[-2] >= 512 else None


def _token_numbers(words: str) -> list[int]:
    """What may be numbers of tokens, each once, the smallest first."""
    numbers = {int(n.replace(",", "")) for n in re.findall(r"\d[\d,]{2,}", re.sub(r"^HTTP \d+", "", words))}
    return sorted(n for n in numbers if n >= 256)


def cut(text: str) -> str:
    """The beginning of a server's words, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_DETAIL else text[:MAX_DETAIL] + "…"


def _find_error(payload: Any) -> Any:
    if isinstance(payload, list):
        return next((e for e in map(_find_error, payload) if e is not None), None)
    if not isinstance(payload, Mapping):
        return None
    if error := payload.get("error") or payload.get("fault"):
        return error if not isinstance(error, bool) else payload
    if payload.get("choices"):
        return None
    if isinstance(inner := payload.get("Response"), Mapping) and inner.get("Error"):  # Tencent's own API
        return inner["Error"]
    if payload.get("object") == "error" or payload.get("type") == "error" or payload.get("success") is False:
        return payload
    base = payload.get("base_resp")  # MiniMax: HTTP 200, the status in here
    if isinstance(base, Mapping) and base.get("status_code") not in (0, None):
        return base
    said = any(
        isinstance(payload.get(key), (str, list, dict))
        for key in ("detail", "message", "Message", "msg", "error_msg", "errors")
    )
    is_well = str(payload.get("code")) in ("0", "200")  # iFlytek says so with each chunk
    return payload if said and not is_well and "choices" not in payload else None


_WORD_KEYS = (
    *("error", "errors", "message", "Message", "faultstring", "detail", "msg", "error_msg", "status_msg"),
    *("error_message", "title"),
)


def _words(value: Any) -> str:
    """What an error body says, wherever it says it."""
    if isinstance(value, list):
        return "; ".join(filter(None, map(_words, value)))
    if not isinstance(value, Mapping):
        return str(value)
    for key in _WORD_KEYS:
        if inner := value.get(key):
            words = _words(inner)
            where = value.get("loc")
            if isinstance(where, list):
                words = f"{'.'.join(map(str, where))}: {words}"
            metadata = value.get("metadata")
            raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
            return f"{words} ({raw})" if isinstance(raw, str) else words
    return json.dumps(value, ensure_ascii=False, default=str)


def _failed_generation(value: Any) -> str:
    if isinstance(value, list):
        return next(filter(None, map(_failed_generation, value)), "")
    if not isinstance(value, Mapping):
        return ""
    written = value.get("failed_generation")
    return written if isinstance(written, str) else _failed_generation(list(value.values()))


_TOKEN_KEYS = (
    *("code", "Code", "type", "status", "error_type", "error_code", "errorcode", "status_code", "reason", "param"),
    "quotaId",
)


def _tokens(value: Any) -> set[str]:
    """The codes and types an error body names, folded."""
    if isinstance(value, list):
        return set().union(*map(_tokens, value)) if value else set()
    if not isinstance(value, Mapping):
        return set()
    named = {str(value[key]).lower() for key in _TOKEN_KEYS if isinstance(value.get(key), (str, int))}
    for inner in value.values():
        if isinstance(inner, (dict, list)):
            named |= _tokens(inner)
    return named


def _plain(page: str) -> str:
    """The words of an HTML page or a plain text."""
    title = re.search(r"<title[^>]*>(.*?)</title>", page, re.DOTALL | re.IGNORECASE)
    return title.group(1) if title else re.sub(r"<[^>]+>", " ", page)


_QUOTA = re.compile(
    r"insufficient[_ ](?:quota|balance|credit|funds|user quota)|exceeded (?:your current|today's) quota|billing"
    r"|out of credits?|credit balance|no credits?\b(?! were)|not enough (?:credit|balance)|arrear"
    r"|quota (?:is )?exhausted|balance is insufficient|used up your|usage limit reached"
    r"|\bdaily\b[^.]{0,20} limit reached"
    r"|余额|余量|欠费|额度.{0,4}不足|额度已用|使用上限[^\n]{0,60}重置"
    r"|free (?:tier|quota)[^.]{0,40}exhausted|allocationquota"
    r"|payment required|spending limit|requires? more credits|\bpurchase\b|overdue|key limit exceeded"
    r"|balance (?:is )?not enough|service has been paused",
    re.IGNORECASE,
)
_OVERFLOW = re.compile(
    r"context[_ ]?(?:length|size|window)|maximum context|max(?:imum)?[_ ](?:model|input|prompt|seq\w*|context)[_ ]len"
    r"|messages\[\d+\]\.content\b[^.]{0,20}too long|number of (?:input )?tokens (?:must|exceed)"
    r"|(?:input|prompt|request(?: body)?|messages?|conversation)(?: tokens)? (?:is |are |was )?too (?:long|large)"
    r"|too many (?:input )?tokens|tokens_limit_reached|exceed\w* n_ctx|(?:input|prompt) length\b.{0,20}exceed"
    r"|(?:prompt|total tokens)\b.{0,40}exceed\w* (?:the )?max|token count.{0,30}(?:exceed|only supports)"
    r"|max_prompt_tokens"
    r"|inputs`? (?:tokens \+|must have less)|must be at least 1, got -\d"
    r"|exceed\w* (?:the )?(?:available |maximum |model'?s? |max )?(?:context|number of (?:input )?tokens|input|token)"
    r"|reduce the length|longer than the model|range of input length"
    r"|tokens? (?:in|limit).{0,20}exceed|exceed_context_size|larger than the max"
    r"|tokens exceed the (?:\w+ )?limit|tokens?(?:的?数量?|总数)?.{0,4}超"
    r"|超[过過出].{0,12}(?:长度|長度|上下文|tokens?)|上下文.{0,8}(?:过长|超)|(?:输入|消息|对话|提示词|文本).{0,6}过长"
    r"|长度超|超长|入力が長すぎ|コンテキスト(?:長|ウィンドウ)|컨텍스트 (?:길이|창)|длин\w* контекста|контекстн\w* окн"
    r"|kontext(?:länge|fenster)|(?:longueur|fenêtre) (?:de|du) contexte|(?:longitud|ventana)[^.]{0,12} contexto",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[_ ](?:filter|policy|management)|responsibleaipolicy|data_inspection_failed|inappropriate content"
    r"|moderation|safety (?:system|filter|polic)|safety_check|sensitive ?(?:content|words|information)"
    r"|content_policy_violation|content exists risk|usage guidelines|guardrail polic|censorship"
    r"|prohibited[_ ]content|is prohibited"
    r"|flagged|_sensitive\b|内容安全|敏感|违规|不安全",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"\bapi[_ -]?key\b|secret key|login fail|invalid[_ ](?:token(?! (?:in|at)\b)|authentication)|unauthorized"
    r"|authenticat|incorrect key|令牌.{0,6}(?:无效|过期|失效|不存在)|无效的?(?:令牌|密钥)|身份验证",
    re.IGNORECASE,
)
_MODEL = re.compile(
    r"model(?:[^:;]|:(?=\S)){0,80}(?:not (?:exist|found|available|supported)|does not exist|unknown|is invalid"
    r"|no longer|deprecated)"
    r"|(?:unknown|no such|invalid|unsupported|not found|not a valid) model|model_not_found|pull(?:ing)? it first"
    r"|no case called|模型.{0,20}不存在|deployment.{0,40}not (?:exist|found)|deploymentnotfound|无可用渠道",
    re.IGNORECASE | re.DOTALL,
)
_RATE = re.compile(
    r"rate[_ ]?limit|too many requests|requests per|tokens per|(?:tpm|rpm|tpd|rpd)\b|resource_exhausted|throttl"
    r"|please wait"
    r"|限流|频率|限速",
    re.IGNORECASE,
)


_BUSY = re.compile(r"overload|负载|繁忙", re.IGNORECASE)
_REGION = re.compile(r"(?:location|country|region)[^.]{0,30} not (?:supported|allowed|available)", re.IGNORECASE)
_COMES_BACK = re.compile(r"(?:retry|try again) (?:in|after) \d|per[ _-]?minute", re.IGNORECASE)
_BLAMES_US = re.compile(
    r"invalid[_ ]?(?:request|param|argument|api[_ ]?key)|bad[_ ]?request|api key|login fail|_sensitive\b"
    r"|inspection_failed|unauthorized|authfailure",
    re.IGNORECASE,
)
"""In an error that came without a status: it would have been one of the 400s."""


def _classify(status: int, words: str, tokens: set[str]) -> str:
    """One code for a refusal: first what it says, then what its status says."""
    text = "; ".join([words, *sorted(tokens)])
    quota = bool(_QUOTA.search(text))
    if status == 429 and _COMES_BACK.search(words) and not any("perday" in token for token in tokens):
        quota = False  # the words of a used-up account, but it says when there is more
    if (
        status == 402
        or (quota and status in (400, 403, 412, 429, 500))
        or tokens & {"1113", "1008", "insufficient_quota"}
    ):
        return "quota_exhausted"
    if status == 401 or (status in (400, 403) and _KEY.search(text) and not _OVERFLOW.search(text)):
        return "wrong_key"
    if _too_long(status, text):
        return "context_overflow"
    if status == 429 or (_RATE.search(text) and status in (400, 403, 500, 503)):
        return "overloaded" if _BUSY.search(text) else "rate_limited"
    if _FILTERED.search(text) and status in (400, 403, 422, 451, 500):
        return "content_filtered"
    if _MODEL.search(text) and status in (400, 403, 404, 410, 422, 500, 503):
        return "unknown_model"
    return _by_status(status, text)


def _too_long(status: int, text: str) -> bool:
    if status == 429:  # limits by the minute speak of tokens and of exceeding, too; but no waiting makes a request fit
        return "request too large" in text.lower() or bool(_OVERFLOW.search(text) and not _RATE.search(text))
    return status == 413 or (status in (400, 422, 500) and bool(_OVERFLOW.search(text)))


def _by_status(status: int, text: str) -> str:
    if re.search(r"harmony|expecting start token|tokens remaining in message header", text, re.IGNORECASE):
        return "provider_error"  # its own model's tokens, whatever the status says
    if status == 403 or (status == 400 and _REGION.search(text)):
        return "forbidden"
    if status == 451:
        return "forbidden" if _REGION.search(text) else "content_filtered"
    if status == 405:
        return "malformed_response"  # a page that takes no requests of this kind: the address is not right
    if status == 404:
        return "unknown_model" if re.search("model|endpoints found", text, re.IGNORECASE) else "malformed_response"
    if status in (408, 504, 524):
        return "timeout" if status == 408 else "provider_error"
    if status in (498, 503, 529) or (status >= 500 and _BUSY.search(text)):
        return "overloaded"
    if status in (409, 423, 424, 425, 499) or status >= 500:
        return "provider_error"
    return "bad_request"

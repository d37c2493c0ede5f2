"""Whose side a failure is on, in the words of many servers; and no key in any of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.errors import FAULT_CODES, ContentFiltered, ContextOverflow, ModelError
from agent.llm.faults import MESSAGES, Failure, Scrubber, from_payload, from_response, times_too_long

KEY = "sk-abcdef0123456789xyz"
SCRUB = Scrubber(KEY)

RESPONSES: list[tuple[int, Any, str]] = [
    (401, {"error": {"message": f"Incorrect API key provided: {KEY}."}}, "wrong_key"),
    (401, {"error": {"message": "Incorrect API key provided: sk-abc***********9xyz."}}, "wrong_key"),
    (400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}], "wrong_key"),
    (403, {"error": {"message": "Country, region, or territory not supported"}}, "forbidden"),
    (402, {"error": {"message": "Insufficient Balance"}}, "quota_exhausted"),
    (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, "quota_exhausted"),
    (429, {"error": {"code": "1113", "message": "您的账户已欠费，请充值后重试"}}, "quota_exhausted"),
    (403, {"error": {"message": "Your credit balance is too low"}}, "quota_exhausted"),
    (400, {"code": "Arrearage", "message": "Access denied, please make sure your account is in good standing."}, "quota_exhausted"),
    (429, {"error": {"message": "Rate limit reached for requests"}}, "rate_limited"),
    (429, [{"error": {"status": "RESOURCE_EXHAUSTED", "message": "Quota exceeded for metric: requests per minute"}}], "rate_limited"),
    (404, {"error": {"code": "model_not_found", "message": "The model `x` does not exist"}}, "unknown_model"),
    (404, {"error": {"message": 'model "x" not found, try pulling it first'}}, "unknown_model"),
    (400, {"error": {"message": "x is not a valid model ID"}}, "unknown_model"),
    (404, "<html><title>404 Not Found</title></html>", "malformed_response"),
    (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
    (503, "Service Unavailable", "overloaded"),
    (502, "<html>bad gateway</html>", "provider_error"),
    (500, {"error": {"message": "Internal error"}}, "provider_error"),
    (504, "", "provider_error"),
    (413, "<html>Request Entity Too Large</html>", "context_overflow"),
    (400, {"error": {"message": "This model's maximum context length is 4096 tokens. You requested 9000."}}, "context_overflow"),
    (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}, "context_overflow"),
    (400, {"error": {"message": "The input token count (9056) exceeds the maximum number of tokens allowed (4096)."}}, "context_overflow"),
    (400, {"error": {"message": "Range of input length should be [1, 30720]"}}, "context_overflow"),
    (400, {"error": {"message": "输入内容过长，超过模型上下文长度"}}, "context_overflow"),
    (413, {"error": {"message": "Request too large for model: tokens per minute (TPM): Limit 6000, Requested 9000"}}, "context_overflow"),
    (500, {"error": {"type": "exceed_context_size_error", "message": "the request exceeds the available context size"}}, "context_overflow"),
    (400, {"error": {"code": "content_filter", "message": "ResponsibleAIPolicyViolation"}}, "content_filtered"),
    (400, {"error": {"code": "data_inspection_failed", "message": "Input data may contain inappropriate content."}}, "content_filtered"),
    (403, {"error": {"message": "用户额度不足, 剩余额度: 0.00", "type": "new_api_error"}}, "quota_exhausted"),
    (403, {"error": {"code": "AccountOverdueError", "message": "your account has an overdue balance."}}, "quota_exhausted"),
    (403, {"error": {"message": "Key limit exceeded (total limit)."}}, "quota_exhausted"),
    (401, {"error": {"message": "无效的令牌"}}, "wrong_key"),
    (403, {"error": {"message": "该令牌无权使用模型 m-9"}}, "forbidden"),
    (400, {"error": {"message": "User location is not supported for the API use."}}, "forbidden"),
    (503, {"error": {"message": "当前分组 default 下对于模型 m-9 无可用渠道"}}, "unknown_model"),
    (404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}, "unknown_model"),
    (500, {"error": {"message": "当前分组上游负载已饱和，请稍后再试"}}, "overloaded"),
    (400, {"error": {"message": "Input length 34567 exceeds the maximum allowed length 32768"}}, "context_overflow"),
    (400, {"error": {"message": "输入的token数量超过了模型的限制"}}, "context_overflow"),
    (400, {"error": {"message": "input tokens exceed the configured limit of 272000 tokens"}}, "context_overflow"),
    (400, {'error': {'message': 'Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': 'Die Anfrage überschreitet die maximale Kontextlänge des Modells (8192 Tokens).', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': 'La solicitud supera la longitud máxima de contexto del modelo (8192 tokens).', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': 'La requête dépasse la longueur de contexte maximale du modèle (8192 jetons).', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': '入力が長すぎます。最大コンテキスト長は 8192 トークンです。', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': '입력이 모델의 최대 컨텍스트 길이를 초과했습니다.', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': 'litellm.BadRequestError: ContextWindowExceededError', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': 'Превышена максимальная длина контекста модели: 9000 токенов из 8192.', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': 'length of prompt_tokens (40000) must be less than max_seq_len (32768).', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, 'data: {"error":{"message":"This model\'s maximum context length is 4096 tokens. However, your messages resulted in 5200 tokens.","code":"context_length_exceeded"}}\n\ndata: [DONE]\n\n', "context_overflow"),
    (400, {'error': {'message': "Invalid 'messages[3].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1100000 instead.", 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': 'Unable to submit request because the input token count is 1200000 but model only supports up to 1048576. Reduce the input token count and try again.', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': 'number of input tokens must be no more than 8192, got 9243', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': '提示词过长', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (400, {'error': {'message': '輸入內容超過模型上下文長度限制', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "context_overflow"),
    (403, {'code': 30001, 'message': 'Sorry, your account balance is insufficient', 'data': None}, "quota_exhausted"),
    (412, {'error': {'message': 'Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices.', 'code': 'PRECONDITION_FAILED'}}, "quota_exhausted"),
    (429, {'errors': {'message': "You have exceeded today's quota for model m-1, please try again tomorrow or bind an account."}}, "quota_exhausted"),
    (429, {'success': False, 'errors': [{'code': 4006, 'message': 'you have used up your daily free allocation of 10,000 neurons, please upgrade to the Workers Paid plan if you would like to continue usage.'}]}, "quota_exhausted"),
    (429, {'error': {'code': '1308', 'message': '已达到 5 小时的使用上限。您的限额将在 2026-12-01 18:00:00 重置。'}}, "quota_exhausted"),
    (429, {'error': {'code': '1308', 'message': 'Usage limit reached for 5 hour. Your limit will reset at 2026-12-01 18:00:00'}}, "quota_exhausted"),
    (400, {'error': {'message': '资源包余量已用尽，请购买资源包或开通后付费', 'code': 'ResourceInsufficient'}}, "quota_exhausted"),
    (403, {'error': {'message': 'm-1 requires moderation on X. Your input was flagged for "violence". No credits were charged.', 'code': 403, 'metadata': {'reasons': ['violence'], 'flagged_input': 'go'}}}, "content_filtered"),
    (451, {'error': {'message': 'The content you provided or machine outputted is blocked.', 'type': 'censorship_blocked'}}, "content_filtered"),
    (400, {'error': {'code': 'InputTextSensitiveContentDetected', 'message': 'The request failed because the input text may contain sensitive information. Request id: 02', 'type': 'BadRequest'}}, "content_filtered"),
    (403, {'code': 'The caller does not have permission to execute the specified operation', 'error': 'Content violates usage guidelines. Team: x, Failed check: SAFETY_CHECK_TYPE_BIO'}, "content_filtered"),
    (498, {'error': {'message': 'Flex tier capacity exceeded. Please try again later.', 'type': 'invalid_request_error', 'param': None, 'code': None}}, "overloaded"),
    (499, {'error': {'code': 499, 'message': 'The operation was cancelled.', 'status': 'CANCELLED'}}, "provider_error"),
    (424, {'message': 'The request failed due to an error while processing the model.'}, "provider_error"),
    (405, {'detail': 'Method Not Allowed'}, "malformed_response"),
    (410, {'error': {'message': 'The model m-1 has been deprecated and removed.'}}, "unknown_model"),
    (451, {"error": {"message": "This region is not supported"}}, "forbidden"),
    (400, {"error": {"message": "I like turtles"}}, "bad_request"),
    (400, {"error": {"message": "Invalid token in JSON at position 3"}}, "bad_request"),
    (400, {"error": {"message": "unknown field 'purchase_order' in tools[0]"}}, "bad_request"),
    (400, {"error": {"message": "extra field 'api_key_hint' not permitted"}}, "bad_request"),
    (422, {"detail": [{"loc": ["body", "x"], "msg": "field required"}]}, "bad_request"),
]  # fmt: skip
# ruff: noqa: E501 servers' own words


@pytest.mark.parametrize(("status", "body", "code"), RESPONSES)
def test_a_refusal_is_understood(status: int, body: Any, code: str) -> None:
    failure = from_response(status, {}, body if isinstance(body, str) else json.dumps(body), SCRUB)
    assert failure.code == code
    assert KEY not in failure.detail and "9xyz" not in failure.detail
    stop = failure.stop("api.example.com")
    assert stop.fault is not None and "api.example.com" in str(stop) + "api.example.com"
    assert KEY not in repr(stop.fault)


PAYLOADS: list[tuple[Any, str | None]] = [
    ({"error": "boom"}, "provider_error"),
    ({"error": {"message": "x", "code": 429}}, "rate_limited"),
    ({"code": 0, "message": "Success", "usage": {"prompt_tokens": 6}}, None),
    ({"Response": {"Error": {"Code": "AuthFailure", "Message": "unauthorized"}}}, "wrong_key"),
    ({"fault": {"faultstring": "Invalid ApiKey", "detail": {"errorcode": "oauth.v2.InvalidApiKey"}}}, "wrong_key"),
    ({"error_code": 17, "error_msg": "Open api daily request limit reached"}, "quota_exhausted"),
    ({"error": {"message": "upstream went away", "code": 502}, "choices": [{"delta": {}}]}, "provider_error"),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
    ({"object": "error", "message": "context length exceeded", "code": 400}, "context_overflow"),
    ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "quota_exhausted"),
    ({"detail": "Internal"}, "provider_error"),
    ({"success": False, "errors": [{"message": "bad"}]}, "provider_error"),
    ([{"error": {"message": "x"}}], "provider_error"),
    ({"choices": []}, None),
    ({"choices": [], "usage": {}}, None),
    ({"choices": [{"delta": {"content": "x"}}], "error": None}, None),
    ({"base_resp": {"status_code": 0, "status_msg": ""}, "choices": [{}]}, None),
    ({}, None),
]


@pytest.mark.parametrize(("payload", "code"), PAYLOADS)
def test_an_error_inside_a_stream_is_found(payload: Any, code: str | None) -> None:
    failure = from_payload(payload, SCRUB)
    assert (failure.code if failure else None) == code


def test_every_class_has_words_and_a_place() -> None:
    known = {code for code in FAULT_CODES if code not in ("disk_full", "bug")}
    assert set(MESSAGES) >= known & set(MESSAGES)
    for code in MESSAGES:
        stop = Failure(code, "x").stop("here")
        assert isinstance(stop, (ModelError, ContentFiltered)) and stop.fault is not None and stop.fault.detail == "x"


def test_a_key_without_a_known_look_is_scrubbed_too() -> None:
    scrub = Scrubber("zq7.weird/key+value==")
    assert "weird" not in scrub("you sent zq7.weird/key+value==")
    assert "ue==" not in scrub("you sent zq7.w****ue==")
    assert repr(Scrubber(KEY)).find(KEY) == -1


def test_how_much_too_long() -> None:
    assert times_too_long("request (9056 tokens) exceeds the available context size (4096 tokens)") == pytest.approx(
        2.21, 0.01
    )
    assert times_too_long("HTTP 400: too long") == 2.0
    stop = Failure("context_overflow", "prompt is too long: 210000 tokens > 200000 maximum").stop("x")
    assert isinstance(stop, ContextOverflow) and stop.times_too_long == pytest.approx(1.05)

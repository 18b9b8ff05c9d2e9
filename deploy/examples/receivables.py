"""A client of the Receivables API in one file. It needs Python 3.9 or later, and no packages.

    from receivables import Receivables, verify_webhook

    receivables = Receivables("http://127.0.0.1:8080", os.environ["KEY"])
    for invoice in receivables.list_all("/invoices", status=["open", "partially_paid"]):
        print(invoice["number"], invoice["amount_due"], invoice["currency"])

Paths do not include `/api/v1`. The reference, at `/docs/reference`, describes each call. Amounts are integers
in minor units: 2500 with EUR is €25.00.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import random
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

__all__ = [
    "OutcomeUnknown",
    "Receivables",
    "ReceivablesError",
    "WebhookVerificationError",
    "verify_webhook",
]

BACKOFF_MIN_SECONDS = 0.25
WEBHOOK_TOLERANCE_SECONDS = 300
RETRYABLE_STATUSES = frozenset({408, 429, 500, 502, 503, 504})


class ReceivablesError(Exception):
    """The service rejected the call.

    If `retryable` is true, repeat the call later, and repeat a POST with the same key. Otherwise,
    repeating the call unchanged does not help. `problem` is the problem document with `code`, `detail` and,
    for a request body, `errors`. It is empty if a proxy in front of the service sent the response.
    """

    def __init__(self, status: int, problem: dict[str, Any], retry_after: float | None) -> None:
        self.status = status
        self.problem = problem
        self.code: str = problem.get("code", "")
        self.retry_after = retry_after
        """How many seconds to wait before the next attempt; None if the response does not say."""
        super().__init__(f"{self.code or status}: {problem.get('detail', 'no problem document')}")

    @property
    def retryable(self) -> bool:
        return bool(self.problem.get("retryable", self.status in RETRYABLE_STATUSES))


class OutcomeUnknown(Exception):
    """The last attempt had no complete response, so a POST may have been carried out.

    Repeat the call later, and repeat a POST with the same key, so that it is carried out once.
    """


class WebhookVerificationError(Exception):
    """The webhook is not from the service, or its timestamp is wrong. Respond with 400."""


class Receivables:
    """Calls the API, and repeats each call until its outcome is known, up to `attempts_max` attempts.

    A call is repeated if the connection fails or the service reports a retryable problem, after
    `Retry-After` or, without it, after a wait that doubles each time. A repeated POST has the same
    `Idempotency-Key`, so the service carries it out once.

    If `Retry-After` is longer than `wait_max_seconds`, as it can be at the hourly limit, the call raises
    `ReceivablesError` with `retry_after`.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        attempts_max: int = 5,
        timeout_seconds: float = 30,
        wait_max_seconds: float = 60,
    ) -> None:
        url = url.strip()
        if re.match("https?://", url, re.IGNORECASE) is None:
            raise ValueError(f"The URL must begin with http:// or https://, not {url}")
        self._api = url.rstrip("/") + "/api/v1"
        # A file with a key often ends with a newline, which a header cannot contain.
        self._headers = {"Authorization": f"Bearer {key.strip()}", "Accept": "application/json"}
        self._attempts_max = attempts_max
        self._timeout_seconds = timeout_seconds
        self._wait_max_seconds = wait_max_seconds
        self._opener = build_opener(_RefuseRedirects)

    def get(self, path: str, /, **query: Any) -> dict[str, Any]:
        """Reads one object, or one page of a list. Several values of a parameter are sent separated by commas."""
        target = path + _query_of(query)
        return self._call(Request(self._api + target, headers=self._headers))

    def post(
        self, path: str, body: Mapping[str, Any], idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Creates an object.

        Give each payment a key of your own, and store it before the first call: then the payment is
        recorded once even if your program is restarted. Without a key, the client makes a random one,
        which only protects the retries of this call.
        """
        # An empty key, for example of an empty field, is sent, so that the service rejects it.
        key = str(uuid.uuid4()) if idempotency_key is None else idempotency_key
        headers = {**self._headers, "Content-Type": "application/json", "Idempotency-Key": key}
        data = json.dumps(body).encode()
        return self._call(Request(self._api + path, data=data, headers=headers))

    def list_all(self, path: str, /, **query: Any) -> Iterator[dict[str, Any]]:
        """Yields every object of a list. Each page is requested only when its first object is needed."""
        while True:
            page = self.get(path, **query)
            yield from page["data"]
            if page["next_cursor"] is None:
                return
            query["cursor"] = page["next_cursor"]

    def _call(self, request: Request) -> dict[str, Any]:
        attempt = 0
        while True:
            attempt += 1
            wait: float | None = None
            error: Exception
            try:
                return self._send(request)
            except ReceivablesError as rejection:
                if not rejection.retryable:
                    raise
                error, wait = rejection, rejection.retry_after
            except http.client.InvalidURL:
                raise  # The request was not sent, for example because its path contains a space.
            except (OSError, http.client.HTTPException) as cause:
                error = OutcomeUnknown(f"There was no complete response: {cause!r}")
            if wait is None:
                backoff = min(BACKOFF_MIN_SECONDS * 2**attempt, self._wait_max_seconds)
                wait = backoff * random.uniform(0.5, 1)
            if attempt >= self._attempts_max or wait > self._wait_max_seconds:
                raise error
            time.sleep(wait)

    def _send(self, request: Request) -> dict[str, Any]:
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as response:
                body = _parse(response.read())
        except HTTPError as error:
            with error:
                problem = _parse(error.read())
                raise ReceivablesError(
                    error.code,
                    problem if problem is not None and "code" in problem else {},
                    _seconds_of(error.headers.get("Retry-After")),
                ) from None
        if body is None:
            raise http.client.HTTPException("The response is not a JSON object.")
        return body


def verify_webhook(body: bytes, headers: Mapping[str, str], secret: str) -> dict[str, Any]:
    """Returns the event of a webhook. Raises `WebhookVerificationError` if the service did not sign it
    with `secret`, or if its timestamp differs from now by more than five minutes.

    `body` is the request body as it was received: a framework that parsed the JSON has lost the bytes that
    were signed. `secret` is the signing secret of the endpoint, including `whsec_`.
    """
    given = {name.lower(): value for name, value in headers.items()}
    message_id = given.get("webhook-id", "")
    timestamp = given.get("webhook-timestamp", "")
    if re.fullmatch("[0-9]{1,12}", timestamp) is None:
        raise WebhookVerificationError("There is no timestamp.")
    if abs(time.time() - int(timestamp)) > WEBHOOK_TOLERANCE_SECONDS:
        raise WebhookVerificationError("The timestamp is more than five minutes from now.")
    try:
        # A file with a secret often ends with a newline.
        key = base64.b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except binascii.Error as cause:
        raise ValueError("The secret is not the signing secret of an endpoint (whsec_…).") from cause
    # Ids and signatures of the service are ASCII. Some frameworks decode other bytes to surrogates.
    signed = f"{message_id}.{timestamp}.".encode("ascii", "replace") + body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    # While the secret of the endpoint is being rotated, there are several signatures.
    signatures = given.get("webhook-signature", "").encode("ascii", "replace").split(b" ")
    if not any(hmac.compare_digest(signature, expected) for signature in signatures):
        raise WebhookVerificationError("No signature matches.")
    event: dict[str, Any] = json.loads(body)
    return event


class _RefuseRedirects(HTTPRedirectHandler):
    """The service never redirects a call, and following a redirect would send the key to another address."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


def _query_of(query: Mapping[str, Any]) -> str:
    values = {name: _text_of(value) for name, value in query.items() if value is not None}
    return "?" + urlencode(values) if values else ""


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _parse(body: bytes) -> dict[str, Any] | None:
    """Returns None for anything other than a JSON object, such as the HTML page of a proxy."""
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _seconds_of(retry_after: str | None) -> float | None:
    """`Retry-After` is a number of seconds or a date."""
    if retry_after is None:
        return None
    if retry_after.isdigit():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return None

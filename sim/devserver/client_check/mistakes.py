"""The mistakes of a client that the check finds, each with its name, its severity and its correction."""

from __future__ import annotations

from typing import NamedTuple

CRITICAL, SERIOUS, MINOR = SEVERITIES = ("critical", "serious", "minor")

# A request is sent at once if it arrives so soon after the answer to the one before; fewer requests than these are no
# evidence. A busy machine makes a pause longer, and none shorter than the client's own.
AT_ONCE_MS, FEWEST_ATTEMPTS, FEWEST_READS = 50, 3, 5
MOST_ATTEMPTS = 20


class Mistake(NamedTuple):
    """A mistake of a client. `title` continues a sentence that begins with "it"."""

    name: str
    severity: str
    title: str
    mend: str


_SAME_KEY = "send the same Idempotency-Key with each repetition of a request"

SECOND_CHARGE_WITHOUT_KEY = Mistake(
    "second-charge-without-key",
    CRITICAL,
    "repeats a request without an Idempotency-Key, and so charges twice",
    _SAME_KEY,
)
SECOND_CHARGE_WITH_NEW_KEY = Mistake(
    "second-charge-with-new-key",
    CRITICAL,
    "repeats a request with another Idempotency-Key, and so charges twice",
    _SAME_KEY,
)
FALSE_SUCCESS = Mistake(
    "false-success",
    SERIOUS,
    "reports success although no answer told it that its Charges exist",
    "end with an error, or repeat the request, when there is no answer that says what was created",
)
NO_TIMEOUT = Mistake(
    "no-timeout",
    SERIOUS,
    "waits for an answer without a limit, or for longer than a run may take",
    "set a timeout for each request, of some seconds",
)
NO_TOTAL_TIMEOUT = Mistake(
    "no-total-timeout",
    SERIOUS,
    "has no limit for the whole response, and waits on while a body arrives slowly",
    "set a timeout for the whole response",
)
DOES_NOT_END = Mistake(
    "does-not-end",
    SERIOUS,
    "is still running when its time is over",
    "set a timeout for the whole response, and bound the number of attempts",
)
ENDLESS_RETRIES = Mistake(
    "endless-retries",
    SERIOUS,
    f"repeats a request more than {MOST_ATTEMPTS} times, or until a run is over, while the service is down",
    "bound the number of attempts, to five for example, and the time of all of them",
)
RETRIES_WITHOUT_PAUSE = Mistake(
    "retries-without-pause",
    SERIOUS,
    f"repeats a failed request at once: of {FEWEST_ATTEMPTS} requests or more, the median pause after an answer is"
    f" below {AT_ONCE_MS} ms",
    "wait before each repetition, twice as long each time, with a random part",
)
POLLS_WITHOUT_PAUSE = Mistake(
    "polls-without-pause",
    SERIOUS,
    f"sends the same read again and again: of {FEWEST_READS} reads or more, a quarter come less than {AT_ONCE_MS} ms"
    " after an answer",
    "wait between two reads of the same Charge, or receive callbacks",
)
KEY_WITH_ANOTHER_BODY = Mistake(
    "key-with-another-body",
    SERIOUS,
    "sends the same Idempotency-Key with another body, which the service refuses with 409 after a first success",
    "build the body once, with its times and random values, and send it with each repetition; send a new key with a"
    " new request",
)
REPEATS_REFUSED_REQUEST = Mistake(
    "repeats-refused-request",
    SERIOUS,
    "repeats a request that was refused for good",
    "do not repeat a request that got 400, 401, 403 or 404: the answer stays the same",
)
IGNORES_RETRY_AFTER = Mistake(
    "ignores-retry-after",
    SERIOUS,
    "repeats a request earlier than Retry-After says",
    "wait for as long as Retry-After says before you repeat the request, with 429 and with 503",
)
READS_HTML_AS_JSON = Mistake(
    "reads-html-as-json",
    SERIOUS,
    "reads the HTML page of a proxy as JSON, and ends with the error of its JSON parser",
    "look at the status and at Content-Type before you read a body as JSON",
)
READS_NOTHING_AS_JSON = Mistake(
    "reads-nothing-as-json",
    SERIOUS,
    "reads an empty body as JSON, and ends with the error of its JSON parser",
    "look at the status before you read a body as JSON",
)
CRASHES = Mistake(
    "crashes",
    SERIOUS,
    "ends by a signal, or by an exception that it does not catch, when a request fails; after a refusal, and after some"
    " attempts while the service is down, only an exception counts that shows that it read a value or a body that was"
    " not there",
    "look at the status before you use a body, catch the errors of connections and of bodies that cannot be read, and"
    " treat them as a failed request",
)
UNHANDLED_HTTP_ERROR = Mistake(
    "unhandled-http-error",
    SERIOUS,
    "ends by the exception for an error status, which it does not catch, where it should repeat the request",
    "catch the exception that your HTTP library or your own code raises for an error status, and repeat the request"
    " after 429 and 5xx",
)
REJECTS_UNKNOWN_FIELDS = Mistake(
    "rejects-unknown-fields",
    SERIOUS,
    "fails when an answer has a field that it does not know",
    "ignore the fields that you do not know",
)
TAKES_DATE_FOR_THE_TIME = Mistake(
    "takes-date-for-the-time",
    SERIOUS,
    "fails when the header Date differs from its clock",
    "compare the times in the Charge with each other, and do not rely on Date",
)
SHOWS_API_KEY = Mistake(
    "shows-api-key", SERIOUS, "writes the API key to its output", "leave headers out of logs, or mask the key"
)
ENDS_AT_409 = Mistake(
    "ends-at-409",
    MINOR,
    "takes 409 for its repeated request as the end, although the first request is in progress",
    "repeat the request once more after a pause, with the same Idempotency-Key",
)
BELIEVES_FIRST_READ = Mistake(
    "believes-first-read",
    MINOR,
    "ends with an error after a read that does not show the payment yet",
    "read again after a pause",
)
IGNORES_CONTENT_TYPE = Mistake(
    "ignores-content-type",
    MINOR,
    "takes an answer for one of the service although its Content-Type is text/html",
    "treat an answer with another Content-Type as a failed request",
)
GIVES_UP = Mistake(
    "gives-up",
    MINOR,
    "does not repeat a request that failed for a time",
    "repeat the request after a pause, with the same Idempotency-Key",
)
FAILS_AFTER_REPETITION = Mistake(
    "fails-after-repetition",
    MINOR,
    "repeats a request, and ends with an error all the same",
    "use the answer to the repetition",
)

MISTAKES: tuple[Mistake, ...] = tuple(value for value in tuple(globals().values()) if isinstance(value, Mistake))

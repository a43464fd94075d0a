# %% [markdown]
# # What happens when the shop does not answer?
#
# The customer has paid, the service sends a callback, and the shop's server is restarting. In this notebook a receiver
# fails in typical ways. You see how the service reacts, and what a receiver must do so that no coffee is served twice.

# %%
import base64
import hashlib
import hmac

import pandas as pd

from leyden import Sandbox
from leyden.callbacks.replies import Reply

# %% tags=["parameters"]
seed = 7
answers = [500, "timeout", 200]  # the shop's responses, in order

# %%
sb = Sandbox(seed=seed, start="2030-01-01T09:00Z")
shop = sb.receiver("shop").answers(answers)
charge = sb.charges.create(amount="250000", description="Coffee", callbackUrl="http://shop.localhost/paid")
sb.wallet("ana").pay(charge)
sb.run()
sb.callbacks[["attempt", "due_at", "answered_at", "http_status", "error", "latency_ms"]]

# %% [markdown]
# An error, a timeout, then a `200`. Only a status from 200 to 299 counts as delivered; after fifteen seconds without a
# response the service stops waiting and tries again later. The Charge does not depend on this: it was `completed` when
# the payment arrived.

# %%
charge.timeline()

# %% [markdown]
# ## How long does it keep trying?
#
# This shop never recovers. The drawing shows the schedule 90 minutes after the payment; hollow marks are in the future.
# The waits grow, and are random by some per cent, so that a thousand messages are not retried at the same time.

# %%
dark = Sandbox(seed=seed, start="2030-01-01T09:00Z", label="dark")
dark.receiver("shop").always(500)
lost = dark.charges.create(amount="250000", description="Coffee", callbackUrl="http://shop.localhost/paid")
dark.wallet("ana").pay(lost)
dark.advance("90m")
dark.schedule()

# %%
dark.run()
waits = dark.callbacks["at"].diff().dt.total_seconds() / 3_600
pd.DataFrame({"attempt": dark.callbacks["attempt"], "hours since the last": waits.round(3)}).set_index("attempt").T

# %%
dark.deliveries[["event", "status", "attempts", "created_at", "finished_at"]]

# %% [markdown]
# After ten attempts over three days the message is `exhausted`: the service does not send it again by itself.

# %% [markdown]
# ## A replay on request
#
# A day later the shop works again, and its owner requests a replay of the message. This is a request to the
# control API of the sandbox; `leyden serve` has a page for it.

# %%
dark.advance("1d")
dark.receiver("shop").always(200)
[delivery] = dark.deliveries["id"]
dark.ask("POST", f"/sandbox/v1/deliveries/{delivery}/replay")
dark.run()
dark.deliveries[["event", "status", "attempts", "finished_at"]]

# %% [markdown]
# ## Processed, but the response is too late
#
# The dangerous failure: the shop *processes* the message and serves the coffee, but its response comes too late. The
# service cannot know this, so it sends the message again.

# %%
slow = Sandbox(seed=seed, start="2030-01-01T09:00Z", label="slow")
slow.receiver("shop").answers([Reply(200, delay="20s", commits=True)])
twice = slow.charges.create(amount="250000", description="Coffee", callbackUrl="http://shop.localhost/paid")
slow.wallet("ana").pay(twice)
slow.run()
inbox = slow.receiver("shop").inbox
pd.DataFrame(
    [
        {
            "attempt": got.attempt,
            "webhook-id": got.webhook_id,
            "response": got.answer,
            "acted on": got.commits,
            "seen before": got.repeated,
        }
        for got in inbox
    ]
)

# %% [markdown]
# The `webhook-id` is the same in both. Store the ids of processed messages, and skip messages with a known id.

# %% [markdown]
# ## Is it really from the service?
#
# Anybody can post to your URL. Messages from the service are signed with a shared secret: an HMAC over the message's
# id, timestamp and body. This is the computation of the signature. A receiver also refuses a timestamp that is minutes
# away from its clock: otherwise somebody who has seen a message can send it again.

# %%
secret = slow.ask("GET", "/sandbox/v1/webhook-secret")["current"]


def signed_by_us(post):
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{post.headers['webhook-id']}.{post.headers['webhook-timestamp']}.{post.body}"
    mac = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(f"v1,{mac}", one) for one in post.headers["webhook-signature"].split())


[signed_by_us(got) for got in inbox]

# %% [markdown]
# Now a fault changes the body of a message in transit. The built-in receiver notices it; does yours?

# %%
slow.faults.add("changed_body", event="charge.completed")
forged = slow.charges.create(amount="250000", description="Coffee", callbackUrl="http://shop.localhost/paid")
slow.wallet("ana").pay(forged)
slow.run()
last = slow.receiver("shop").inbox[-1]
signed_by_us(last), list(last.verdict)

# %% [markdown]
# ## The answer
#
# The service retries for three days and then stops. The shop must handle five cases:

# %%
pd.DataFrame(
    [
        ("an error, or no response", "retries with growing waits", "respond 2xx once the message is stored"),
        ("a response that comes too late", "retries", "skip messages with a known webhook-id"),
        ("ten failures", "stops: exhausted", "request a replay, or read the Charge"),
        ("a changed message", "does not know it", "verify the signature first"),
        ("an old message from somebody else", "does not know it", "refuse a timestamp that is not recent"),
    ],
    columns=["what goes wrong", "what the service does", "what the shop does"],
)

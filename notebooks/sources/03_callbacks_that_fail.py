# %% [markdown]
# # What happens when the shop does not answer?
#
# The customer has paid, the service wants to tell the shop, and the shop's server is restarting. In this notebook you
# make a receiver fail in the ways in which real ones fail, and see what the service does, and what a good receiver has
# to do so that no coffee is served twice.

# %%
import base64
import hashlib
import hmac

import pandas as pd

import leyden.lab.drawings
from leyden import Sandbox
from leyden.callbacks.replies import Reply

# %% tags=["parameters"]
seed = 7
answers = [500, "timeout", 200]  # what the shop says, one after another

# %%
sb = Sandbox(seed=seed, start="2030-01-01T09:00Z")
shop = sb.receiver("shop").answers(answers)
charge = sb.charges.create(amount="250000", description="Coffee", callbackUrl="http://shop.localhost/paid")
sb.wallet("ana").pay(charge)
sb.run()
sb.callbacks[["attempt", "due_at", "answered_at", "http_status", "error", "latency_ms"]]

# %% [markdown]
# An error, a silence, and at last a `200`. Only an answer from 200 to 299 counts as heard; after fifteen seconds
# without one the service stops waiting and tries again later. The Charge itself does not care: it was `completed` from
# the moment the money came.

# %%
charge.timeline()

# %% [markdown]
# ## How long does it keep trying?
#
# Here is a shop that never recovers, an hour and a half after the payment. Hollow is what is still to come; each wait
# is longer than the one before, and a little irregular, so that a thousand messages do not come back at the same time.

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
# Ten attempts over three days, and then the message is `exhausted`: nobody will send it again by itself.

# %% [markdown]
# ## Once more, please
#
# The next morning the shop is back, and its owner asks for the message again. That is a request to the sandbox's
# control plane, which has a page of its own under `leyden serve`.

# %%
dark.advance("1d")
dark.receiver("shop").always(200)
[delivery] = dark.deliveries["id"]
dark.ask("POST", f"/sandbox/v1/deliveries/{delivery}/replay")
dark.run()
dark.deliveries[["event", "status", "attempts", "finished_at"]]

# %% [markdown]
# ## Heard, but not understood to be heard
#
# The dangerous failure looks like this: the shop *did* take the message and served the coffee, and then its answer took
# too long. The service cannot know, so it sends the message again.

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
            "answer": got.answer,
            "acted on": got.commits,
            "seen before": got.repeated,
        }
        for got in inbox
    ]
)

# %% [markdown]
# The `webhook-id` is the same in both. Keep the ids that you have acted on, and pass over those that you know.

# %% [markdown]
# ## Is it really from the service?
#
# Anybody can post to your address. What comes from the service is signed with a secret that only you and it know: an
# HMAC over the message's id, its time and its body. This is all that a receiver has to compute.

# %%
secret = slow.ask("GET", "/sandbox/v1/webhook-secret")["current"]


def signed_by_us(post):
    key = base64.b64decode(secret.removeprefix("whsec_"))
    said = f"{post.headers['webhook-id']}.{post.headers['webhook-timestamp']}.{post.body}"
    mac = base64.b64encode(hmac.new(key, said.encode(), hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(f"v1,{mac}", one) for one in post.headers["webhook-signature"].split())


[signed_by_us(got) for got in inbox]

# %% [markdown]
# Now let somebody change the message on its way. The receiver that is built in objects; does yours?

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
# The service keeps trying for three days and then stops. What a shop has to do is little, and none of it may be
# missing:

# %%
pd.DataFrame(
    [
        ("an error, or no answer", "sends it again, later and later", "answer 2xx once the message is safe"),
        ("an answer that came too late", "sends it again", "pass over a webhook-id that you know"),
        ("ten failures", "gives up: exhausted", "ask for a replay, or read the Charge"),
        ("a message that was changed", "knows nothing of it", "verify the signature before anything else"),
    ],
    columns=["what goes wrong", "what the service does", "what the shop does"],
)

# %% [markdown]
# # What changes when I move the expiry, the patience and the liquidity?
#
# Three numbers decide much about a shop: how long an invoice can be paid, how long its customers wait, and how much its
# channels can still receive. In this notebook you move them, and see two hours of the shop at once. Where sliders are
# not shown, as on a web page, read the charts of fixed values.

# %%
import matplotlib.pyplot as plt
import pandas as pd

from leyden import Sandbox

try:
    import IPython
    import ipywidgets as widgets
except ImportError:
    widgets = None
    print('Sliders need ipywidgets: pip install "leyden[lab]". The charts here have fixed values.')

# %% tags=["parameters"]
seed = 3
expiry_s = 60
patience_s = 120  # half of the customers leave earlier, if they have not paid
liquidity_sat = 1_000_000  # what the shop can receive before its channel is full
customers = 60  # in two hours

# %% [markdown]
# ## The shop
#
# A hub opens a channel to the shop, and all its customers pay through the hub. Each call is a new sandbox with the same
# seed, so the same customers come with the same amounts: the chart changes by what you changed, and by nothing else.


# %%
def shop(expiry_s, patience_s, liquidity_sat):
    sb = Sandbox(seed=seed, start="2030-01-01T09:00Z", network="star:40", conditions="ideal")
    sb.network["shop"].drain(inbound=1.0)
    sb.network["n0"].open_channel("shop", 1_000 * liquidity_sat)
    sb.traffic(
        "30/h",
        amount="lognorm(20_000sat, 1)",
        think_time="lognorm(30s, 0.8)",
        patience=f"lognorm({patience_s}s)",
        expiresIn=expiry_s,
        payers=200,
        count=customers,
    )
    sb.run("3h")
    return sb


def chart(expiry_s, patience_s, liquidity_sat):
    sb = shop(expiry_s, patience_s, liquidity_sat)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.6), layout="constrained")
    sb.plot.conversion("20m", ax=left)
    sb.plot.liquidity(ax=right)
    figure.suptitle(
        f"expiry {expiry_s} s, patience {patience_s} s, {liquidity_sat:,} sat of liquidity: "
        f"{sb.kpi.completed} of {sb.kpi.created} paid"
    )
    plt.close(figure)  # so that it is shown once, by the cell
    return figure


chart(expiry_s, patience_s, liquidity_sat)

# %% [markdown]
# ## Move them
#
# In JupyterLab this cell has three sliders over the same chart. Release one, and the two hours pass again.

# %%
if widgets is not None:
    given = {
        "continuous_update": False,  # only when it is released
        "style": {"description_width": "120px"},
        "layout": {"width": "420px"},
    }
    sliders = {
        "expiry_s": widgets.IntSlider(expiry_s, 5, 600, 5, description="expiry, s", **given),
        "patience_s": widgets.IntSlider(patience_s, 10, 600, 10, description="patience, s", **given),
        "liquidity_sat": widgets.IntSlider(
            liquidity_sat, 100_000, 4_000_000, 100_000, description="liquidity, sat", **given
        ),
    }
    live = widgets.interactive_output(lambda **values: IPython.display.display(chart(**values)), sliders)
    IPython.display.display(widgets.VBox([*sliders.values(), live]))

# %% [markdown]
# ## The answer
#
# One at a time, the other two as in the parameters above: which share of the customers pays?

# %%
moved = {
    "expiry_s": [10, 20, 40, 80, 160, 320],
    "patience_s": [10, 20, 40, 80, 160, 320],
    "liquidity_sat": [250_000, 500_000, 1_000_000, 2_000_000, 4_000_000],
}
fixed = {"expiry_s": expiry_s, "patience_s": patience_s, "liquidity_sat": liquidity_sat}
rows = [
    {"moved": name, "value": value, "conversion": shop(**{**fixed, name: value}).kpi.conversion}
    for name, values in moved.items()
    for value in values
]
table = pd.DataFrame(rows)
figure, panels = plt.subplots(1, 3, figsize=(8.5, 3.2), sharey=True, layout="constrained")
for panel, (name, part) in zip(panels, table.groupby("moved", sort=False), strict=True):
    panel.plot(part["value"], part["conversion"], marker="o")
    panel.axvline(fixed[name], color="grey", linewidth=0.8)
    panel.set(xscale="log", xlabel=name, ylim=(0, 1))
    panel.minorticks_off()
    panel.set_xticks(part["value"], [f"{value:,}" for value in part["value"]], rotation=40)
panels[0].set_ylabel("share of the Charges paid")
plt.close(figure)
figure

# %% [markdown]
# The grey lines are the values that the other panels have. How far apart are the lowest and the highest share, by the
# parameter that was moved?

# %%
table.groupby("moved", sort=False)["conversion"].agg(["min", "max"]).round(2)

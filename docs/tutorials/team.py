# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # Deploy and label as a team
#
# Two people label what a recognizer did not know, and a program sends it samples; each has a key. Needs
# `openworld[service]`. Here everything runs on one machine; on a server a proxy with HTTPS stands before it.
#
# ## A model and keys
#
# SQLite serves a team on one host; PostgreSQL is needed for several servers. `openworld key create` prints a key
# once. From the first key on, every request needs one.

# %%
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sklearn.datasets import load_digits

from openworld import Client, OpenWorldRecognizer, ServiceError, save

folder = Path(tempfile.mkdtemp())
X, y = load_digits(return_X_y=True)
known = y < 8  # the digits 8 and 9 are not shown to it
save(OpenWorldRecognizer().fit(X[known][:800], y[known][:800].astype(str)), folder / "digits.ow")
database = f"sqlite:///{folder}/digits.db"


def openworld(*words: str) -> str:
    """Run a command as in a terminal."""
    command = [sys.executable, "-m", "openworld", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


keys = {
    name: re.search(r"ow_\S+", openworld("key", "create", name, "--role", role, "--database", database))[0]
    for name, role in {"ann": "admin", "bob": "labeler", "camera": "labeler"}.items()
}
sorted(keys)

# %% [markdown]
# ## Start it
#
# In a terminal: `openworld serve digits.ow --database sqlite:///digits.db`. It listens on this machine only.
# [Deploy it](../deploy.md) has the systemd unit, the Compose file and the proxy's configuration.

# %%
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
command = ["-m", "openworld", "serve", f"{folder}/digits.ow", "--database", database, "--port", str(port)]
service = subprocess.Popen(
    [sys.executable, *command],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
address = f"http://127.0.0.1:{port}"
for _ in range(600):
    try:
        Client(address, key=keys["ann"]).progress()
        break
    except ServiceError:
        time.sleep(0.5)

# %% [markdown]
# ## Send samples
#
# A program uses its own key. What is unknown waits in the pool.

# %%
with Client(address, key=keys["camera"]) as camera:
    found = camera.recognize(X[y == 8][:30])
sum(answer["unknown"] for answer in found["answers"])

# %% [markdown]
# ## Label
#
# Each person opens the address in a browser and logs in with their key; a cluster that somebody has opened is held
# for them for two minutes, so two people do not name the same samples. The same in Python:

# %%
unknown = [answer["sample_id"] for answer in found["answers"] if answer["unknown"]]
with Client(address, key=keys["bob"]) as bob:
    event = bob.label(unknown, "8")
    answers = bob.recognize(X[y == 8][30:60], remember=False)["answers"]
sum(answer["label"] == "8" for answer in answers)

# %% [markdown]
# ## Undo
#
# Everything can be undone: by the person who did it, whose last event is the default, or by an admin, who says which.

# %%
with Client(address, key=keys["ann"]) as ann:
    ann.undo(event["event_id"])
    print("8" in [known["label"] for known in ann.classes()])
    ann.redo(event["event_id"])
    for entry in ann.history():
        print(entry["kind"], "by", entry["who"])

# %% [markdown]
# ## Look after it
#
# `/metrics` is for Prometheus, `/ready` for the proxy; the dashboard shows what happened. Back up the database: it
# holds samples, labels, the event log and the model.

# %%
service.terminate()
service.wait(60)

# %% [markdown]
# # From a recording to a model of your own
#
# Load a recording, look at it, detect seizures, score them, train, compare, draw. A notebook in plain script form: Jupyter with jupytext, VS Code and
# Spyder show its cells, and `python3 notebook.py` runs it whole. It needs a running daemon (`./dev up`, or `brrd --user`), and of Debian python3-mne,
# python3-matplotlib, python3-protobuf and python3-grpcio. Nothing here is a medical device.

# %%
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(globals().get("__file__", "notebook.py")))
CLONE = os.environ.get("BRR_SOURCE_DIR", os.path.join(HERE, ".."))
BRRCTL = os.environ.get("BRRCTL", "brrctl")
STEPS = int(os.environ.get("STEPS", 40))  # of the training
OUT = os.environ.get("OUT", "notebook-out")
sys.path.insert(0, os.path.join(CLONE, "client", "python"))
sys.path.insert(0, os.environ.get("BRR_PYTHON", os.path.join(CLONE, "build", "python")))  # the messages of the RPC, which the build makes

import matplotlib.pyplot as plt
import mne
import numpy as np

import brr
from brr.v1 import jobs_pb2

# %% [markdown]
# ## Load
# `brr.read` reads every format of docs/formats.md, as the daemon reads it: microvolts, the rate, the names of the channels, and gaps.

# %%
os.makedirs(f"{OUT}/found", exist_ok=True)
folder = os.path.abspath(os.path.join(CLONE, "examples"))
path = f"{folder}/sub-01/sub-01_run-01_eeg.edf"
recording = brr.read(path)
uv, rate, seconds, labels = recording.data, recording.rate, recording.seconds, recording.seizures()
print(f"{len(recording.labels)} channels at {rate:g} Hz, {seconds:g} s, {len(labels)} labelled seizure")

# %% [markdown]
# ## Look
# Ten seconds around the onset of the labelled seizure.

# %%
onset = labels["onset"][0]
part = slice(int((onset - 5) * rate), int((onset + 5) * rate))
traces, axis = plt.subplots(figsize=(10, 6), layout="constrained")
for i, row in enumerate(uv[:, part]):
    axis.plot(recording.times()[part], (row - row.mean()) / 100 - i, linewidth=0.6, color="#0b6aa2")
axis.axvline(onset, color="#b00018")
axis.set(yticks=-np.arange(len(uv)), yticklabels=recording.labels, xlabel="s", title="100 µV from line to line; the label begins at the red line")
traces.savefig(f"{OUT}/traces.png")

# %% [markdown]
# ## Detect
# In this process, without the daemon; `brr.connect().detector("ward")` gives the same results from it. The events are a table, annotations of MNE,
# for everything that MNE does, or an event file.

# %%
ward = brr.Detector("ward")
found = ward.detect(recording)
raw = mne.io.read_raw_edf(path, preload=True, verbose="ERROR")
raw.set_annotations(found.annotations())
print(found.table().dtype.names, found.table().tolist())  # pandas.DataFrame(found.table()), where pandas is installed

# %% [markdown]
# ## Score
# By the rules of SzCORE, against the label file of the recording.

# %%
def score(results):
    results.save(f"{OUT}/found/sub-01_run-01_events.tsv", seconds)
    said = subprocess.run([BRRCTL, "score", f"{folder}/sub-01", f"{OUT}/found", "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(said)["pooled"]["event"]


scores = {"ward": score(found)}
print(scores)

# %% [markdown]
# ## Train
# A few steps more on your own labels, which begin with `ward`: [configs/few.yaml](../configs/few.yaml). The daemon runs the job.

# %%
with open(f"{CLONE}/configs/few.yaml", encoding="utf-8") as f:
    job_file = jobs_pb2.JobFile(yaml=f.read(), name="few.yaml", overrides=[f"data.source=file://{folder}", f"training.max_steps={STEPS}"])
ENDED = jobs_pb2.JOB_STATE_SUCCEEDED, jobs_pb2.JOB_STATE_FAILED, jobs_pb2.JOB_STATE_CANCELLED, jobs_pb2.JOB_STATE_INTERRUPTED
with brr.connect() as daemon:
    job = daemon.call("/brr.v1.Jobs/Submit", jobs_pb2.SubmitRequest(file=job_file), jobs_pb2.SubmitResponse).job
    while job.state not in ENDED:
        time.sleep(0.2)
        job = daemon.call("/brr.v1.Jobs/Get", jobs_pb2.GetJobRequest(id=job.id), jobs_pb2.Job)
if job.state != jobs_pb2.JOB_STATE_SUCCEEDED:
    raise RuntimeError(f"{job.id}: {job.reason}")
print(job.id, job.checkpoint)

# %% [markdown]
# ## Compare
# On the recording that it has learned from, so that this is no measure of what the model is worth: for that, score recordings of other patients.

# %%
again = brr.Detector(job.checkpoint).detect(recording)
scores[job.id] = score(again)
for name, s in scores.items():
    print(f"{name}: sensitivity {s['sensitivity']}, precision {s['precision']}, false alarms per 24 h {s['false_alarms_per_24h']}")

# %% [markdown]
# ## Figure

# %%
curves, axis = plt.subplots(figsize=(10, 3), layout="constrained")
for name, results in (("ward", found), (job.id, again)):
    axis.plot(np.arange(len(results.probabilities)) / 256, results.probabilities, label=name)
for label in labels:
    axis.axvspan(label["onset"], label["onset"] + label["duration"], color="#c98a00", alpha=0.2)
axis.set(xlabel="s", ylabel="probability", ylim=(-0.02, 1.02), title="Labelled seizures are shaded")
axis.legend()
curves.savefig(f"{OUT}/probabilities.png")
print(f"pictures in {OUT}")

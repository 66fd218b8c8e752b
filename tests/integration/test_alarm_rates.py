#!/usr/bin/env python3
"""Alarms by a rate of false alarms: a training and tune write the rules into the model file, streams use the one that is asked for,
whatever the chunks, and say which thresholds it has; models without a rule for a rate are refused with what to do; alarms of a model
that is tuned are those that the report of the evaluation counted."""
import glob
import json
import os
import shutil
import sys

from daemon import SOURCE
from stream_fixture import metadata, streaming_daemon, with_metadata

RATE = 256
RULE = {"off": 0.0002, "min_onset": 64, "min_offset": 128, "alarm_hop_s": 2, "hours": 1, "seizures": 2, "patients": 2}


def stream(d, recording, model, *args, code=0):
    """The summary (or the errors), and the alarms with on and off in seconds."""
    out = f"{d.dir}/bed_events.tsv"
    got, text, err = d.ctl("stream", recording, "--model", model, "--out", out, "--json", *args)
    assert got == code, (text, err)
    if code:
        return text + err, []
    with open(f"{d.dir}/bed_alarms.tsv", encoding="utf-8") as f:
        rows = [line.split("\t") for line in f.read().splitlines()[1:]]
    return json.loads(text.splitlines()[-1]), [(float(r[0]), float(r[0]) + float(r[1])) for r in rows if r[2] == "alarm"]


def crafted(d, recording, model):
    """A model with rules for 5 and 10: one that any trace satisfies and one that none does."""
    rules = [{**RULE, "rate": 5, "on": 0.0002, "latch": 20 * RATE, "false_alarms_high": 88.5}, {**RULE, "rate": 10, "on": 0.9999, "latch": 0, "false_alarms_high": 72}]

    def change(pairs):
        pairs["brr.alarms"] = json.dumps(rules)
    model = with_metadata(model, f"{d.dir}/rules.safetensors", change)
    code, text, err = d.ctl("models", model, "--json")
    shown = json.loads(text)
    assert code == 0 and (shown["alarm_rates"], shown["alarm_hours"], shown["alarm_false_high"]) == ([5, 10], 1, [88.5, 72]), (text, err)
    assert "by --alarm-rate 5, 10 (false alarms in 24 h), chosen on 1 h; at 95 % fewer than 88.5, 72" in d.ctl("models", model)[1]
    end, alarms = stream(d, recording, model, "--alarm-rate", "5")
    assert (end["alarm_threshold_on"], end["alarm_threshold_off"]) == (0.0002, 0.0002) and end["threshold_on"] > 0.0002, end
    assert alarms and end["alarms"] == len(alarms), (end, alarms)
    assert alarms[0][0] >= 0 and all(b - a >= 19.99 or b > end["duration_s"] - 0.1 for a, b in alarms), alarms
    again, other = stream(d, recording, model, "--alarm-rate", "5", "--chunk-samples", "97")
    assert other == alarms and again["highest_alarm_probability"] == end["highest_alarm_probability"]
    hop, _ = stream(d, recording, model, "--alarm-rate", "5", "--alarm-hop", "2")
    assert hop["alarms"] == end["alarms"] and hop["windows"] == end["windows"], "the rule's own interval is the default"
    end, alarms = stream(d, recording, model, "--alarm-rate", "10")
    assert not alarms and end["alarm_threshold_on"] == 0.9999 > end["highest_alarm_probability"] > 0, end
    code, text, err = d.ctl("stream", recording, "--model", model, "--alarm-rate", "10")
    assert code == 0 and "alarms     none; the highest probability" in text and "an alarm begins at 1" in text, (text, err)
    text, _ = stream(d, recording, model, "--alarm-rate", "1", code=1)
    assert "no alarm thresholds for 1 false alarms per 24 h, only for 5, 10" in text, text
    text, _ = stream(d, recording, model, "--alarm-rate", "2", code=2)
    for rate, rings in (("5", True), ("10", False)):
        code, end, err = d.submit(f"evaluate.checkpoint={model}", f"data.source=file://{d.dir}/eeg", "evaluate.plots=0", f"evaluate.alarm_rate={rate}",
                                  file=f"{SOURCE}/configs/eval.yaml")
        assert code == 0 and (end["result"]["alarm_sensitivity"] > 0) == rings, (rate, end, err)
    code, text, err = d.ctl("stream", recording, "--model", "line_length", "--alarm-rate", "5")
    assert code == 1 and "no alarm thresholds" in err and 'brrd_rpc_errors_total{' in d.ctl("metrics", "brrd_rpc_errors")[1], err
    assert 'reason="ALARM_RULE_MISSING"' in d.ctl("metrics", "brrd_rpc_errors")[1] and "MONTAGE_MISMATCH" not in d.ctl("metrics", "brrd_rpc_errors")[1]
    code, text, err = d.ctl("detect", recording, "--model", model, "--alarm-rate", "5", "--out", f"{d.dir}/detected")
    assert code == 0, (text, err)
    with open(f"{d.dir}/detected/{os.path.basename(recording).replace('_eeg.edf', '_alarms.tsv')}", encoding="utf-8") as f:
        assert f.read().count("\talarm\t") == len(other), "detect has the alarms of stream"


def tuned(d, recording, model):
    out = f"{d.dir}/tuned.safetensors"
    code, text, err = d.ctl("tune", model, f"{d.dir}/eeg", "--out", out, "--alarm-hop", "2", "--alarm-latch", "15", "--json")
    assert code == 0, (text, err)
    sets = json.loads(text.splitlines()[-1])["alarm_sets"]
    assert [s["rate"] for s in sets] == sorted(s["rate"] for s in sets) and {s["rate"] for s in sets} <= {1, 5, 10}
    assert json.loads(metadata(out).get("brr.alarms", "[]")) == sets
    for s in sets:
        assert s["false_alarms_low"] <= s["false_alarms_per_24h"] <= min(s["rate"], s["false_alarms_high"]), s
        assert 0 < s["sensitivity_low"] <= s["sensitivity"] <= s["sensitivity_high"] <= 1 and s["latch"] == 15 * RATE, s
        end, alarms = stream(d, recording, out, "--alarm-rate", f"{s['rate']:g}")
        assert (end["alarm_threshold_on"], end["alarm_threshold_off"]) == (s["on"], s["off"]), (end, s)
        assert all(b - a >= 14.99 or b > end["duration_s"] - 0.1 for a, b in alarms), alarms
    code, text, err = d.ctl("tune", model, f"{d.dir}/eeg", "--out", f"{d.dir}/again.safetensors", "--alarm-hop", "2")
    assert code == 0 and ("--alarm-rate" in text) == bool(sets) and "test them on other patients" in text, (text, err)
    code, text, err = d.ctl("tune", out, f"{d.dir}/eeg", "--out", f"{d.dir}/none.safetensors", "--alarm-hop", "0")
    assert code == 0 and "brr.alarms" not in metadata(f"{d.dir}/none.safetensors"), (text, err)
    text, _ = stream(d, recording, f"{d.dir}/none.safetensors", "--alarm-rate", "5", code=1)
    assert "brrctl tune" in text, text
    return sets


def early(d):
    """Where all alarms come before their seizures, no delay is known: "-" in the table, null in JSON."""
    for path in glob.glob(f"{d.dir}/eeg/**/*_events.tsv", recursive=True):
        os.makedirs(os.path.dirname(path).replace("/eeg", "/early"))
        shutil.copy(path.replace("_events.tsv", "_eeg.edf"), os.path.dirname(path).replace("/eeg", "/early"))
        with open(path, encoding="utf-8") as f:
            head, *rows = [line.split("\t") for line in f.read().splitlines()]
        with open(path.replace("/eeg/", "/early/"), "w", encoding="utf-8") as f:
            f.write("\n".join("\t".join(row) for row in [head, *([f"{float(a) + float(b) - 1}", "1", *more] for a, b, *more in rows)]) + "\n")
    words = ("tune", "line_length", f"{d.dir}/early", "--out", f"{d.dir}/early.safetensors")
    delays = [s["delay_p50_s"] for s in json.loads(d.ctl(*words, "--json")[1].splitlines()[-1])["alarm_sets"]]
    text = d.ctl(*words)[1]
    assert None in delays and text.count("  -\n") == delays.count(None) and "nan" not in text, (delays, text)


def by_rule(d, sets):
    """An evaluation by the model's rules has, on the recordings that they were chosen on, what the model says of them."""
    for s in sets:
        code, end, err = d.submit(f"evaluate.checkpoint={d.dir}/tuned.safetensors", f"data.source=file://{d.dir}/eeg", "evaluate.plots=0",
                                  f"evaluate.alarm_rate={s['rate']:g}", file=f"{SOURCE}/configs/eval.yaml")
        assert code == 0, err
        assert (end["result"]["alarm_sensitivity"], end["result"]["alarm_false_alarms_per_24h"]) == (s["sensitivity"], s["false_alarms_per_24h"]), (end, s)
    code, end, err = d.submit(f"evaluate.checkpoint={d.dir}/none.safetensors", f"data.source=file://{d.dir}/eeg", "evaluate.alarm_rate=5",
                              file=f"{SOURCE}/configs/eval.yaml")
    assert code and "no alarm thresholds" in end["reason"] + err, (end, err)


def evaluated(d, model):
    """The report names the sets; its picture the delays."""
    job = f"{d.dir}/eval.yaml"
    with open(job, "w", encoding="utf-8") as f:
        f.write("kind: evaluate\n")
    code, end, err = d.submit(f"evaluate.checkpoint={model}", f"data.source=file://{d.dir}/eeg", file=job)
    assert code == 0, err
    folder = f"{d.dir}/results/jobs/{end['job']}"
    with open(f"{folder}/report.json", encoding="utf-8") as f:
        report = json.load(f)
    assert report["alarm_sweep"]["sets"] == end["result"]["alarm_sets"] and len(report["alarm_sweep"]["points"]) >= 10
    with open(f"{folder}/operating.svg", encoding="utf-8") as f:
        assert ">alarms, as the model is set<" in f.read()


def main():
    with streaming_daemon() as (d, recording, model):
        crafted(d, recording, model)
        by_rule(d, tuned(d, recording, model))
        evaluated(d, model)
        early(d)
    return 0


if __name__ == "__main__":
    sys.exit(main())

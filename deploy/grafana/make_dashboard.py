#!/usr/bin/env python3
"""Writes brrd.json, the dashboard that Grafana imports, from the table of panels below.

    deploy/grafana/make_dashboard.py > deploy/grafana/brrd.json

An expression says {} where the selector of the chosen daemons goes, and {label="x"} where it has labels of its own."""
import json
import re
import sys

RATE = "[$__rate_interval]"


def quantile(q, family, by="le"):
    return f"histogram_quantile({q}, sum by ({by}) (rate({family}_bucket{{}}{RATE})))"


def rate(family, by="", labels="{}"):
    inner = f"rate({family}{labels}{RATE})"
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


# title, unit, kind, [(expression, legend)], what it shows. Kinds: stat, line, stack.
ROWS = [
    ("Overview", [
        ("Daemons that answer", "none", "stat", [("count(brrd_build_info{})", "")], "Daemons that Prometheus scrapes now."),
        ("Ready", "bool_yes_no", "stat", [("min(brrd_ready{})", "")], "Whether every component of every daemon is ready."),
        ("Beds", "none", "stat", [("sum(brrd_stream_sessions{})", "")], "Open streams."),
        ("Beds without client", "none", "stat", [("sum(brrd_stream_sessions_parked{})", "")], "Streams whose client is away and may come back."),
        ("Result lag, p99", "s", "stat", [(quantile(0.99, "brrd_stream_result_lag_seconds"), "")],
         "Time from the newest sample of a window to its result."),
        ("Running jobs", "none", "stat", [('sum(brrd_jobs{state=~"running|preparing"})', "")], "Jobs at work."),
        ("Queued jobs", "none", "stat", [('sum(brrd_jobs{state="queued"})', "")], "Jobs that wait."),
        ("Failed jobs", "none", "stat", [('sum(brrd_jobs{state="failed"})', "")], "Failed jobs that are still listed."),
    ]),
    ("Streams", [
        ("Beds", "none", "line", [("sum by (instance) (brrd_stream_sessions{})", "open {{instance}}"),
                                  ("sum by (instance) (brrd_stream_sessions_parked{})", "client away {{instance}}")],
         "Open streams, and those whose client is away."),
        ("Result lag", "s", "line", [(quantile(q, "brrd_stream_result_lag_seconds"), f"p{round(100 * q)}") for q in (0.5, 0.95, 0.99)],
         "Time from the newest sample of a window to its result, live streams only."),
        ("Seizure events per hour", "none", "stack", [("sum by (model) (increase(brrd_stream_seizure_events_total{}[1h])) or vector(0)", "{{model}}")],
         "Events found in streams within the last hour."),
        ("Ended and resumed streams", "none", "line",
         [("sum by (reason) (increase(brrd_stream_sessions_closed_total{}[1h]))", "ended: {{reason}}"),
          ("sum by (result) (increase(brrd_stream_resumes_total{}[1h])) or vector(0)", "came back: {{result}}")],
         "Streams that ended, and clients that came back, within the last hour."),
        ("Samples", "short", "line", [(rate("brrd_stream_samples_received_total", "model"), "received: {{model}}"),
                                      (rate("brrd_stream_samples_lost_total", "cause") + " or vector(0)", "lost: {{cause}}")],
         "Samples per second and channel, received and lost."),
        ("Waiting for the device", "bytes", "line", [("sum by (instance) (brrd_stream_buffered_bytes{})", "{{instance}}")],
         "Samples of streams that the device has not computed yet."),
        ("Windows", "none", "stack", [(rate("brrd_inference_windows_total", "model,result"), "{{model}} {{result}}")],
         "Windows of streams per second."),
        ("Duration of a batch of windows", "s", "line",
         [(quantile(q, "brrd_inference_compute_duration_seconds"), f"p{round(100 * q)}") for q in (0.5, 0.99)],
         "Time that the device computes for windows that run together."),
    ]),
    ("Jobs", [
        ("Jobs by state", "none", "stack", [("sum by (state) (brrd_jobs{})", "{{state}}")], "All jobs that are listed."),
        ("Optimizer steps per second", "none", "line", [(rate("brrd_train_steps_total", "instance"), "{{instance}}")],
         "Speed of the running training."),
        ("Training loss", "none", "line", [("brrd_train_loss{}", "{{job_id}}")], "Running loss of each training job."),
        ("Finished attempts", "none", "stack", [("sum by (outcome) (increase(brrd_jobs_finished_total{}[1h])) or vector(0)", "{{outcome}}")],
         "Jobs that ended within the last hour, by outcome."),
    ]),
    ("Calls", [
        ("Calls per second", "reqps", "stack", [(rate("brrd_rpc_requests_total", "code"), "{{code}}")], "Finished calls by status."),
        ("Duration of calls, p99", "s", "line", [(quantile(0.99, "brrd_rpc_duration_seconds", "le,method"), "{{method}}")],
         "Streams and watches count with their whole life."),
        ("Calls in progress", "none", "stack", [("sum by (method) (brrd_rpc_in_flight{})", "{{method}}")], "Open calls by method."),
        ("Refused callers per minute", "none", "stack", [("sum by (reason) (rate(brrd_auth_failures_total{}" + RATE + ")) * 60", "{{reason}}")],
         "Callers and connections that were refused."),
    ]),
    ("Storage", [
        ("Free space", "bytes", "line", [("brrd_volume_free_bytes{}", "{{volume}} {{instance}}")], "Volumes of paths.cache and paths.results."),
        ("Used share of the volumes", "percentunit", "line",
         [("1 - brrd_volume_free_bytes{} / brrd_volume_size_bytes{}", "{{volume}} {{instance}}")], "Volumes of paths.cache and paths.results."),
        ("Windows of recordings", "none", "stack",
         [("sum by (result) (increase(brrd_window_cache_requests_total{}[1h]))", "{{result}}")],
         "Recordings whose windows were in the cache (hit) or had to be computed (miss), within the last hour."),
        ("S3 requests per second", "reqps", "stack", [(rate("brrd_s3_requests_total", "op,code") + " or vector(0)", "{{op}} {{code}}")],
         "Requests to S3 servers by status."),
    ]),
    ("Process", [
        ("Processors in use", "none", "line", [(rate("process_cpu_seconds_total", "instance"), "{{instance}}")],
         "CPU seconds per second of the daemon."),
        ("Memory", "bytes", "line", [("process_resident_memory_bytes{}", "{{instance}}")], "Resident memory of the daemon."),
        ("Warnings and errors per hour", "none", "stack",
         [('sum by (level) (increase(brrd_log_messages_total{level=~"warn|error"}[1h]))', "{{level}}")], "Lines of the daemon's log."),
        ("Versions", "none", "line", [("sum by (version, revision) (brrd_build_info{})", "{{version}} {{revision}}")],
         "Daemons by version, which shows an upgrade."),
    ]),
    ("Spiking networks", [
        ("Ticks per second", "none", "line", [(rate("brrd_burst_ticks_total", "instance"), "{{instance}}")], "Of jobs and of networks made by calls."),
        ("Networks", "none", "line", [("sum by (instance) (brrd_burst_networks{})", "{{instance}}")], "Networks made by calls."),
    ]),
    ("Geodesics", [
        ("Loss", "none", "line", [("brrd_geodesic_loss{}", "{{job_id}}")], "Mean squared error of the last epoch, over all models of a job."),
        ("Paths per second", "none", "line", [("brrd_geodesic_paths_per_second{}", "{{job_id}}")], "Geodesics that a running job computes."),
        ("Convergence", "percentunit", "line", [("brrd_geodesic_converged_ratio{}", "{{job_id}}")], "Paths that end where they should; all of them in closed form."),
        ("Stability", "none", "line", [("brrd_geodesic_gradient_norm{}", "{{job_id}} gradient norm"), ("brrd_geodesic_quadrature_nodes{}", "{{job_id}} nodes in a cell")],
         "The largest gradient of a model, and how finely the steepest metric is integrated (4 to 8)."),
    ]),
    ("GPU", [
        ("Utilization", "percentunit", "line", [("brrd_gpu_utilization_ratio{}", "{{instance}} gpu {{gpu}}")], "Share of time in which a kernel ran."),
        ("Memory in use", "percentunit", "line",
         [("brrd_gpu_memory_used_bytes{} / brrd_gpu_memory_total_bytes{}", "{{instance}} gpu {{gpu}}")], "By all processes."),
        ("Temperature", "celsius", "line", [("brrd_gpu_temperature_celsius{}", "{{instance}} gpu {{gpu}}")], "Of the chip."),
        ("Power", "watt", "line", [("brrd_gpu_power_watts{}", "{{instance}} gpu {{gpu}}")], "Power draw."),
        ("Memory errors", "none", "line", [("brrd_gpu_ecc_errors_total{}", "{{instance}} gpu {{gpu}} {{kind}}")],
         "Since the driver was loaded or the GPU was reset."),
        ("Slowed clocks", "none", "stack", [('brrd_gpu_clocks_slowed{reason!="idle"}', "{{instance}} gpu {{gpu}} {{reason}}")],
         "1 while the reason slows the clocks."),
    ]),
]

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
CHOSEN = 'instance=~"$instance"'
STEPS = {"Ready": [(None, "red"), (1, "green")], "Failed jobs": [(None, "green"), (1, "red")], "Result lag, p99": [(None, "green"), (5, "yellow"), (15, "red")],
         "Beds without client": [(None, "green"), (1, "yellow")]}


def select(expression):
    """Puts the chosen daemons into each selector."""
    return re.sub(r"(?<=[a-z_])\{([^}]*)\}", lambda m: "{" + ", ".join(filter(None, [CHOSEN, m[1]])) + "}", expression)


def panel(identity, title, unit, kind, queries, text, x, y, w, h):
    steps = [{"color": color, "value": value} for value, color in STEPS.get(title, [(None, "green")])]
    defaults = {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}, "color": {"mode": "thresholds" if kind == "stat" else "palette-classic"}}
    if kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "value", "graphMode": "area", "textMode": "value",
                   "justifyMode": "auto", "orientation": "auto"}
    else:
        options = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}, "tooltip": {"mode": "multi", "sort": "desc"}}
        stacked = kind == "stack"
        defaults["custom"] = {"lineWidth": 1, "fillOpacity": 25 if stacked else 5, "showPoints": "never", "stacking": {"mode": "normal" if stacked else "none",
                              "group": "A"}}
        defaults["min"] = 0
    return {"id": identity, "type": "stat" if kind == "stat" else "timeseries", "title": title, "description": text, "datasource": SOURCE,
            "gridPos": {"h": h, "w": w, "x": x, "y": y}, "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options,
            "targets": [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": select(e), "legendFormat": legend or "__auto"}
                        for i, (e, legend) in enumerate(queries)]}


def panels():
    identity, y = 0, 0
    for name, members in ROWS:
        identity += 1
        yield {"id": identity, "type": "row", "title": name, "collapsed": False, "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}, "panels": []}
        y += 1
        stats = members[0][2] == "stat"
        columns, height = (8, 4) if stats else (4 if len(members) % 4 == 0 else 3 if len(members) % 3 == 0 else 2, 8)
        for i, (title, unit, kind, queries, text) in enumerate(members):
            identity += 1
            yield panel(identity, title, unit, kind, queries, text, (i % columns) * 24 // columns, y + i // columns * height, 24 // columns, height)
        y += -(-len(members) // columns) * height


def dashboard():
    variables = [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0, "refresh": 1, "multi": False,
                  "includeAll": False, "options": []},
                 {"name": "instance", "label": "Daemon", "type": "query", "datasource": SOURCE, "query": "label_values(brrd_build_info, instance)",
                  "hide": 0, "refresh": 2, "sort": 1, "multi": True, "includeAll": True,
                  "allValue": ".*", "options": [], "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}]
    return {"title": "brrd", "description": "Beds, jobs, calls, volumes and GPUs of the EEG daemon brrd.", "tags": ["eeg", "brrd"], "uid": "brrd-overview",
            "schemaVersion": 39, "version": 1, "editable": True, "graphTooltip": 1, "timezone": "browser", "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"}, "templating": {"list": variables}, "annotations": {"list": []}, "links": [], "panels": list(panels())}


def text():
    """The dashboard as JSON, one panel a line."""
    whole = dashboard()
    members = ",\n  ".join(json.dumps(p, ensure_ascii=False) for p in whole.pop("panels"))
    return json.dumps(whole, indent=1, ensure_ascii=False)[:-2] + f',\n "panels": [\n  {members}\n ]\n}}\n'


if __name__ == "__main__":
    sys.stdout.write(text())

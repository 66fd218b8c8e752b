#!/usr/bin/env python3
"""The pages in a real browser: with no stream, a few and two hundred; an alarm that a seizure raises is on the open page at once, sounds,
is acknowledged and noted there, which ends its escalation, and is in the journal with its answers after kill -9; no message in the console, no request to another host, valid HTML, a page without script, by keyboard, behind
a login. Screenshots lie in build/pages; with BRR_PAGE_PICTURES set to a folder, those of docs/ are made there, which takes a minute more."""
import csv
import http.client
import json
import os
import re
import shutil
import sqlite3
import ssl
import subprocess
import sys
import time

import numpy

from chromium import Chromium
from daemon import BIN, MINI, PATIENCE, SOURCE, make_corpus, temporary, until
from npm import npm_modules, skip
from page_beds import Bed, held, traces, write_holes
from secured import Secured
from test_alarm_hooks import script
from test_answers import Ward, rows, steps, steps_when_told

HERE = os.path.dirname(os.path.abspath(__file__))
SHOTS = f"{os.environ['BRR_BUILD_DIR']}/pages"
PICTURES = os.environ.get("BRR_PAGE_PICTURES")
TILES = "document.querySelectorAll('#tiles > .tile').length"


class Pages:
    """The daemon's pages in the browser, each validated as HTML at the end."""

    def __init__(self, browser, d):
        self.browser, self.d, self.base = browser, d, f"http://127.0.0.1:{d.port}"

    def get(self, path, method="GET", **headers):
        c = http.client.HTTPConnection("127.0.0.1", self.d.port, timeout=PATIENCE)
        c.request(method, path, headers={"Accept": "text/html", **headers})
        answer = c.getresponse()
        body = answer.read()
        c.close()
        return answer.status, dict(answer.getheaders()), body

    def ask(self, path, method="GET", **headers):
        status, headers, body = self.get(path, method, **headers)
        return status, headers, body.decode()

    def keep(self, path, name):
        status, _, body = self.ask(path)
        assert "&lt;" not in body, f"{path}: markup of its own was filled in as text"
        with open(f"{SHOTS}/{name}.html", "w", encoding="utf-8") as f:
            f.write(body)
        return status

    def open(self, path, name, picture=None, whole=False):
        assert self.keep(path, name) == 200, path
        self.browser.open(self.base + path)
        if not path.startswith("/jobs/"):  # the first event has come
            self.browser.wait("document.getElementById('alarms').dataset.key !== undefined")
        self.browser.screenshot(f"{SHOTS}/{name}.png", whole=whole)
        if PICTURES and picture:
            self.browser.screenshot(f"{PICTURES}/{picture}.png")


def check_empty(p):
    for path, name in (("/", "overview-0"), ("/jobs", "jobs-0"), ("/models", "models-0"), ("/streams", "streams-0")):
        p.open(path, name)
    assert "Not connected" in p.browser.run("document.body.innerText")


def check_headers(p):
    status, headers, body = p.ask("/streams")
    assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"] and headers["Cache-Control"] == "no-store", headers
    assert headers["X-Content-Type-Options"] == "nosniff" and "unsafe" not in headers["Content-Security-Policy"]
    head = p.ask("/streams", "HEAD")
    assert head[0] == 200 and head[2] == "" and abs(int(head[1]["Content-Length"]) - len(body.encode())) < 64
    status, headers, _ = p.ask("/assets/page.css")
    assert status == 200 and p.ask("/assets/page.css", **{"If-None-Match": headers["ETag"]})[::2] == (304, "")
    assert p.ask("/streams/0123")[0] == p.ask("/jobs/none")[0] == p.ask("/jobs/none/x.svg")[0] == p.keep("/nowhere", "not-found") == 404
    for path in ("/jobs/../../etc/passwd.svg", "/jobs/x/..%2f..%2fjobs.sqlite", "/streams/%00", "/jobs/" + "x" * 2000):
        assert p.ask(path)[0] in (400, 404), path
    assert p.ask("/", "POST")[0] == p.ask("/", "DELETE")[0] == 405
    assert p.ask("/login", "POST")[0] == 404  # nobody needs to sign in here
    for origin in ("http://evil.example", "null"):
        assert p.ask("/alarms", "POST", Origin=origin)[0] == 403, origin
    assert p.ask("/alarms", "POST", Origin=p.base)[0] == 400
    assert p.ask("/", Accept="*/*")[2].startswith("brrd ")


def check_alarm(p, beds):
    """The page was opened before the seizure; it hears of the alarm by itself."""
    browser = p.browser
    browser.run("""(() => { const look = () => { if (document.querySelector('.tile[data-mood=alarm]') && !window.seen) window.seen = Date.now(); };
        new MutationObserver(look).observe(document.body, {subtree: true, childList: true, attributes: true}); look(); })()""")
    beds[1].seizure.set()
    browser.wait("window.seen")
    assert beds[1].alarm.wait(PATIENCE), beds[1].error
    delay = browser.run("window.seen") / 1000 - beds[1].alarm_at
    names = "Array.from(document.querySelectorAll('.tile h2')).map(h => h.textContent).join()"
    assert browser.run(names) == "bed-1,bed-3,bed-7,bed-12", browser.run(names)  # each in its place
    assert browser.run("document.querySelector('.tile[data-mood=alarm] h2').textContent") == "bed-12"
    assert browser.run("document.getElementById('alarms').textContent") == "Alarm bed-12 " and browser.run("document.title").startswith("(1) ")
    return delay


def check_eeg(p, beds):
    """From the alarm to the EEG of its onset with one click; a bed shows what came within the last moments; it fits a phone."""
    browser, viewer = p.browser, "document.getElementById('eeg').viewer"
    p.open("/alarms", "alarms-open")
    click(browser, "#list-open a[href*='?t=']")
    browser.wait(f"location.hash === '#eeg' && {viewer}.head && {viewer}.end !== null && {viewer}.query().from >= {viewer}.head.kept[1]")
    shown = browser.run(f"(v => [v.head.marks.find(m => m.kind === 'alarm_on').first, v.end - v.length(), v.end, v.view.montage])({viewer})")
    assert shown[1] + 5 * 256 < shown[0] < shown[2], shown
    for dark in (False, True):
        for width in (1280, 768, 390):
            browser.size(width, 844, dark=dark, phone=width < 600)
            browser.run(f"{viewer}.box.querySelector('details').open = {str(width > 600).lower()}")
            browser.wait(f"{viewer}.canvas.clientWidth && {viewer}.canvas.width === {viewer}.canvas.clientWidth")
            browser.screenshot(f"{SHOTS}/eeg-{width}{'-dark' if dark else ''}.png")
            assert browser.run("document.documentElement.scrollWidth <= innerWidth"), width
    browser.size(1280, 900 if PICTURES else 800)
    if PICTURES:
        browser.run(f"{viewer}.box.querySelector('details').open = true")
        browser.wait(f"{viewer}.canvas.width === {viewer}.canvas.clientWidth")
        browser.screenshot(f"{PICTURES}/page-eeg.png")
    browser.run(f"{viewer}.canvas.focus()")
    for key in ("l", "[", "]", "+", "-", "p", "n", "ArrowLeft", "PageUp", "Home", "End"):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key)
    assert browser.run(f"{viewer}.end === null && {viewer}.view.seconds === 10 && {viewer}.view.gain === 100")
    n = len(beds[1].sent)
    while len(beds[1].sent) == n:  # the next chunk leaves now
        time.sleep(0.01)
    begun, sent = time.time(), sum(chunk.shape[1] for chunk in beds[1].sent)
    browser.wait(f"{viewer}.head.kept[1] >= {sent} && {viewer}.missing({sent} - 256, {sent}) < 0")
    delay = time.time() - begun
    for seconds in (60, 120):  # samples, and extremes of pixels
        browser.run(f"{viewer}.choose('seconds', {seconds})")
        browser.wait(f"{viewer}.binned() === {str(seconds > 60).lower()} && ({viewer}.binned() ? {viewer}.bins && {viewer}.bins.n > 0 : {viewer}.missing({viewer}.first(), {viewer}.right()) < 0)")
        browser.screenshot(f"{SHOTS}/eeg-{seconds}-s.png")
    browser.run("localStorage.removeItem('eeg')")
    return delay


def check_three(p, beds):
    browser = p.browser
    browser.wait("notes.some(note => /^learning this patient, \\d+ s; F3 flat$/.test(note))")
    until(lambda: re.search(r"^bed-3 .* learning this patient, \d+ s, F3 flat", p.d.ctl("beds")[1], re.M))
    p.open("/streams", "streams-3")
    browser.wait(f"{TILES} === 4 && document.querySelector('.tile[data-mood=absent]') && document.querySelectorAll('.tile[data-mood=fine]').length === 2 && document.querySelector('.tile[data-mood=poor]')")
    states = {json.loads(line)["client"]: json.loads(line)["state"] for line in p.d.ctl("sessions", "--json")[1].splitlines()}
    assert states == {"bed-3": "poor", "bed-7": "fine", "bed-12": "fine"}, states  # those of the page
    # the script draws the last minute from events as the daemon writes it into the page
    browser.wait("fetch(location.href).then((answer) => answer.text()).then((text) => {"
                 " const lines = (root) => Array.from(root.querySelectorAll('.tile [data-f=minute]'), (path) => path.getAttribute('d')).join();"
                 " return lines(document).includes('L') && lines(document) === lines(new DOMParser().parseFromString(text, 'text/html')); })")
    if PICTURES:
        time.sleep(45)  # for the pictures: a minute of probability
    delay = check_alarm(p, beds)
    if PICTURES:
        time.sleep(8)
    seen = check_eeg(p, beds)
    p.open("/streams", "streams-alarm", "page-streams")
    browser.size(1280, 800, dark=True)
    p.open("/streams", "streams-alarm-dark", "page-streams-dark")
    browser.size(390, 800, phone=True)
    p.open("/streams", "streams-phone")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than a phone"
    assert browser.run("Array.from(document.querySelectorAll('.tile')).every(t => t.scrollWidth <= t.clientWidth)"), "a tile is narrower than what is in it"
    browser.size(1280, 960)
    browser.wait("document.querySelector('.tile[data-mood=alarm]')")
    session = browser.run("document.querySelector('.tile[data-mood=alarm]').id.slice(2)")
    p.open(f"/streams/{session}", "stream", "page-stream")
    text = browser.run("document.body.innerText")
    assert "On since " in text and "Escalated" in text, text  # calls push the row of its onset out of the journal's part
    poor = browser.run("fetch('/streams').then(a => a.text()).then(t => /id=\"s-(\\w+)\" data-mood=\"poor\"/.exec(t)[1])")
    p.open(f"/streams/{poor}", "stream-poor", whole=True)
    browser.size(1280, 800)
    return delay, seen


def click(browser, selector):
    browser.click(f"document.querySelector({json.dumps(selector)})")


def check_nurse(p):
    """A nurse hears the alarm, acknowledges it and writes a note: the sound ends, and nobody else is called."""
    browser, told = p.browser, f"{p.d.dir}/told"
    deadline = time.time() + PATIENCE
    while not steps(told):  # the hook of the escalation is told, since nobody has answered yet
        assert time.time() < deadline, p.d.read_log()[-2000:]
        time.sleep(0.1)
    p.open("/streams?wall", "streams-wall")
    assert browser.run("parseFloat(getComputedStyle(document.querySelector('.tile h2')).fontSize)") >= 70
    p.open("/streams", "streams-sound")
    for width in (980, 1296):  # three and four tiles in a row, each as narrow as a tile may be
        browser.size(width, 800)
        assert not (cut := browser.cut_tiles()), (width, cut)
    browser.size(1280, 800)
    click(browser, "#sound-on")
    browser.wait("document.getElementById('sound').dataset.state === 'on' && document.body.dataset.played === 'high'")
    other = browser.another()  # the screen at the other end of the ward
    other.open(p.base + "/streams?wall")
    other.wait("document.getElementById('sound').dataset.sound === 'high'")
    other.run("""new MutationObserver(() => { if (document.getElementById('sound').dataset.sound === 'none') window.quiet ||= Date.now(); })
        .observe(document.getElementById('sound'), {attributes: true})""")
    browser.run("addEventListener('click', () => { window.clicked = Date.now(); }, true)")
    click(browser, ".tile[data-mood=alarm] button[value=acknowledge]")
    browser.wait("document.querySelector('.tile[data-mood=alarm] .note').textContent.includes('acknowledged by')")
    browser.wait("document.getElementById('sound').dataset.sound === 'none'")
    other.wait("window.quiet")
    quiet_s = (other.run("window.quiet") - browser.run("window.clicked")) / 1000
    other.call("Page.close")
    n = steps_when_told(p.d, told, "pager")
    p.open("/alarms", "alarms")
    browser.run("document.querySelector('#list-open input[name=person]').value = 'Ana B'; document.querySelector('#list-open input[name=note]').value = 'turned on the side'")
    click(browser, "#list-open button[value=note]")
    browser.wait("document.getElementById('list-open').textContent.includes('“turned on the side”')")
    click(browser, "#list-open button[value=true]")
    browser.wait("document.querySelector('#list-open button[value=true]').getAttribute('aria-pressed') === 'true'")
    browser.size(390, 800, phone=True)
    p.open("/alarms", "alarms-phone", whole=True)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than a phone"
    browser.size(1280, 800)
    time.sleep(1.5)  # longer than alarms.repeat
    assert steps(told) == n, (n, lines_of(told))
    return quiet_s


def check_left_at_once(p):
    """A refused answer is told on the page. One whose page is left before the disk has it is given, and no message holds up the next page."""
    p.open("/alarms", "alarms-left")
    p.browser.point("document.querySelector('#list-open button[value=note]')")
    p.browser.run("""hand.stands = true; (button => {
        const top = () => button.getBoundingClientRect().top + scrollY, before = top();
        new MutationObserver(() => { window.moved = top() - before; }).observe(document.getElementById('refused'), {attributes: true});
    })(hand.over())""")
    p.browser.run("document.querySelector('#list-open input[name=note]').value = 'x'.repeat(5000)")
    click(p.browser, "#list-open button[value=note]")
    p.browser.wait("!document.getElementById('refused').hidden && document.getElementById('refused').textContent.startsWith('The answer was not taken: ')")
    assert abs(p.browser.run("moved")) < 0.1, "a press would be of another row"
    p.browser.run("hand.stands = false")
    with open(f"{p.d.dir}/hangs.new", "w", encoding="ascii") as f:
        f.write(os.path.realpath(f"{p.d.dir}/results") + "/journal.sqlite")
    os.rename(f"{p.d.dir}/hangs.new", f"{p.d.dir}/hangs")
    p.browser.run("document.querySelector('#list-open input[name=note]').value = 'the page was left'")
    click(p.browser, "#list-open button[value=note]")
    p.browser.open(p.base + "/models")
    os.remove(f"{p.d.dir}/hangs")
    deadline = time.time() + PATIENCE
    while not any("the page was left" in e["detail"] for e in rows(p.d, "answered")):
        assert time.time() < deadline, rows(p.d, "answered")
        time.sleep(0.1)


def lines_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def check_keyboard(p):
    browser = p.browser
    browser.open(p.base + "/streams")
    browser.wait("document.getElementById('alarms').textContent.includes('bed-12 acknowledged')")  # a line that is written again loses the focus
    found = []
    while "bed-12" not in found and len(found) < 20:  # the button for the sound is there until the sound is on
        for kind in ("rawKeyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        found.append(browser.run("document.activeElement.textContent"))
    assert found[0] == "Skip to the content" and "bed-12" in found and "Jobs" in found, found


def check_without_script(p):
    browser = p.browser
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.call("Page.navigate", url=p.base + "/streams")
    time.sleep(1)
    browser.screenshot(f"{SHOTS}/streams-no-script.png")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert "bed-12" in p.ask("/streams")[2] and "<noscript><meta http-equiv=\"refresh\"" in p.ask("/streams")[2]
    browser.open(p.base + "/streams")
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.screenshot(f"{SHOTS}/streams-print.png")
    browser.call("Emulation.setEmulatedMedia", media="")


def check_jobs(p, tmp, job):
    """Two trainings: sorted by their scores, and side by side after two ticks."""
    browser = p.browser
    code, end, err = p.d.submit(*MINI, f"data.source=file://{tmp}/eeg", "data.split.folds=2", "data.split.fold=2", "data.validation_fraction=0", "training.max_steps=10")
    assert code == 0, (end, err)
    browser.wait(f"fetch('/jobs').then(a => a.text()).then(t => t.includes('{end['job']}'))")  # pages show a picture of each second
    p.open("/jobs", "jobs")
    shown = "Array.from(document.querySelectorAll('table.jobs tbody tr')).map(r => [r.querySelector('input').name, r.querySelector('[data-l=fold]').textContent])"
    assert browser.run(shown) == [[end["job"], "2 of 2"], [job, ""]], browser.run(shown)
    click(browser, "th a[href$='sort=fold']")
    browser.wait("document.querySelector('th[aria-sort=ascending] a[href$=\"sort=-fold\"]')")
    click(browser, "th a[href$='sort=-fold']")
    browser.wait("document.querySelector('th[aria-sort=descending]')")
    assert p.keep("/jobs?sort=f1", "jobs-sorted") == 200
    for one in (job, end["job"]):
        click(browser, f"input[name='{one}']")
    click(browser, "form[action='/jobs'] button")
    browser.wait("location.search.includes('=on') && document.querySelectorAll('figure .curve.c1').length >= 2")
    text = browser.run("document.body.innerText")
    assert job in text and end["job"] in text and "data.split.fold=2" in text and "event f1" in text, text
    assert p.keep(f"/jobs?{job}=on&{end['job']}=on&none=on", "jobs-compared") == 200 and p.ask("/jobs?none=on")[0] == 404
    browser.screenshot(f"{SHOTS}/jobs-compared.png", whole=True)


def check_work(p, tmp, review, seizures):
    """A job's pages; it learns from what readers corrected, and the other recording as it is."""
    d = p.d
    shutil.copytree(f"{tmp}/eeg/sub-01", f"{review}{tmp}/eeg/sub-01")  # validates
    code, end, err = d.submit(*MINI, f"data.source=file://{review}", "data.validation_fraction=0.5", "training.max_steps=30", "training.validate_every=10")
    assert code == 0, err
    job, log = end["job"], d.ctl("logs", end["job"])[1]
    full = sum(8 * k >= onset and 8 * k + 16 <= end_s for onset, end_s in seizures for k in range(21))  # windows of 16 s, one each 8 s
    assert "training patients: sub-02" in log and f" {full} full" in log, (seizures, full, log)
    assert d.ctl("load", "ward", "demo")[0] == 0
    p.browser.size(1280, 960)
    p.open(f"/jobs/{job}", "job", "page-job", whole=True)
    complete = lambda: p.browser.run("Array.from(document.images).every(i => i.complete && i.naturalWidth)")
    # a picture that a busy machine does not draw within 3 s (READING_S) comes when the page is opened again
    until(lambda: complete() or p.browser.open(f"{p.base}/jobs/{job}"), "a picture is missing", pause_s=1)
    text = p.browser.run("document.body.innerText")
    assert "Definition" in text and "training.svg" in text and "validate_every" in text and "first step" in text, text
    p.browser.open(p.base + "/models")
    p.browser.wait("fetch('/models').then(a => a.text()).then(t => t.includes('share of seizure in training'))")  # it is loaded
    p.open("/models", "models", "page-models")
    p.browser.size(1280, 800)
    check_jobs(p, tmp, job)
    p.open("/", "overview", "page-overview")
    assert job in p.browser.run("document.body.innerText")


def drag(browser, selector, x_from, x_to):
    """In pixels from the left edge of the element, at the middle of its height."""
    at = browser.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect(); return [r.x, r.y + r.height / 2]; }})()")
    for kind, x in (("mousePressed", x_from), ("mouseMoved", (x_from + x_to) / 2), ("mouseMoved", x_to), ("mouseReleased", x_to)):
        browser.call("Input.dispatchMouseEvent", type=kind, x=at[0] + x, y=at[1], button="left", buttons=1, clickCount=1)


def readers_rows(path):
    """(onset, end, type, reader) of each row that a reader answered."""
    with open(path, encoding="utf-8") as f:
        rows_of = list(csv.DictReader(f, delimiter="\t"))
    return [(float(r["onset"]), round(float(r["onset"]) + float(r["duration"]), 2), r["eventType"], r["reader"], r["comment"]) for r in rows_of if r["reader"] != "n/a"]


def check_overlap(browser, page, path):
    """Two marks overlap; the answer about one of them is not the other's, and goes only when the reader says it twice."""
    said, choose = f"{page}.said.textContent", f"{page}.choose({page}.events().find(e => Math.abs(e.onset - ONSET) < .01))"
    browser.run(choose.replace("ONSET", "172"))
    click(browser, "form.answer button[value=accept]")
    browser.wait(f"{said}.startsWith('Saved: 172.00 to 178.00 s')")
    before = readers_rows(path)
    browser.run(choose.replace("ONSET", "176"))
    assert browser.run(f"[{page}.chosen.onset, {page}.chosen.end, {page}.form.querySelector('[value=withdraw]').disabled]") == [176, 179, True]
    click(browser, "form.answer button[value=reject]")
    browser.wait(f"{said}.includes('by Ana B from 172.00 to 178.00 s')")
    assert readers_rows(path) == before
    click(browser, "form.answer button[value=reject]")
    browser.wait(f"{said}.startsWith('Saved: 176.00 to 179.00 s is no seizure')")
    assert [row[:3] for row in readers_rows(path) if row[0] >= 172] == [(176, 179, "bckg")], readers_rows(path)


def check_answers(p, tmp):
    """A reader moves the end of a seizure, rejects an event, adds one; another one answers meanwhile; the label file has it all."""
    browser, viewer, page = p.browser, "document.getElementById('eeg').viewer", "document.getElementById('answers').answers"
    recording = f"{tmp}/eeg/sub-02/sub-02_run-01_eeg.edf"
    with open(recording.replace("_eeg.edf", "_events.tsv"), encoding="utf-8") as f:
        labels = f.read()
    with open(f"{tmp}/found.tsv", "w", encoding="utf-8") as f:
        f.write("onset\tduration\teventType\tconfidence\n3\t9.5\tsz\t0.55\n172\t6\tsz\t0.5\n176\t3\tsz\t0.5\n")
    code, url, err = p.d.ctl("view", recording, "--events", f"{tmp}/found.tsv")
    assert code == 0, err
    browser.open(url.strip())
    browser.wait(f"{page} && {page}.chosen && {viewer}.query() === null")
    assert browser.run(f"[{page}.chosen.onset, {page}.chosen.end]") == [3, 12.5]  # the first one without an answer
    browser.run(f"{page}.form.elements.reader.value = 'Ana <b>B</b>'; {page}.form.elements.comment.value = '<img src=x> eyes'")
    said = f"{page}.said.textContent"
    click(browser, "form.answer button[value=reject]")
    browser.wait(f"{said}.startsWith('Saved: 3.00 to 12.50 s is no seizure')")
    path = browser.run(f"{page}.file")
    assert path.endswith("/results/corrections/outside" + recording.replace("_eeg.edf", "_events.tsv")), path
    assert readers_rows(path) == [(3, 12.5, "bckg", "Ana <b>B</b>", "<img src=x> eyes")]
    assert browser.run("!document.querySelector('#answers b, #answers img') && document.getElementById('answers').textContent.includes('<img src=x> eyes')")
    browser.run(f"{viewer}.choose('seconds', 60); {viewer}.jump(1)")  # the seizure
    browser.wait(f"{page}.chosen.text === 'label sz' && {viewer}.query() === null")
    onset, end = browser.run(f"[{page}.chosen.onset, {page}.chosen.end]")
    browser.run(f"{viewer}.end = {viewer}.length() / 2 + {end} * {viewer}.rate(); {viewer}.changed()")
    x = browser.run(f"{page}.part.x({end} * {viewer}.rate())")
    drag(browser, "#eeg canvas", x, x - 160)
    moved = browser.run(f"{page}.chosen.end")
    assert onset < moved < end - 1, (onset, end, moved)
    browser.run(f"{page}.form.elements.type.value = 'sz_foc_ia_m_clonic'; {page}.form.elements.reader.value = 'Ana B'; {viewer}.canvas.focus()")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="a")
    browser.wait(f"{said}.includes('is sz_foc_ia_m_clonic')")
    assert readers_rows(path)[1:] == [(onset, moved, "sz_foc_ia_m_clonic", "Ana B", "n/a"), (moved, end, "bckg", "Ana B", "n/a")], readers_rows(path)
    for dark, width in ((False, 1280), (True, 1280), (False, 390), (True, 390)):
        browser.size(width, 844, dark=dark, phone=width < 600)
        browser.wait(f"{viewer}.canvas.width === {viewer}.canvas.clientWidth")
        browser.screenshot(f"{SHOTS}/answers-{width}{'-dark' if dark else ''}.png", whole=True)
        assert browser.run("document.documentElement.scrollWidth <= innerWidth"), width
    browser.size(1280, 800)
    # Another reader on another screen: about another event, which costs the first one nothing; then about the same one.
    review = f"{p.d.dir}/results/corrections"
    other = "fetch(location.pathname + '/answers', {method: 'POST', body: new URLSearchParams({seen: ANSWERS.revision, reader: 'Bo', action: 'ACTION', onset: FROM, end: TO})}).then(a => a.status)".replace("ANSWERS", page)
    assert browser.run(other.replace("ACTION", "unsure").replace("FROM", "20").replace("TO", "25")) == 200
    assert browser.run(other.replace("ACTION", "unsure").replace("FROM", "20").replace("TO", "25")) == 409  # it has seen nothing of its own
    browser.run(f"{page}.form.elements.new.click(); {page}.chosen.onset = 160; {page}.chosen.end = 170.25")
    click(browser, "form.answer button[value=accept]")
    browser.wait(f"{said}.startsWith('Saved: 160.00 to 170.25 s')")
    over = other.replace("ACTION", "reject").replace("FROM", "161").replace("TO", "162").replace(".then(a => a.status)", ".then(a => a.text().then(t => [a.status, t]))")
    status, text = browser.run(over)
    assert status == 409 and "160.00 to 170.25 s has the answer" in text and "by Ana B already" in text, (status, text)
    assert browser.run(over.replace("seen:", "replace: '1', seen:"))[0] == 200
    click(browser, "form.answer button[value=unsure]")
    browser.wait(f"{said}.includes('somebody else has answered')")
    click(browser, "form.answer button[value=withdraw]")
    browser.wait(f"{said}.includes('has no answer')")
    check_overlap(browser, page, path)
    for body, status in (("action=accept&onset=1&end=1e9", 400), ("action=accept&onset=nan&end=5", 400), ("action=add&onset=5&end=2", 400), ("action=add&onset=1&end=2&type=x", 400), ("x=" + "y" * 90000, 413),
                         ("action=add&onset=1&end=2&reader=a%0Ab", 400), ("action=add&onset=1&end=2&reader=%ff", 400), ("action=add&onset=1&end=2&comment=" + "z" * 300, 400), ("action=steal", 400)):
        seen = "&seen=' + PAGE.revision + '&reader=x".replace("PAGE", page) if "reader" not in body else "&seen=' + PAGE.revision + '".replace("PAGE", page)
        got = browser.run(f"fetch(location.pathname + '/answers', {{method: 'POST', headers: {{'Content-Type': 'application/x-www-form-urlencoded'}}, body: '{body}{seen}'}}).then(a => a.status)")
        assert got == status, (body[:60], got)
    log = p.d.read_log()
    for outcome, about, action, person in (("ok", path.partition("/corrections/")[2].replace("_events.tsv", "_eeg.edf"), "reject", '"Ana <b>B</b>"'), ("invalid_argument", "", "add", "x"), ("invalid_argument", "", "none", "none")):
        assert re.search(f'msg="audit" .* outcome={outcome} .* recording={about}.* action={action} person={person}', log), (outcome, about, action, person)
    for address in ("/recordings/../answers", "/recordings/%2e%2e%2f/answers", "/recordings//answers", "/recordings/" + "0" * 32 + "/answers"):
        assert p.ask(address)[0] == 404 and p.ask(address, "POST", Origin=p.base)[0] in (400, 404), address
    assert p.ask(url.strip().removeprefix(p.base) + "/answers", "POST", Origin="http://evil.example")[0] == 403
    exported = browser.run("fetch(document.querySelector('#answers a[download]').href).then(a => a.text())")
    with open(path, encoding="utf-8") as f:
        assert f.read() == exported
    with open(recording.replace("_eeg.edf", "_events.tsv"), encoding="utf-8") as f:
        assert f.read() == labels  # the recording's own
    assert os.path.samefile(path.replace("_events.tsv", "_eeg.edf"), recording)
    browser.errors[:] = [e for e in browser.errors if "status of 4" not in e]  # those that were asked for
    return review, [row[:2] for row in readers_rows(path) if row[2].startswith("sz")]


def check_recording(p, tmp):
    """The events of a model over a recording: the page goes from one to the next."""
    browser, viewer = p.browser, "document.getElementById('eeg').viewer"
    holes = write_holes(f"{tmp}/holes")
    playback = subprocess.Popen([f"{BIN}/brrctl", "stream", holes, "--model", "line_length", "--realtime", "8", "--as-live", "--client", "holes"],
                                env=p.d.env, stdout=subprocess.DEVNULL)
    code, url, err = p.d.ctl("view", f"{tmp}/eeg/sub-01/sub-01_run-01_eeg.edf", "--model", "line_length")
    assert code == 0, err
    assert p.keep(url.strip().removeprefix(p.base), "recording") == 200
    browser.open(url.strip())
    browser.wait(f"{viewer}.head && {viewer}.query() === null")
    marks = browser.run(f"{viewer}.head.marks.map(m => m.text)")
    assert "label sz" in marks and browser.run(f"{viewer}.probabilities.size > 5"), marks
    browser.run(f"{viewer}.jump(1)")
    browser.wait(f"{viewer}.query() === null && {viewer}.end > {viewer}.length()")
    browser.screenshot(f"{SHOTS}/recording.png")
    with open(f"{tmp}/detect.yaml", "w", encoding="utf-8") as f:
        json.dump({"kind": "detect", "data": {"source": f"file://{tmp}/eeg"}, "detect": {"model": "line_length"}}, f)
    code, out, err = p.d.ctl("submit", f"{tmp}/detect.yaml", "--watch", "--json")
    assert code == 0, err
    job = json.loads(out.splitlines()[-1])["job"]
    code, url, err = p.d.ctl("view", f"{tmp}/eeg/sub-02/sub-02_run-01_eeg.edf", "--events", f"job:{job}")
    assert code == 0 and p.keep(url.strip().removeprefix(p.base), "recording-job") == 200, err
    assert p.d.ctl("view", f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf", "--events", "job:none")[0] == 3
    with open(f"{tmp}/many.tsv", "w", encoding="utf-8") as f:
        f.write("onset\tduration\teventType\n" + "".join(f"{i / 10:.1f}\t0.05\tsz\n" for i in range(1100)))
    code, _, err = p.d.ctl("view", f"{tmp}/eeg/sub-02/sub-02_run-01_eeg.edf", "--events", f"{tmp}/many.tsv")
    assert code == 0 and "the page shows 1024 marks at most; 76 are left out" in err, err
    code, _, err = p.d.ctl("view", f"{SOURCE}/README.md")
    assert code == 1 and "README.md" in err, err
    check_held(p, holes, playback)


def check_held(p, recording, playback):
    """Samples that were not measured are hatched, in the EEG of a stream where they are in that of its recording."""
    browser, viewer = p.browser, "document.getElementById('eeg').viewer"
    code, url, err = p.d.ctl("view", recording)
    assert code == 0 and playback.wait(timeout=PATIENCE) == 0, err
    browser.open(p.base + "/streams")
    browser.wait("[...document.querySelectorAll('.tile h2')].some(h => h.textContent === 'holes')")
    stream = browser.run("[...document.querySelectorAll('.tile')].find(t => t.querySelector('h2').textContent === 'holes').id.slice(2)")
    for query in ("from=0&n=3840", "from=3840&n=3840", "from=0&n=5000&bin=50"):
        bed, file = (traces(p.get(f"{path}/eeg?{query}")[2]) for path in (f"/streams/{stream}", url.strip().removeprefix(p.base)))
        rows, wanted = bed[0]["rows"], dict(zip(file[0]["rows"], held(file[0])))
        assert all((shown == wanted[a] | wanted[b]).all() for (a, b), shown in zip((row.split("-") for row in rows), held(bed[0]))), (query, bed[0]["held"], file[0]["held"])
        if "bin" not in query:
            assert numpy.isnan(bed[1][held(bed[0])]).all() and numpy.isnan(file[1][held(file[0])]).all()
        if query == "from=0&n=3840":
            assert [span[:2] for span in file[0]["held"]] == [[263, 264], [768, 896], [1408, 1675], [1675, 2187], [2187, 2276]], file[0]["held"]
    for path in (f"{p.base}/streams/{stream}", url.strip()):
        browser.open(path)
        browser.wait(f"{viewer}.head")
        browser.run(f"{viewer}.choose('seconds', 15), {viewer}.go(15 * 256)")
        browser.wait(f"{viewer}.missing(0, 15 * 256) < 0 && {viewer}.said.textContent.endsWith('Hatched: held, not measured.')")
        assert browser.run(f"{viewer}.canvas.getAttribute('aria-label').endsWith('held, not measured.')")
        chain = browser.run(f"{viewer}.traces().findIndex(t => t[0] === 'F3-C3')")
        places = [(0, 2), (0, 3.1), (0, 5.8), (chain, 5.8), (0, 7.5), (chain, 9), (0, 11.5)]
        shares = browser.run(f"""(v => {{ let x; v.layers.push((c, at) => x = at.x); v.draw(); v.layers.pop();
            const copy = new OffscreenCanvas(v.canvas.width, v.canvas.height).getContext('2d', {{willReadFrequently: true}}); copy.drawImage(v.canvas, 0, 0);
            return {json.dumps(places)}.map(([row, s]) => {{ const d = copy.getImageData(x(s * 256), row * v.plan.row + 2, 12, v.plan.row - 4).data, n = d.length / 4;
                let k = 0; for (let i = 0; i < n; i++) k += '#' + [0, 1, 2].map(c => d[4 * i + c].toString(16).padStart(2, '0')).join('') === v.colours.line;
                return k / n; }}); }})({viewer})""")
        assert [share > 0.3 for share in shares] == [False, True, False, True, True, False, False], (path, places, shares)
        browser.run(f"{viewer}.choose('seconds', 120)")
        browser.wait(f"{viewer}.bins && {viewer}.plan.holds")
        browser.run("localStorage.removeItem('eeg')")
    browser.screenshot(f"{SHOTS}/held.png")


def check_many(p):
    """Two hundred streams come and go while the page is open."""
    browser = p.browser
    browser.open(p.base + "/streams")
    before = browser.run(TILES)
    load = subprocess.Popen([f"{BIN}/brr-load", "--model", "line_length", "--sessions", "200", "--connections", "4", "--seconds", "6", "--chunk-ms", "1000",
                             "--alarm-hop", "-1", "--no-resume"], env=p.d.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    browser.wait(f"{TILES} >= {before + 200}")
    p.open("/streams", "streams-200")
    assert p.keep("/", "overview-200") == 200
    assert load.wait(timeout=PATIENCE) == 0, load.stderr.read().decode()


def check_killed(p, beds):
    """The alarm outlives kill -9; the page says that it is old, and goes on after the start."""
    d, browser = p.d, p.browser
    browser.open(p.base + "/streams")
    browser.wait("document.getElementById('alarms').dataset.key !== undefined")
    d.kill()
    with sqlite3.connect(f"{d.dir}/results/journal.sqlite") as db:
        assert ("bed-12",) in db.execute("SELECT client FROM journal WHERE kind = 'alarm_on'").fetchall()
        answers = [detail for detail, in db.execute("SELECT detail FROM journal WHERE kind = 'answered' AND client = 'bed-12' ORDER BY id")]
        assert answers == ["acknowledge via page", "note via page by Ana B: turned on the side", "mark true via page by Ana B",
                           "note via page by Ana B: the page was left"], answers
    browser.wait("!document.getElementById('stale').hidden")
    browser.screenshot(f"{SHOTS}/streams-stale.png")
    for bed in beds:
        bed.close()
    d.start()
    browser.wait("document.getElementById('stale').hidden")
    browser.wait("document.querySelectorAll('.tile[data-mood=absent]').length === 3")  # the roster
    assert len(rows(d, "answered")) == 4


def check_proxy(d, context):
    """A proxy that signs people in: the name that it sends stands in answers, whatever the form says, and counts with its token alone."""
    tokens = {"sso": d.new_token("read", "sso", "--all", "--answer", "--proxy"), "nurse": d.new_token("read", "nurse", "--all", "--answer")}

    def ask(token, method, path, body=None, **headers):
        c = http.client.HTTPSConnection("127.0.0.1", d.port, context=context, timeout=PATIENCE)
        c.request(method, path, body, {"Authorization": f"Bearer {tokens[token]}", "Accept": "text/html", "Origin": f"https://127.0.0.1:{d.port}", **headers})
        answer = c.getresponse()
        return answer.status, answer.read().decode()

    ana = {"X-Forwarded-User": "ana@lab.example"}
    deadline = time.time() + PATIENCE
    while ask("sso", "GET", "/alarms", **ana)[0] == 401 or ask("nurse", "GET", "/alarms")[0] == 401:  # the tokens file is read again
        assert time.time() < deadline
        time.sleep(0.2)
    assert 'value="ana@lab.example" readonly' in ask("sso", "GET", "/alarms", **ana)[1]
    assert "ana@lab" not in ask("nurse", "GET", "/alarms", **ana)[1]
    standby = "bed=bed-1&standby=30&person=" + "Bob"
    assert ask("sso", "POST", "/alarms", standby)[0] == 403  # nobody was named
    assert ask("sso", "POST", "/alarms", standby, **ana, **{"x-forwarded-user": "bob@lab.example"})[0] == 403  # nor one of two
    assert ask("sso", "POST", "/alarms", standby, **ana)[0] == 303
    assert ask("nurse", "POST", "/alarms", standby.replace("bed-1", "bed-2"), **ana)[0] == 303
    details = {e["client"]: e["detail"] for e in map(json.loads, d.as_role("nurse", "journal", "--json")[1].splitlines()) if e["client"]}
    assert "by ana@lab.example" in details["bed-1"] and "by Bob" in details["bed-2"], details


def check_login(browser, tmp):
    d = Secured(f"{tmp}/secured", ["beds=[bed-1, bed-2]"], roles=("read", "stream")).start()
    try:
        browser.call("Security.setIgnoreCertificateErrors", ignore=True)
        base = f"https://127.0.0.1:{d.port}"
        browser.call("Page.navigate", url=f"{base}/streams")
        browser.wait("document.getElementById('token')")
        browser.screenshot(f"{SHOTS}/login.png")
        sign_in = "document.getElementById('token').value = {}; document.querySelector('.login').submit()"
        browser.run(sign_in.format(json.dumps("brr_" + "0" * 64)))
        browser.wait("document.querySelector('.wrong') && location.pathname === '/login'")
        browser.run(sign_in.format(json.dumps(d.tokens["read"])))
        browser.wait("location.pathname === '/streams' && document.getElementById('alarms').dataset.key !== undefined")
        assert "its own streams only" in browser.run("document.body.innerText") and browser.run("document.cookie") == "", "scripts see the cookie"
        cookies = browser.call("Network.getCookies", urls=[base])["cookies"]
        assert [(c["name"], c["httpOnly"], c["secure"], c["sameSite"]) for c in cookies] == [("__Host-brrd", True, True, "Strict")], cookies
        context = ssl.create_default_context(cafile=f"{d.ca}/ca.crt")
        c = http.client.HTTPSConnection("127.0.0.1", d.port, context=context, timeout=PATIENCE)
        c.request("POST", "/login", f"next=//evil.example/&token={d.tokens['read']}")
        answer = c.getresponse()
        assert answer.status == 303 and answer.getheader("Location") == "/", answer.getheaders()
        answer.read()
        c.request("POST", "/login", "token=" + "x" * 100000)
        assert c.getresponse().status == 401
        c.close()
        c.request("POST", "/recordings/0/answers", "action=add&onset=1&end=2&reader=x", {"Authorization": f"Bearer {d.tokens['read']}"})
        answer = c.getresponse()
        assert answer.status == 403 and b"role submit" in answer.read(), answer.status
        check_proxy(d, context)
        with open(f"{d.ca}/tokens", encoding="utf-8") as f:
            lines = f.read().replace("read read ", "revoked read ")
        with open(f"{d.ca}/tokens", "w", encoding="utf-8") as f:
            f.write(lines)
        browser.wait("document.getElementById('stale').textContent.startsWith('Signed out: ')")  # the open page notices by itself
        assert browser.run("document.getElementById('main').childElementCount") == 0
        browser.run("document.querySelector('#stale a').click()")
        browser.wait("document.getElementById('token')")
    finally:
        d.stop()


def validate(modules):
    shutil.copy(f"{HERE}/html_validate/htmlvalidate.json", f"{SHOTS}/.htmlvalidate.json")
    pages = sorted(f for f in os.listdir(SHOTS) if f.endswith(".html"))
    assert len(pages) >= 15, pages
    r = subprocess.run(["node", f"{modules}/html-validate/bin/html-validate.mjs", "--formatter", "text", *pages], cwd=SHOTS, capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0, r.stdout[-6000:] + r.stderr[-2000:]
    return len(pages)


def main():
    if not shutil.which("chromium"):
        skip("package", "there is no chromium; ./dev deps installs it")
    modules = npm_modules(f"{HERE}/html_validate")
    shutil.rmtree(SHOTS, ignore_errors=True)
    os.makedirs(SHOTS)
    with temporary() as tmp:
        os.makedirs(f"{tmp}/secured")
        make_corpus(f"{tmp}/eeg", seed=31, patients=2, hours=0.05, seizures=1)
        write = script(f"{tmp}/write", 'printf "%s\\n" "$(cat)" >> "$1"\n')
        d = Ward(tmp, [{"name": "pager", "command": [write, f"{tmp}/told"]}],
                 "  escalation: [{after: 1s, hooks: [pager]}]\n  repeat: 1s\nbeds: [bed-1, bed-3, bed-7]\n").start()
        browser = Chromium()
        browser.size(1280, 800)
        p = Pages(browser, d)
        beds = []
        try:
            check_empty(p)
            check_headers(p)
            browser.open(p.base + "/streams")
            browser.run("""window.notes = []; new MutationObserver(() => notes.push(document.querySelector('[data-mood=poor] .note')?.textContent))
                .observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true})""")
            beds = [Bed(d, "bed-3", flat=True), Bed(d, "bed-12"), Bed(d, "bed-7")]
            delay, seen = check_three(p, beds)
            quiet_s = check_nurse(p)
            check_left_at_once(p)
            check_keyboard(p)
            check_without_script(p)
            check_work(p, tmp, *check_answers(p, tmp))
            check_recording(p, tmp)
            check_many(p)
            assert not browser.errors, browser.errors
            check_killed(p, beds)
            hosts = {u.split("/")[2] for u in browser.urls if u.startswith(("http:", "https:", "ws:"))}
            assert hosts == {f"127.0.0.1:{d.port}"}, hosts
            check_login(browser, tmp)
        finally:
            for bed in beds:
                bed.close()
            browser.close()
            if d.process.poll() is None:
                d.stop()
    n = validate(modules)
    print(f"{n} pages are valid; the alarm was on the page {delay:.2f} s after its client heard it, samples {seen:.2f} s after they were sent; {quiet_s:.2f} s after Acknowledge another "
          f"screen was quiet; screenshots in {SHOTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What people at a screen must see, in a real browser: a silence with its end and its author, an alarm of a stream that is not
heard, alarms that a rule of the bed holds back, rows that keep their places under the pointer, and a token that is revoked. Screenshots lie in build/pages-ward: light, dark, a wall, a phone."""
import json
import os
import re
import shutil
import signal
import sys

from chromium import Chromium
from daemon import temporary, until
from npm import skip
from page_beds import Bed
from secured import Secured, tls
from test_alarm_hooks import lines, script
from test_answers import Ward, alarms, begin

SHOTS = f"{os.environ['BRR_BUILD_DIR']}/pages-ward"
BEDS = "beds: [bed-1, bed-3, {name: bed-5, alarms: off}, bed-7, {name: bed-9, least: 10s}, "
BEDS += ", ".join(f"bed-{n}" for n in (2, *range(20, 63))) + "]\n"
SOUND = "document.getElementById('sound').dataset.sound"
NEW = "document.getElementById('new')"
LIST = "document.getElementById('list-open')"


def tile(bed):
    return f"[...document.querySelectorAll('.tile')].find(t => t.querySelector('h2').textContent === '{bed}')"


def near(one, other):
    return all(abs(one[key] - other[key]) < 0.1 for key in one)


class Screen:
    def __init__(self, browser, base):
        self.browser, self.base = browser, base

    def open(self, path):
        self.browser.open(self.base + path)
        self.browser.wait("document.getElementById('alarms').dataset.key !== undefined")

    def shoot(self, name, path, whole=False):
        """Light and dark, at a desk and on a phone, or on a wall: nothing is wider than the screen, no tile smaller than what is in it."""
        for dark in (False, True):
            for width in (1920,) if "wall" in path else (1280, 390):
                self.browser.size(width, 1080 if width > 1280 else 844, dark=dark, phone=width < 600)
                self.open(path)
                self.browser.screenshot(f"{SHOTS}/{name}-{width}{'-dark' if dark else ''}.png", whole=whole)
                assert self.browser.run("document.documentElement.scrollWidth <= innerWidth"), (name, width)
                assert not (found := self.browser.cut_tiles()), (name, width, found)
        self.browser.size(1280, 844)


def session(d, bed):
    return next(s for s in map(json.loads, d.ctl("sessions", "--json")[1].splitlines()) if s["client"] == bed)


def check_silence(s, d):
    """Silenced on one screen, it is seen on all, and in both lists of brrctl; the answer and the end of the silence take it away."""
    browser = s.browser
    s.open("/streams")
    browser.run("localStorage.setItem('person', 'Ana B')")
    browser.wait(f"{tile('bed-3')}.querySelector('button[value=silence]')")
    s.shoot("alarm", "/streams")
    wall = browser.another()
    wall.size(1280, 844)
    wall.open(s.base + "/streams?wall")
    browser.click(f"{tile('bed-3')}.querySelector('button[value=silence]')")
    for window in (browser, wall):
        said = f"{tile('bed-3')}.querySelector('.silent')"
        window.wait(f"{said}?.textContent.match(/^silent until .*, by Ana B$/)")
        assert window.run(f"getComputedStyle({said}).display !== 'none'")
    browser.wait(f"{SOUND} === 'none'")
    [alarm] = [a for a in alarms(d, "--open") if a["bed"] == "bed-3" and a["kind"] == "alarm"]
    assert alarm["silenced"]["person"] == "Ana B" and alarm["silent_until_ms"] > alarm["silenced"]["at_ms"], alarm
    assert re.search(r"silent until \S+ \S+ [A-Z+-]\S+ by Ana B", d.ctl("alarms", "--open")[1]), d.ctl("alarms", "--open")
    state = session(d, "bed-3")
    assert (state["silent_until_ms"], state["silenced_by"]) == (alarm["silent_until_ms"], "Ana B"), state
    assert "ALARM, silent until" in d.ctl("sessions")[1], d.ctl("sessions")
    assert d.ctl("alarms", "silence", alarm["alarm"], "--for", "10m", "--person", "Ana B")[0] == 0  # for the pictures
    s.shoot("silence", "/streams")
    s.shoot("silence-wall", "/streams?wall")
    s.shoot("silence-list", "/alarms", whole=True)
    assert "silent until" in browser.run(f"{LIST}.textContent")
    begin(d, "bed-1")  # a new alarm ends it
    wall.wait(f"!{tile('bed-3')}.querySelector('.silent') && {SOUND} === 'high'")
    wall.call("Page.close")


def entries(d):
    """The rows of alarms that the hook was told."""
    return [json.loads(line)["entry"] for line in lines(f"{d.dir}/told")]


def told(d):
    """The beds of whose alarms the hook was told."""
    return [e["client"] for e in entries(d)]


def check_least(s, d, bed):
    """People are told of an alarm when it has been on for the least duration of its bed, and not before."""
    browser, seen = s.browser, "(t => t.dataset.mood + ': ' + t.querySelector('.note').textContent)"
    browser.run(f"""window.seen = []; new MutationObserver(() => seen.push({seen}({tile('bed-9')}))).observe(document.body,
        {{subtree: true, childList: true, attributes: true, characterData: true}}); 0""")
    bed.seizure.set()
    browser.wait("seen.some(text => text.startsWith('fine: an alarm is on, not yet'))")
    browser.wait(f"{tile('bed-9')}.dataset.mood === 'alarm'")
    until(lambda: "bed-9" in told(d), lambda: d.read_log()[-2000:])
    [entry] = [e for e in entries(d) if e["client"] == "bed-9"]
    [alarm] = [a for a in alarms(d) if a["alarm"] == entry["alarm"]]
    assert entry["received_ms"] - alarm["on_ms"] > 9900, (entry, alarm)
    assert d.ctl("alarms", "ack", "bed-9", "--yes", "--person", "Ana B")[0] == 0
    check_acknowledged(s)


def check_acknowledged(s):
    """What somebody takes care of looks calmer than what waits, by more than its colour, and the line at the top names it last."""
    browser, calm, waits = s.browser, tile("bed-9"), tile("bed-3")
    s.shoot("acknowledged", "/streams")
    s.shoot("acknowledged-wall", "/streams?wall")
    s.open("/streams?wall")
    browser.wait(f"{calm}.dataset.calm === 'answered' && {waits}.dataset.calm === ''")
    look = "(s => [s.backgroundColor, s.animationName])(getComputedStyle({}))"
    assert browser.run(look.format(calm)) != browser.run(look.format(waits)), browser.run(look.format(calm))
    assert browser.run(f"getComputedStyle({calm}.querySelector('.mood'), '::before').content") == '"✓ "'
    assert browser.run(f"{calm}.querySelector('.note').innerText").startswith("acknowledged by Ana B"), browser.run(f"{calm}.innerText")
    top = "document.getElementById('alarms')"
    assert re.search(r"bed-3\b.*bed-9 acknowledged", browser.run(f"{top}.innerText"), re.S) and browser.run(f"{top}.dataset.waiting") != "0"
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.screenshot(f"{SHOTS}/acknowledged-print.png")
    browser.call("Emulation.setEmulatedMedia", media="")
    s.open("/streams")


def check_rules(s, d, bed):
    """Of a bed whose alarms are off the tile says so, before and during an alarm; with the rule gone people are told."""
    browser = s.browser
    s.open("/streams")
    note, banner = f"{tile('bed-5')}.querySelector('.note').textContent", "document.getElementById('alarms').textContent"
    browser.wait(f"{note} === 'alarms off by the configuration'")
    code, _, err = d.ctl("alarms", "test", "bed-5")
    assert code == 1 and "off by the configuration" in err, err
    bed.seizure.set()
    browser.wait(f"{note} === 'alarms off by the configuration; one is on'")
    assert browser.run(f"{tile('bed-5')}.dataset.mood") == "fine" and "bed-5" not in browser.run(banner)
    [alarm] = [a for a in alarms(d, "--open") if a["bed"] == "bed-5" and a["kind"] == "alarm"]
    assert alarm["untold"] and alarm["sound"] == "none" and "nobody is told" in d.ctl("alarms", "--open")[1], alarm
    assert session(d, "bed-5")["alarms_off"] and "alarms off" in d.ctl("sessions")[1]
    s.shoot("rules", "/streams")
    s.shoot("rules-wall", "/streams?wall")
    browser.size(1280, 844)
    s.open("/streams?wall")
    assert browser.run(f"getComputedStyle({tile('bed-5')}.querySelector('.note')).display !== 'none'")
    s.open("/streams")
    with open(f"{d.dir}/daemon.yaml", encoding="utf-8") as f:
        text = f.read()
    with open(f"{d.dir}/daemon.yaml", "w", encoding="utf-8") as f:
        f.write(text.replace("{name: bed-5, alarms: off}", "bed-5"))
    until(lambda: "bed-3" in told(d), lambda: d.read_log()[-2000:])
    assert "bed-5" not in told(d), told(d)
    d.process.send_signal(signal.SIGHUP)
    browser.wait(f"{tile('bed-5')}.dataset.mood === 'alarm' && {banner}.includes('bed-5')")
    until(lambda: "bed-5" in told(d), lambda: d.read_log()[-2000:])


def check_blind(s, d, bed):
    bed.quiet.set()
    browser = s.browser
    browser.wait(f"{tile('bed-3')}.querySelector('.note').textContent.startsWith('blind: no signal for ')")
    assert browser.run(f"{tile('bed-3')}.dataset.mood") == "alarm"
    until(lambda: "ON, blind" in d.ctl("alarms", "--open")[1], lambda: d.ctl("alarms", "--open"))
    assert "ALARM, blind" in d.ctl("sessions")[1], d.ctl("sessions")
    s.shoot("blind", "/streams")
    s.shoot("blind-wall", "/streams?wall")
    assert browser.run(f"getComputedStyle({tile('bed-3')}.querySelector('.note')).display !== 'none'")


def check_places(s, d):
    """While somebody points at a row it stays there, with all that is above it; a new alarm is told above it at once. The press counts
    for the row that it began on."""
    browser = s.browser
    for n in range(20, 60):
        begin(d, f"bed-{n}")
    for bed in ("bed-7", "bed-7", "bed-2", "bed-1"):
        begin(d, bed)
    silent = next(a["alarm"] for a in alarms(d, "--open") if a["bed"] == "bed-3" and a["kind"] == "alarm")
    assert d.ctl("alarms", "silence", silent, "--for", "10m", "--person", "Ana Beatriz Maria da Silva")[0] == 0
    s.shoot("storm", "/streams")
    s.shoot("storm-wall", "/streams?wall")
    s.shoot("storm-list", "/alarms")
    for bed in ("bed-3", "bed-5", "bed-7", "bed-9"):  # a slow machine is no new row either
        assert d.ctl("alarms", "standby", bed, "1h")[0] == 0
    s.open("/alarms")
    if browser.run("document.getElementById('sound').dataset.state") == "off":
        browser.click("document.getElementById('sound-on')")
    at = browser.point(f"(window.button ||= {LIST}.children[1].querySelector('button[value=acknowledge]'))")
    alarm = browser.run("button.closest('li').id.slice(2)")
    rows = browser.run(f"[...{LIST}.children].map(r => r.id)")
    later = begin(d, "bed-61")
    browser.wait(f"!{NEW}.hidden && {NEW}.textContent === '1 new: bed-61'")
    begin(d, "bed-62")
    browser.wait(f"{NEW}.textContent === '2 new: bed-62, bed-61'")
    browser.screenshot(f"{SHOTS}/new.png")
    assert browser.run(SOUND) == "high" and near(browser.place("button"), at), (browser.place("button"), at)
    assert browser.run(f"[...{LIST}.children].map(r => r.id)") == rows
    assert browser.run(f"{NEW}.getBoundingClientRect().top >= 0"), "the line is out of sight"
    browser.mouse("mousePressed", at)
    third = begin(d, "bed-1")
    browser.wait(f"{NEW}.textContent.startsWith('3 new: ')")
    assert near(browser.place("button"), at), (browser.place("button"), at)
    browser.rest()
    browser.mouse("mouseReleased", at)
    until(lambda: [a["alarm"] for a in alarms(d) if a["alarm"] == alarm and a.get("answered")], lambda: alarms(d))
    assert not [a for a in alarms(d) if a["alarm"] in (later, third) and a.get("answered")], "another patient's alarm was answered"
    browser.wait(f"{NEW}.hidden && document.getElementById('a-{third}') && !document.getElementById('main').style.transform")


def check_all_of_a_bed(s, d):
    browser = s.browser
    s.open("/alarms")
    browser.click("[...document.querySelectorAll('button')].find(b => /^Acknowledge all \\d+ of bed-7$/.test(b.textContent))")
    browser.wait("![...document.querySelectorAll('#list-open li[data-waiting=\"1\"] h3')].some(h => h.textContent === 'bed-7')")
    assert not [a for a in alarms(d, "--open") if a["bed"] == "bed-7" and not a.get("answered")], alarms(d, "--open")


def check_revoked(browser, tmp):
    """The wall says that it shows nothing any more, and leads back to itself."""
    d = Secured(f"{tmp}/secured", ["beds=[bed-1, bed-2]"], roles=("read",)).start()
    try:
        browser.call("Security.setIgnoreCertificateErrors", ignore=True)
        wall = f"https://127.0.0.1:{d.port}/streams?wall"
        sign_in = "document.getElementById('token').value = {}; document.querySelector('.login').submit()"
        browser.size(1280, 844)
        browser.call("Page.navigate", url=wall)
        browser.wait("document.getElementById('token')")
        browser.run(sign_in.format(json.dumps(d.tokens["read"])))
        browser.wait(f"location.href === '{wall}' && document.getElementById('alarms').dataset.key !== undefined")
        tls("revoke", d.ca, "--name", "read")
        stale = "document.getElementById('stale')"
        browser.wait(f"{stale}.textContent.startsWith('Signed out: the token of this screen was revoked')")
        assert not browser.run(f"{stale}.hidden || document.getElementById('main').childElementCount")
        browser.wait(f"{SOUND} === 'silent'")  # the tones of lost contact
        browser.screenshot(f"{SHOTS}/wall-revoked.png")
        browser.run("document.querySelector('#stale a').click()")
        browser.wait("document.getElementById('token')")
        browser.run(sign_in.format(json.dumps(d.tokens["read"])))
        browser.wait("document.querySelector('.wrong')?.textContent.includes('revoked')")
    finally:
        d.stop()


def main():
    if not shutil.which("chromium"):
        skip("package", "there is no chromium; ./dev deps installs it")
    shutil.rmtree(SHOTS, ignore_errors=True)
    os.makedirs(SHOTS)
    with temporary() as tmp:
        os.makedirs(f"{tmp}/secured")
        write = script(f"{tmp}/write", 'printf "%s\\n" "$(cat)" >> "$1"\n')
        d = Ward(tmp, [{"name": "pager", "command": [write, f"{tmp}/told"], "kinds": ["alarm_on"]}], BEDS).start()
        browser = Chromium()
        s, beds = Screen(browser, f"http://127.0.0.1:{d.port}"), []
        try:
            browser.size(1280, 844)
            beds = {name: Bed(d, name) for name in ("bed-3", "bed-5", "bed-7", "bed-9")}
            beds["bed-3"].seizure.set()
            check_silence(s, d)
            check_rules(s, d, beds["bed-5"])
            check_least(s, d, beds["bed-9"])
            check_blind(s, d, beds["bed-3"])
            check_places(s, d)
            check_all_of_a_bed(s, d)
            assert not browser.errors, browser.errors
            check_revoked(browser, tmp)
        finally:
            for bed in list(beds.values()) if beds else []:
                bed.close()
            browser.close()
            if d.process.poll() is None:
                d.stop()
    print(f"screenshots in {SHOTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

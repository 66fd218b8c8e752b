/* Keeps a page of brrd up to date. The daemon sends an event each second and at each alarm (/events): what changed is written into
 * the elements that say so (data-f); when streams come, go or change their place, and on pages without such elements, the page is
 * fetched again and its parts are exchanged. Without this script the page loads itself every few seconds. */
'use strict';

(() => {
    const live = document.body.hasAttribute('data-live');
    const DAY_MS = 86400000, STALE_MS = 5000, FETCH_MS = 2000, SILENT_MS = 10000;
    let heard = Date.now(), fetched = Date.now(), fetching = false, source = null;
    const title = document.title.replace(/^\(\d+\) /, '');

    const local = new Intl.DateTimeFormat(undefined, {year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short'});
    function showLocalTimes(root) {
        for (const t of root.querySelectorAll('time[datetime]')) {
            const at = new Date(t.dateTime);
            if (isNaN(at)) continue;
            t.title = t.title || t.textContent;
            const hm = t.className === 'hm' && Math.abs(at - Date.now()) < DAY_MS / 2;
            t.textContent = t.id === 'clock' ? at.toLocaleTimeString() : hm ? at.toLocaleTimeString(undefined, {hour: '2-digit', minute: '2-digit'}) : local.format(at);
        }
    }

    function setText(element, text) {
        if (element && element.textContent !== text) element.textContent = text;
    }

    /* The path of the last minute, as the daemon writes it into a page: its points move to the left, and the newest ones follow. */
    const fieldOf = (node) => node.dataset && node.dataset.f, isLine = (element) => fieldOf(element) === 'minute';
    function drawMinute(path, [moved, ...newest]) {
        const before = Array(60).fill(null);
        for (const [, x, y] of path.getAttribute('d').matchAll(/[ML](\d+) ([\d.]+)/g)) if (x % 2) before[(x - 1) / 2] = Number(y);
        const heights = before.slice(moved, 59).concat(newest), is = (i) => i in heights && heights[i] !== null;
        const points = heights.map((y, i) => (is(i - 1) ? 'L' : 'M') + (2 * i + 1) + ' ' + Number(y).toFixed(1) + (is(i - 1) || is(i + 1) ? '' : 'h1'));
        path.setAttribute('d', points.filter((_, i) => is(i)).join('') || 'M0 0');
    }

    function updateStream(id, fields) {
        const box = document.getElementById('s-' + id);
        if (!box) return;
        for (const [name, value] of Object.entries(fields)) {
            if (name === 'state') {
                box.dataset.mood = value;
                continue;
            }
            const at = box.querySelector('[data-f="' + name + '"]');
            if (name === 'minute') at && drawMinute(at, value);
            else setText(at, value);
        }
    }

    /* One of the lines at the top, unless it says this already, so that a screen reader says it once. */
    function fillLine(id, n, word, links) {
        const box = document.getElementById(id);
        const key = links.map((l) => l.join(' ')).join(',') + n;
        if (!box || box.dataset.key === key) return;
        box.dataset.key = key;
        box.dataset.n = n;
        box.replaceChildren();
        if (n && word) {
            const strong = document.createElement('strong');
            strong.textContent = word;
            box.append(strong, ' ');
        }
        for (const [session, name, word] of links) {
            const link = document.createElement('a');
            link.href = session ? '/streams/' + session : '/alarms';
            link.textContent = name + (word ? ' ' : '');
            if (word) link.append(Object.assign(document.createElement('small'), {textContent: word}));
            box.append(link, ' ');
        }
        if (n > links.length) box.append('and ' + (n - links.length) + ' more');
    }

    function updateAlarms(event) {
        document.title = (event.n_alarms ? '(' + event.n_alarms + ') ' : '') + title;
        document.getElementById('alarms').dataset.waiting = event.n_waiting;
        fillLine('alarms', event.n_alarms, 'Alarm', event.alarms);
        fillLine('was', event.n_was, 'Was on', event.was);
        fillLine('technical', event.technical.length, '', event.technical.map((text) => ['', text]));
    }

    /* ---- what people point at keeps its place: the rows of a list while somebody moves, presses or types there, and all of the page
     * under the lines at its top. New alarms stand in a line above the list meanwhile, and sound. ---- */
    const HOLD_MS = 5000, PRESS_MS = 30000, hold = {list: 0, main: 0, top: 0, by: 0, down: 0};
    const isHeld = (since) => Date.now() - since < HOLD_MS || Date.now() - hold.down < PRESS_MS;

    const topOf = (main) => main.getBoundingClientRect().top + scrollY - hold.by; /* without what keepPlace does */

    function onGesture(event) {
        const main = document.getElementById('main');
        if (event.type === 'pointermove' && !event.buttons) hold.down = 0; /* it was let go where nobody said so */
        const at = event.target instanceof Element && main.contains(event.target) ? event.target : null;
        if (!at) return;
        if (!isHeld(hold.main)) hold.top = topOf(main);
        hold.main = Date.now();
        if (event.type === 'pointerdown') hold.down = hold.main; /* a press counts for what was under it when it began */
        if (at.closest('.alarm-list, .answer')) hold.list = hold.main;
        keepPlace();
    }

    function keepPlace() {
        const main = document.getElementById('main'), held = isHeld(hold.main);
        hold.by = held ? hold.top - topOf(main) : 0;
        document.documentElement.style.overflowAnchor = held ? 'none' : ''; /* the browser's own way, where a page is scrolled */
        main.style.transform = Math.abs(hold.by) > .01 ? 'translateY(' + hold.by + 'px)' : '';
    }

    function tellNew(rows) {
        const box = document.getElementById('new'), names = new Set(rows.map((row) => row.querySelector('h3').textContent));
        setText(box, rows.length + ' new: ' + Array.from(names).slice(0, 12).join(', ') + (names.size > 12 ? ' and more' : ''));
        box.hidden = !rows.length;
        box.style.top = document.getElementById('alarms').offsetHeight + 'px';
        keepPlace();
    }

    function startHolding() {
        for (const kind of ['pointerdown', 'pointermove', 'keydown', 'touchmove']) addEventListener(kind, onGesture, {capture: true, passive: true});
        for (const kind of ['pointerup', 'pointercancel']) addEventListener(kind, () => { hold.down = 0; }, true);
    }

    /* ---- the sound: three high pulses for an alarm, one low tone for a reminder or a technical alarm, two falling tones while no
     * event comes. Browsers let a page sound after a key or a click; until then a red bar says so. ---- */
    const sound = {box: document.getElementById('sound'), context: null, wanted: 'none', next: 0};
    const TUNES = {
        high: {every: 2500, notes: [[880, 0], [880, .22], [1100, .44]]},
        low: {every: 15000, notes: [[440, 0]]},
        silent: {every: 5000, notes: [[520, 0], [390, .35]]},
    };

    function play(tune) {
        const c = sound.context;
        for (const [hertz, at] of TUNES[tune].notes) {
            const tone = c.createOscillator(), volume = c.createGain(), from = c.currentTime + at;
            tone.frequency.value = hertz;
            volume.gain.setValueAtTime(0, from);
            volume.gain.linearRampToValueAtTime(.5, from + .02);
            volume.gain.setValueAtTime(.5, from + .15);
            volume.gain.linearRampToValueAtTime(0, from + .19);
            tone.connect(volume).connect(c.destination);
            tone.start(from);
            tone.stop(from + .2);
        }
        document.body.dataset.played = tune;
    }

    function lookAtSound() {
        const running = sound.context && sound.context.state === 'running';
        const tune = Date.now() - heard > SILENT_MS ? 'silent' : sound.wanted;
        sound.box.dataset.state = running ? 'on' : 'off';
        sound.box.dataset.sound = tune;
        keepPlace();
        setText(sound.box.querySelector('p'), running ? 'Alarms sound here.' : 'Alarms make no sound here.');
        if (tune === 'none') sound.next = 0;
        if (!running || tune === 'none' || Date.now() < sound.next) return;
        sound.next = Date.now() + TUNES[tune].every;
        play(tune);
    }

    function wakeSound() {
        sound.context = sound.context || new AudioContext();
        return sound.context.resume().then(lookAtSound, () => {});
    }

    function startSound() {
        sound.wanted = sound.box.dataset.sound;
        if (window.AudioContext) sound.context = new AudioContext();
        document.getElementById('sound-on').addEventListener('click', wakeSound);
        document.getElementById('sound-test').addEventListener('click', () => wakeSound().then(() => play('high')));
        for (const gesture of ['pointerdown', 'keydown']) addEventListener(gesture, wakeSound, {once: true});
        setInterval(lookAtSound, 250);
    }

    /* ---- answers: a form is sent without leaving the page; the name of the person is kept for the next one ---- */
    async function sendForm(message) {
        const form = message.target;
        if (form.getAttribute('action') !== '/alarms') return;
        message.preventDefault();
        const fields = new URLSearchParams(new FormData(form, message.submitter));
        const person = fields.get('person') || localStorage.getItem('person') || '';
        fields.set('person', person);
        localStorage.setItem('person', person);
        const refused = document.getElementById('refused'), show = (shown) => { refused.hidden = !shown, keepPlace(); }; /* which the line moves */
        show(false);
        try {
            const answer = await fetch('/alarms', {method: 'POST', body: fields, redirect: 'manual', keepalive: true}); /* though the page be left */
            if (message.submitter) message.submitter.dataset.taken = ''; /* the row itself is written again when the pointer rests */
            if (answer.type !== 'opaqueredirect') throw new Error(new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('main p').textContent);
        } catch (problem) {
            setText(refused, 'The answer was not taken: ' + problem.message); /* no window of its own, which would stop the page */
            show(true);
        }
        fetchPage();
    }

    function fillPerson(root) {
        const person = localStorage.getItem('person');
        for (const field of root.querySelectorAll('input[name=person]')) if (person && !field.value) field.value = person;
    }

    /* Takes the children of `next` over into `old`; what is equal stays, so that focus and open details stay too. */
    function exchange(old, next) {
        const own = isLine(old) && isLine(next) ? 'd' : 'open'; /* events draw the line */
        for (const a of Array.from(next.attributes)) if (old.getAttribute(a.name) !== a.value && a.name !== 'open' && a.name !== own) old.setAttribute(a.name, a.value);
        const known = new Map(Array.from(old.children).filter((c) => c.id).map((c) => [c.id, c]));
        const children = Array.from(next.childNodes);
        let at = old.firstChild;
        for (const child of children) {
            let keep = child.id ? known.get(child.id) : null;
            if (!keep && at && at.nodeName === child.nodeName && !at.id && !child.id && fieldOf(at) === fieldOf(child)) keep = at;
            if (!keep) {
                old.insertBefore(child, at);
                continue;
            }
            if (keep === at) at = at.nextSibling;
            else old.insertBefore(keep, at);
            if (keep.nodeType === Node.TEXT_NODE) {
                if (keep.data !== child.data) keep.data = child.data;
            } else if (keep.dataset.eeg === undefined && keep.dataset.answers === undefined && !keep.isEqualNode(child)) exchange(keep, child); /* they keep their own */
        }
        while (at) {
            const gone = at;
            at = at.nextSibling;
            gone.remove();
        }
    }

    async function fetchPage() {
        if (fetching) return;
        fetching = true;
        fetched = Date.now();
        try {
            const answer = await fetch(location.href, {headers: {Accept: 'text/html'}, cache: 'no-store'});
            if (answer.status === 401) return signedOut();
            const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
            const main = next.getElementById('main');
            if (!main) return;
            const known = (row) => document.getElementById(row.id);
            if (isHeld(hold.list)) return tellNew(Array.from(main.querySelectorAll('#list-open > li, #list-technical-alarms > li')).filter((row) => !known(row)));
            tellNew([]);
            for (const button of document.querySelectorAll('[data-taken]')) delete button.dataset.taken;
            showLocalTimes(main);
            exchange(document.getElementById('main'), main);
            document.dispatchEvent(new Event('exchanged'));
            fillPerson(document);
        } catch (problem) {
            /* the event stream tells that contact is lost */
        } finally {
            fetching = false;
        }
    }

    function onEvent(message) {
        const event = JSON.parse(message.data);
        heard = Date.now();
        const clock = document.getElementById('clock');
        if (clock) clock.dateTime = event.time, setText(clock, new Date(event.time).toLocaleTimeString());
        updateAlarms(event);
        keepPlace();
        sound.wanted = event.sound;
        if (sound.box) lookAtSound();
        for (const [id, fields] of Object.entries(event.streams || {})) updateStream(id, fields);
        const ordered = document.querySelector('[data-order]');
        const moved = ordered && ordered.dataset.order !== event.order;
        const due = (!ordered || ordered.id !== 'tiles') && Date.now() - fetched > FETCH_MS && !document.hidden;
        if (moved || due) fetchPage();
    }

    /* Nothing of before stays to be read; the tones of lost contact go on until somebody signs in, or the token is valid again. */
    function signedOut() {
        if (!sound.box) return location.reload();
        const box = document.getElementById('stale'), link = document.createElement('a');
        if (document.body.dataset.signed === 'out') return;
        document.body.dataset.signed = 'out';
        document.body.classList.remove('is-stale');
        document.title = 'Signed out – ' + title;
        if (source) source.close();
        for (const id of ['alarms', 'was', 'technical']) fillLine(id, 0, '', []);
        document.getElementById('main').replaceChildren();
        link.href = location.href;
        link.textContent = 'Sign in';
        box.replaceChildren('Signed out: the token of this screen was revoked or has expired. No alarm is shown or heard here. ', link);
        box.hidden = false;
        setInterval(() => fetch(location.href, {method: 'HEAD'}).then((a) => a.ok && location.reload(), () => {}), 6 * HOLD_MS);
    }

    function showContact() {
        const box = document.getElementById('stale');
        if (document.body.dataset.signed === 'out') return;
        const silent = Date.now() - heard > STALE_MS;
        if (!box) return;
        document.body.classList.toggle('is-stale', silent);
        if (silent) setText(box, 'No contact with brrd since ' + new Date(heard).toLocaleTimeString() + ': what you see is old.');
        box.hidden = !silent;
        keepPlace();
        if (source && source.readyState === EventSource.CLOSED && silent) connect(); /* refused: signed out, or the daemon is full */
    }

    function connect() {
        if (source) source.close();
        source = new EventSource('/events?page=' + encodeURIComponent(location.pathname));
        source.onmessage = onEvent;
        source.onerror = () => {
            if (source.readyState === EventSource.CLOSED)
                fetch(location.href, {method: 'HEAD'}).then((a) => a.status === 401 && signedOut(), () => {});
        };
    }

    showLocalTimes(document);
    addEventListener('submit', sendForm);
    fillPerson(document);
    if (sound.box) startSound();
    if (live) {
        startHolding();
        connect();
        setInterval(showContact, 1000);
        addEventListener('pagehide', () => source.close());
        addEventListener('pageshow', (e) => e.persisted && connect());
    }
})();

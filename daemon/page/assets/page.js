/* Keeps a page of brrd up to date. The daemon sends an event each second and at each alarm (/events): what changed is written into
 * the elements that say so (data-f); when streams come, go or change their place, and on pages without such elements, the page is
 * fetched again and its parts are exchanged. Without this script the page loads itself every few seconds. */
'use strict';

(() => {
    const live = document.body.hasAttribute('data-live');
    const STALE_MS = 5000, FETCH_MS = 2000;
    let heard = Date.now(), fetched = Date.now(), fetching = false, source = null;
    const title = document.title.replace(/^\(\d+\) /, '');

    const local = new Intl.DateTimeFormat(undefined, {dateStyle: 'medium', timeStyle: 'medium'});
    function showLocalTimes(root) {
        for (const t of root.querySelectorAll('time[datetime]')) {
            const at = new Date(t.dateTime);
            if (isNaN(at)) continue;
            t.title = t.title || t.textContent;
            t.textContent = t.id === 'clock' ? at.toLocaleTimeString() : local.format(at);
        }
    }

    function setText(element, text) {
        if (element && element.textContent !== text) element.textContent = text;
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
            if (name === 'line') at && at.setAttribute('d', value);
            else setText(at, value);
        }
    }

    function updateAlarms(event) {
        const box = document.getElementById('alarms');
        const key = event.alarms.map((a) => a.join(' ')).join(',') + event.n_alarms;
        document.title = (event.n_alarms ? '(' + event.n_alarms + ') ' : '') + title;
        if (!box || box.dataset.key === key) return; /* so that a screen reader says it once */
        box.dataset.key = key;
        box.dataset.n = event.n_alarms;
        box.replaceChildren();
        if (!event.n_alarms) return;
        const word = document.createElement('strong');
        word.textContent = 'Alarm';
        box.append(word, ' ');
        for (const [id, name] of event.alarms) {
            const link = document.createElement('a');
            link.href = '/streams/' + id;
            link.textContent = name;
            box.append(link, ' ');
        }
        if (event.n_alarms > event.alarms.length) box.append('and ' + (event.n_alarms - event.alarms.length) + ' more');
    }

    /* Takes the children of `next` over into `old`; what is equal stays, so that focus and open details stay too. */
    function exchange(old, next) {
        for (const a of Array.from(next.attributes)) if (old.getAttribute(a.name) !== a.value && a.name !== 'open') old.setAttribute(a.name, a.value);
        const known = new Map(Array.from(old.children).filter((c) => c.id).map((c) => [c.id, c]));
        const children = Array.from(next.childNodes);
        let at = old.firstChild;
        for (const child of children) {
            let keep = child.id ? known.get(child.id) : null;
            if (!keep && at && at.nodeName === child.nodeName && !at.id && !child.id) keep = at;
            if (!keep) {
                old.insertBefore(child, at);
                continue;
            }
            if (keep === at) at = at.nextSibling;
            else old.insertBefore(keep, at);
            if (keep.nodeType === Node.TEXT_NODE) {
                if (keep.data !== child.data) keep.data = child.data;
            } else if (!keep.isEqualNode(child)) exchange(keep, child);
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
            if (answer.status === 401) return location.reload();
            const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
            const main = next.getElementById('main');
            if (!main) return;
            showLocalTimes(main);
            exchange(document.getElementById('main'), main);
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
        for (const [id, fields] of Object.entries(event.streams || {})) updateStream(id, fields);
        const tiles = document.getElementById('tiles');
        const moved = tiles && tiles.dataset.order !== event.order;
        const due = !tiles && Date.now() - fetched > FETCH_MS && !document.hidden;
        if (moved || due) fetchPage();
    }

    function showContact() {
        const box = document.getElementById('stale');
        const silent = Date.now() - heard > STALE_MS;
        if (!box) return;
        document.body.classList.toggle('is-stale', silent);
        if (silent) setText(box, 'No contact with brrd since ' + new Date(heard).toLocaleTimeString() + ': what you see is old.');
        box.hidden = !silent;
        if (source && source.readyState === EventSource.CLOSED && silent) connect(); /* refused: signed out, or the daemon is full */
    }

    function connect() {
        if (source) source.close();
        source = new EventSource('/events?page=' + encodeURIComponent(location.pathname));
        source.onmessage = onEvent;
        source.onerror = () => {
            if (source.readyState === EventSource.CLOSED)
                fetch(location.href, {method: 'HEAD'}).then((a) => a.status === 401 && location.reload(), () => {});
        };
    }

    showLocalTimes(document);
    if (live) {
        connect();
        setInterval(showContact, 1000);
        addEventListener('pagehide', () => source.close());
        addEventListener('pageshow', (e) => e.persisted && connect());
    }
})();

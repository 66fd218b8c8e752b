/* Answers of readers about the events of a recording. Below the viewer stand the events (marks of a model, a file or the labels, and what
 * readers added) and, for those who may answer, a form: the chosen event has handles at its onset and end; a button or a key says
 * what it is. Each answer is saved at once, in the label file that <section data-answers="URL"> names; the recording's own labels stay
 * as they are. When somebody else answered in the meantime, nothing is saved over it: the new answers are shown first. */
'use strict';

(() => {
    const GRAB = matchMedia('(pointer: coarse)').matches ? 18 : 9, NEW_S = 10, STRIP = 16, LOOK_AGAIN_MS = 3000;
    const KEYS = {a: 'accept', r: 'reject', u: 'unsure', t: 'withdraw'};
    const word = (type) => ({bckg: 'no seizure', unknown: 'unsure'})[type] || type;
    const hundredth = (s) => Math.round(s * 100) / 100;
    const overlaps = (a, b) => a.onset < b.end && a.end > b.onset, same = (a, b) => Math.abs(a.onset - b.onset) < .006 && Math.abs(a.end - b.end) < .006;
    const shared = (a, b) => (Math.min(a.end, b.end) - Math.max(a.onset, b.onset)) / (Math.max(a.end, b.end) - Math.min(a.onset, b.onset));

    function make(tag, attributes, ...children) {
        const element = document.createElement(tag);
        for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
        element.append(...children);
        return element;
    }

    class Answers {
        constructor(list, viewer) {
            this.list = list;
            this.viewer = viewer;
            this.url = list.dataset.answers;
            this.form = viewer.box.querySelector('form.answer');
            this.answers = [];
            this.revision = '';
            this.chosen = null; /* {onset, end: as they stand now; from, to: of the event, not of a new one; text; own: its answer} */
            this.said = make('p', {class: 'hint', role: 'status'});
            this.about = make('p', {class: 'hint'});
            this.rows = make('tbody', {});
            list.append(this.about, make('div', {class: 'scroll'}, make('table', {class: 'rows'}, make('thead', {}, make('tr', {}, ...['Time', 'Seconds', 'Mark', 'Answer', 'Reader', 'Comment'].map((name) => make('th', {scope: 'col'}, name)))), this.rows)));
            viewer.layers.push((c, part) => this.draw(c, part));
            viewer.box.addEventListener('jumped', (e) => this.chooseAt(e.detail / viewer.rate()));
            if (this.form) this.build();
            this.start();
        }

        build() {
            const {form, viewer} = this, field = (name) => form.elements[name];
            viewer.box.append(form, this.said);
            form.hidden = false;
            if (!field('reader').readOnly) field('reader').value = localStorage.getItem('person') || '';
            form.addEventListener('submit', (e) => {
                e.preventDefault();
                this.save(e.submitter.value);
            });
            field('new').addEventListener('click', () => this.add());
            for (const name of ['onset', 'end'])
                field(name).addEventListener('input', () => {
                    if (!this.chosen || field(name).value === '') return;
                    this.chosen[name] = Number(field(name).value);
                    viewer.draw();
                });
            viewer.box.addEventListener('keydown', (e) => {
                if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
                const button = KEYS[e.key] && form.querySelector('button[value=' + KEYS[e.key] + ']');
                if (e.key !== 'e' && (!button || button.disabled)) return;
                e.preventDefault();
                if (button) form.requestSubmit(button);
                else this.add();
            });
            this.watchPointer();
            this.fill();
        }

        async start() {
            await Promise.all([this.read(), new Promise((done) => this.viewer.head ? done() : this.viewer.box.addEventListener('begun', done, {once: true}))]);
            this.show();
            const at = Number(this.viewer.box.dataset.at), open = this.events().find((e) => !this.answerOf(e));
            if (at >= 0) this.chooseAt(at);
            else if (open && this.form && !this.viewer.asked) this.viewer.show(open.onset * this.viewer.rate()), this.choose(open);
        }

        /* ---- what there is ---- */

        events() {
            const rate = this.viewer.rate(), marks = this.viewer.head.marks.filter((m) => m.end > m.first).map((m) => ({onset: m.onset_s, end: m.end_s, text: m.text}));
            const added = this.answers.filter((a) => a.type !== 'bckg' && !marks.some((m) => overlaps(a, m))).map((a) => ({onset: a.onset, end: a.end, text: 'added'}));
            this.viewer.stops = added.map((a) => Math.round(a.onset * rate));
            return marks.concat(added).sort((a, b) => a.onset - b.onset);
        }

        /* As training reads it: a seizure or unsure time before background. */
        answerOf(event) {
            const found = this.answers.filter((a) => overlaps(a, event));
            return found.find((a) => a.type !== 'bckg') || found[0];
        }

        /* The answer that is about this event and not about another one that overlaps it. */
        ownOf(event) {
            const events = this.events(), found = this.answerOf(event);
            if (!found || found.type === 'bckg') return found;
            return this.answers.find((a) => a.type !== 'bckg' && overlaps(a, event) && !events.some((e) => shared(a, e) > shared(a, event)));
        }

        answerNow(chosen) {
            return (chosen.own && this.answers.find((a) => same(a, chosen.own))) || this.answerOf(chosen);
        }

        /* The answers that would go. */
        gone(action) {
            const c = this.chosen;
            if (!c || action === 'done') return [];
            const span = action === 'accept' && c.from !== undefined ? {onset: Math.min(c.onset, c.from), end: Math.max(c.end, c.to)} : c;
            const gone = action === 'withdraw' ? [this.answerNow(c)] : this.answers.filter((a) => overlaps(a, span));
            return gone.filter((a) => a && a.type !== 'bckg');
        }

        /* Those about other events, which the reader is asked about. */
        replaced(action) {
            return this.gone(action).filter((a) => !(this.chosen.own && same(a, this.chosen.own)));
        }

        async ask(fields) {
            const answer = await fetch(this.url, fields ? {method: 'POST', body: fields} : {cache: 'no-store'}), text = await answer.text();
            if (!answer.ok) throw Object.assign(new Error(answer.status === 401 ? 'sign in again' : text.trim()), {conflict: answer.status === 409, late: answer.status === 503});
            const {revision, file, answers} = JSON.parse(text);
            Object.assign(this, {revision, file, answers});
        }

        async read() {
            try {
                await this.ask();
            } catch (problem) {
                this.say('The answers cannot be read: ' + problem.message, true);
            }
        }

        say(text, wrong) {
            this.said.textContent = text;
            this.said.className = wrong ? 'wrong' : 'hint';
            if (!this.form) this.list.append(this.said);
        }

        /* ---- the chosen event ---- */

        choose(event) {
            const own = this.ownOf(event), moved = own && own.type !== 'bckg' ? own : event;
            this.chosen = {onset: hundredth(moved.onset), end: hundredth(moved.end), from: Math.min(event.onset, moved.onset), to: Math.max(event.end, moved.end), text: event.text, own};
            this.fill(own);
            this.say('');
            this.viewer.draw();
            this.show();
        }

        chooseAt(s) {
            const near = this.events().filter((e) => Math.abs(e.onset - s) < 0.05);
            if (near.length) this.choose(near.find((e) => !this.answerOf(e)) || near[0]);
        }

        add() {
            const v = this.viewer, rate = v.rate(), last = v.head.kept[1] / rate, middle = (v.right() - v.length() / 2) / rate;
            const onset = Math.max(0, Math.min(middle - NEW_S / 2, last - NEW_S));
            this.chosen = {onset: hundredth(onset), end: hundredth(Math.min(onset + NEW_S, last)), text: 'new event'};
            this.fill();
            this.say('Drag the handles to the onset and the end.');
            v.draw();
        }

        fill(answer) {
            if (!this.form) return;
            const fields = this.form.elements, chosen = this.chosen;
            for (const name of ['onset', 'end']) {
                fields[name].value = chosen ? chosen[name].toFixed(2) : '';
                fields[name].disabled = !chosen;
            }
            if (answer && answer.type.startsWith('sz')) fields.type.value = answer.type;
            fields.confidence.value = answer && answer.confidence !== null ? answer.confidence : '';
            fields.comment.value = answer ? answer.comment : '';
            for (const b of this.form.querySelectorAll('button[name=action]')) b.disabled = b.value !== 'done' && (!chosen || b.value === 'withdraw' && !answer);
        }

        fields(action) {
            const chosen = this.chosen || {}, form = new FormData(this.form), fresh = chosen.from === undefined, answer = action === 'withdraw' && this.answerNow(chosen);
            const span = answer ? answer : chosen;
            form.set('action', action === 'accept' && fresh ? 'add' : action);
            form.set('onset', span.onset ?? '');
            form.set('end', span.end ?? '');
            if (!fresh) form.set('from', chosen.from), form.set('to', chosen.to);
            form.set('seen', this.revision);
            if (this.gone(action).length) form.set('replace', '1');
            return new URLSearchParams(form);
        }

        async save(action) {
            const chosen = this.chosen, of = () => chosen && JSON.stringify([this.answerOf(chosen), this.replaced(action)]), before = of(), seen = this.revision;
            if (this.saving || (!chosen && action !== 'done')) return;
            const gone = this.replaced(action), asked = JSON.stringify([action, chosen, gone]);
            if (gone.length && this.asked !== asked) {
                this.asked = asked;
                return void this.say('Not saved yet: this replaces ' + gone.map((a) => word(a.type) + ' by ' + a.reader + ' from ' + a.onset.toFixed(2) + ' to ' + a.end.toFixed(2) + ' s').join(', ') + '. Do the same once more to replace it.', true);
            }
            this.saving = true;
            if (!this.form.elements.reader.readOnly) localStorage.setItem('person', this.form.elements.reader.value);
            try {
                try {
                    await this.ask(this.fields(action));
                } catch (problem) {
                    if (!problem.conflict) throw problem;
                    await this.ask();
                    if (this.revision === seen) throw problem;
                    if (action === 'done' || of() !== before) throw new Error('somebody else has answered in the meantime; look at the answers and say it again');
                    await this.ask(this.fields(action)); /* about another event */
                }
                const at = chosen && action !== 'done' ? chosen.onset.toFixed(2) + ' to ' + chosen.end.toFixed(2) + ' s' : 'the rest of the recording';
                this.say('Saved: ' + at + (action === 'withdraw' ? ' has no answer' : ' is ' + (({reject: 'no seizure', done: 'without another seizure', unsure: 'unsure'})[action] || this.form.elements.type.value)) + '.');
                if (chosen) chosen.from = Math.min(chosen.from ?? chosen.onset, chosen.onset), chosen.to = Math.max(chosen.to ?? chosen.end, chosen.end), chosen.own = action === 'done' ? chosen.own : this.answers.find((a) => same(a, chosen));
            } catch (problem) {
                this.say((problem.late ? '' : 'Not saved: ') + problem.message, true);
                if (problem.late) setTimeout(() => this.read().then(() => this.show()), LOOK_AGAIN_MS);
            }
            this.saving = false;
            if (this.chosen === chosen && chosen) this.fill(this.answerNow(chosen));
            this.show();
            this.viewer.draw();
        }

        /* ---- with the pointer ---- */

        sampleAt(x) {
            const p = this.part;
            return p.from + (x - p.x(p.from)) / (p.x(p.to) - p.x(p.from)) * (p.to - p.from);
        }

        /* The handle of the chosen event under the pointer. */
        handleAt(x) {
            if (!this.chosen || !this.part) return null;
            const off = (name) => Math.abs(x - this.part.x(this.chosen[name] * this.viewer.rate())), [onset, end] = [off('onset'), off('end')];
            return Math.min(onset, end) > GRAB ? null : onset < end ? 'onset' : 'end';
        }

        watchPointer() {
            const {canvas} = this.viewer;
            let drag = null, down = null;
            const at = (e) => e.clientX - canvas.getBoundingClientRect().left;
            canvas.addEventListener('pointerdown', (e) => {
                down = at(e);
                drag = this.handleAt(down);
                if (!drag) return;
                e.stopImmediatePropagation(); /* the page stays where it is */
                canvas.setPointerCapture(e.pointerId);
            }, {capture: true});
            canvas.addEventListener('pointermove', (e) => {
                if (!drag) return void (canvas.style.cursor = this.handleAt(at(e)) ? 'ew-resize' : '');
                const v = this.viewer, c = this.chosen, s = Math.max(0, Math.min(this.sampleAt(at(e)), v.head.kept[1])) / v.rate();
                c[drag] = hundredth(drag === 'onset' ? Math.min(s, c.end - 0.1) : Math.max(s, c.onset + 0.1));
                this.form.elements[drag].value = c[drag].toFixed(2);
                v.draw();
            });
            canvas.addEventListener('pointerup', (e) => {
                if (!drag && down !== null && Math.abs(at(e) - down) < 4 && this.part && this.viewer.head) {
                    const s = this.sampleAt(down) / this.viewer.rate(), under = this.events().filter((x) => x.onset <= s && s < x.end).sort((a, b) => a.end - a.onset - b.end + b.onset);
                    if (under.length) this.choose(under[0]);
                }
                drag = down = null;
            });
            canvas.addEventListener('pointercancel', () => (drag = down = null));
        }

        /* ---- the picture and the table ---- */

        draw(c, part) {
            const {colours, rate} = {colours: this.viewer.colours, rate: this.viewer.rate()}, x = (s) => part.x(s * rate);
            this.part = part;
            for (const a of this.answers) {
                if (a.end * rate < part.from || a.onset * rate > part.to) continue;
                const from = x(a.onset), wide = Math.max(3, x(a.end) - from), none = a.type === 'bckg';
                c.fillStyle = none ? colours.card : a.type === 'unknown' ? colours.line : colours.fine;
                c.fillRect(from, part.top, wide, STRIP);
                c.strokeStyle = none ? colours.soft : colours.fine;
                c.lineWidth = 1;
                c.strokeRect(from + .5, part.top + .5, wide - 1, STRIP - 1);
                c.save();
                c.beginPath();
                c.rect(from, part.top, wide, STRIP);
                c.clip();
                c.fillStyle = none || a.type === 'unknown' ? colours.ink : colours.card;
                c.fillText(word(a.type) + ', ' + a.reader, Math.max(from, part.x(part.from)) + 4, part.top + STRIP / 2);
                c.restore();
            }
            if (!this.chosen) return;
            const from = x(this.chosen.onset), to = x(this.chosen.end), middle = (part.top + part.bottom) / 2;
            c.fillStyle = colours.accent;
            c.globalAlpha = .12;
            c.fillRect(from, part.top, to - from, part.bottom - part.top);
            c.globalAlpha = 1;
            for (const edge of [from, to]) {
                c.fillRect(edge - 1, part.top, 2, part.bottom - part.top);
                if (this.form) c.fillRect(edge - 5, middle - 16, 10, 32);
            }
        }

        show() {
            if (!this.viewer.head) return;
            const events = this.events(), open = events.filter((e) => !this.answerOf(e)).length, rate = this.viewer.rate();
            this.about.replaceChildren(events.length ? events.length + (events.length === 1 ? ' event, ' : ' events, ') + open + ' without an answer. ' : 'No events are marked. ');
            if (this.answers.length) this.about.append(make('a', {href: this.list.dataset.labels, download: this.file.replace(/.*\//, '')}, 'Label file'), ', saved as ' + this.file);
            this.rows.replaceChildren(...events.map((e) => {
                const a = this.answerOf(e), go = make('button', {type: 'button'}, this.viewer.clock(e.onset * rate)), moved = a && a.type !== 'bckg' ? a : e;
                go.addEventListener('click', () => (this.viewer.show(e.onset * rate), this.choose(e)));
                const cells = [['Seconds', moved.onset.toFixed(2) + ' to ' + moved.end.toFixed(2)], ['Mark', e.text], ['Answer', a ? word(a.type) + (a.confidence === null ? '' : ' (' + a.confidence + ')') : ''], ['Reader', a ? a.reader : ''], ['Comment', a ? a.comment : '']];
                const row = make('tr', {}, make('th', {scope: 'row'}, go), ...cells.map(([name, text]) => make('td', {'data-l': name}, text)));
                if (this.chosen && Math.abs(this.chosen.from - e.onset) < .02) row.setAttribute('aria-current', 'true');
                return row;
            }));
        }
    }

    const list = document.querySelector('section[data-answers]'), box = document.querySelector('section[data-eeg]');
    if (list && box && box.viewer) list.answers = new Answers(list, box.viewer);
})();

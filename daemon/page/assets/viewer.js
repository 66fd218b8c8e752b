/* EEG as clinicians read it: channels below each other, negative up, the probability below, alarms and events marked. A <section
 * data-eeg="URL"> becomes a viewer; URL answers with samples (viewer/traces.h), of a stream, where they grow, or of a recording. The
 * montage, the gain and the filters are computed here from samples; times of more than a minute come as the lowest and the highest
 * value of each pixel, without them. */
'use strict';

(() => {
    const NONE = -32768, PIECE_S = 15, SAMPLES_S = 60, LEAD_S = 4, TICK_MS = 250, BLOCKS = 900;
    const LABEL = 58, AXIS = 18, TRACK = 46;
    const CHAINS = ['Fp1-F7 F7-T3 T3-T5 T5-O1', 'Fp2-F8 F8-T4 T4-T6 T6-O2', 'Fp1-F3 F3-C3 C3-P3 P3-O1', 'Fp2-F4 F4-C4 C4-P4 P4-O2', 'Fz-Cz Cz-Pz'];
    const ELECTRODE = /^(Fp|AF|F|FC|FT|C|T|CP|TP|P|PO|O)(z|\d+)$/i;
    const NEWER = {T7: 'T3', T8: 'T4', P7: 'T5', P8: 'T6'};
    const CHOICES = {
        seconds: {label: 'Time', values: [5, 10, 15, 30, 60, 120, 600, 3600], text: (v) => v < 120 ? v + ' s' : v / 60 + ' min'},
        gain: {label: 'Gain', values: [20, 30, 50, 70, 100, 150, 200, 300, 500, 1000, 2000], text: (v) => v + ' µV'},
        montage: {label: 'Montage', values: ['pairs', 'average', 'recorded'], text: (v) => ({pairs: 'Double banana', average: 'Average', recorded: 'As recorded'})[v]},
        low: {label: 'High-pass', values: [0, 0.3, 0.5, 1, 3, 5], text: (v) => v ? v + ' Hz' : 'off'},
        high: {label: 'Low-pass', values: [0, 15, 30, 40, 70], text: (v) => v ? v + ' Hz' : 'off'},
        mains: {label: 'Mains', values: [0, 50, 60], text: (v) => v ? v + ' Hz' : 'off'},
        mode: {label: 'Mode', values: ['page', 'sweep'], text: (v) => ({page: 'Scroll', sweep: 'Sweep'})[v]},
    };
    const START = {seconds: 10, gain: 100, montage: 'pairs', low: 0.5, high: 70, mains: 50, mode: 'page'};

    function make(tag, attributes, ...children) {
        const element = document.createElement(tag);
        for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
        element.append(...children);
        return element;
    }

    const electrode = (name) => NEWER[name] || name;

    /* ---- filters: sections of second order, which begin settled on the first sample of each stretch ---- */
    function section(kind, hz, rate, q) {
        const w = 2 * Math.PI * hz / rate, c = Math.cos(w), alpha = Math.sin(w) / (2 * q), a0 = 1 + alpha;
        const b = kind === 'high' ? [(1 + c) / 2, -1 - c, (1 + c) / 2] : kind === 'low' ? [(1 - c) / 2, 1 - c, (1 - c) / 2] : [1, -2 * c, 1];
        return {b: b.map((x) => x / a0), a1: -2 * c / a0, a2: (1 - alpha) / a0, keeps: kind !== 'high'};
    }

    function sectionsOf(view, rate) {
        const chosen = [];
        if (view.low) chosen.push(section('high', view.low, rate, Math.SQRT1_2));
        if (view.high && view.high < rate / 2) chosen.push(section('low', view.high, rate, Math.SQRT1_2));
        if (view.mains && view.mains < rate / 2) chosen.push(section('notch', view.mains, rate, 12));
        return chosen;
    }

    function filter(x, chosen) {
        for (const {b, a1, a2, keeps} of chosen) {
            let s1 = 0, s2 = 0, base = NaN;
            for (let i = 0; i < x.length; i++) {
                if (isNaN(x[i])) {
                    base = NaN;
                    continue;
                }
                if (isNaN(base)) s1 = s2 = 0, base = x[i];
                const v = x[i] - base, y = b[0] * v + s1;
                s1 = b[1] * v - a1 * y + s2;
                s2 = b[2] * v - a2 * y;
                x[i] = keeps ? y + base : y;
            }
        }
        return x;
    }

    class Viewer {
        constructor(box) {
            this.box = box;
            this.url = box.dataset.eeg;
            this.head = null; /* of the newest answer */
            this.end = null; /* sample at the right edge; null: the newest one */
            this.blocks = new Map(); /* number of a second → its samples */
            this.probabilities = new Map();
            this.bins = null; /* the newest answer with bins */
            this.layers = []; /* drawn over the traces: (context, {x, top, bottom, from, to}) => void */
            this.stops = []; /* samples beside the marks to which the keys P and N go */
            this.view = {...START};
            try {
                Object.assign(this.view, JSON.parse(localStorage.getItem('eeg')));
            } catch (problem) {
                /* what was kept cannot be read */
            }
            const asked = new URLSearchParams(location.search);
            this.asked = asked.has('at') ? {s: Number(asked.get('at'))} : asked.has('t') ? {ms: Number(asked.get('t'))} : box.dataset.at >= 0 ? {s: Number(box.dataset.at)} : null;
            this.build();
            this.fetchNext();
        }

        /* ---- the controls ---- */
        build() {
            this.controls = {};
            const tools = make('div', {class: 'eeg-tools', role: 'toolbar', 'aria-label': 'EEG'});
            const fields = make('div', {}), more = make('details', {}, make('summary', {}, 'Gain, filters, montage'), fields);
            const button = (name, title, act) => {
                const b = make('button', {type: 'button', title, 'aria-label': title}, name);
                b.addEventListener('click', act);
                tools.append(b);
                return b;
            };
            button('«', 'One page back (Page up)', () => this.move(-0.9));
            button('‹', 'One second back (←)', () => this.moveBy(-1));
            button('›', 'One second on (→)', () => this.moveBy(1));
            button('»', 'One page on (Page down)', () => this.move(0.9));
            this.live = button('Live', 'Follow the newest samples (L)', () => this.follow());
            button('Previous', 'Previous alarm or event (P)', () => this.jump(-1));
            button('Next', 'Next alarm or event (N)', () => this.jump(1));
            for (const [name, choice] of Object.entries(CHOICES)) {
                const select = make('select', {'data-choice': name});
                for (const value of choice.values) select.append(make('option', {value}, choice.text(value)));
                select.value = this.view[name];
                if (select.selectedIndex < 0) select.value = this.view[name] = START[name];
                select.addEventListener('change', () => this.choose(name, choice.values[select.selectedIndex]));
                this.controls[name] = select;
                fields.append(make('label', {}, choice.label + ' ', select));
            }
            button('Picture', 'Save the picture (S)', () => this.save());
            more.open = innerWidth > 600;
            tools.append(more);
            this.said = make('p', {class: 'hint', role: 'status'});
            this.canvas = make('canvas', {role: 'img', tabindex: '0', 'aria-label': 'EEG traces'});
            this.box.append(tools, this.canvas, this.said);
            this.watchPointer();
            this.box.addEventListener('keydown', (e) => this.onKey(e));
            addEventListener('resize', () => this.draw());
            document.addEventListener('visibilitychange', () => document.hidden || this.fetchNext());
            matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
        }

        choose(name, value) {
            const middle = this.end === null ? null : this.end - this.length() / 2;
            this.view[name] = value;
            this.controls[name].value = value;
            localStorage.setItem('eeg', JSON.stringify(this.view));
            if (name === 'seconds' && middle !== null) this.go(middle + this.length() / 2);
            this.changed();
        }

        step(name, by) {
            const values = CHOICES[name].values, at = values.indexOf(this.view[name]) + by;
            if (values[at] !== undefined) this.choose(name, values[at]);
        }

        onKey(e) {
            if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || !this.head) return;
            const keys = {
                ArrowLeft: () => this.moveBy(e.shiftKey ? -0.2 : -1), ArrowRight: () => this.moveBy(e.shiftKey ? 0.2 : 1),
                Home: () => this.go(this.first() + this.length()), End: () => this.follow(), l: () => this.follow(),
                '+': () => this.step('gain', -1), '-': () => this.step('gain', 1), '[': () => this.step('seconds', -1), ']': () => this.step('seconds', 1),
                n: () => this.jump(1), p: () => this.jump(-1), s: () => this.save(),
            };
            if (document.activeElement === this.canvas) Object.assign(keys, {PageUp: () => this.move(-0.9), PageDown: () => this.move(0.9)});
            const act = keys[e.key];
            if (act) e.preventDefault(), act();
        }

        watchPointer() {
            let from = null;
            this.canvas.addEventListener('pointerdown', (e) => (from = {x: e.clientX, end: this.right()}));
            this.canvas.addEventListener('pointermove', (e) => {
                if (!from || !this.head || Math.abs(e.clientX - from.x) < 4) return;
                this.go(from.end - (e.clientX - from.x) / this.width() * this.length());
            });
            for (const over of ['pointerup', 'pointercancel', 'pointerleave']) this.canvas.addEventListener(over, () => (from = null));
        }

        save() {
            this.canvas.toBlob((picture) => {
                const link = make('a', {href: URL.createObjectURL(picture), download: 'eeg-' + (this.clock(this.right()) || '').replace(/\W+/g, '-') + '.png'});
                link.click();
                setTimeout(() => URL.revokeObjectURL(link.href), 10000);
            });
        }

        /* ---- where it looks ---- */
        rate() { return this.head.rate; }
        length() { return Math.round(this.view.seconds * this.rate()); }
        first() { return Math.min(this.head.kept[0], ...this.head.pins.map((p) => p[0])); }
        right() { return this.end === null ? this.head.kept[1] : this.end; }
        width() { return Math.max(60, this.canvas.clientWidth - LABEL); }
        binned() { return this.view.seconds > SAMPLES_S; }

        go(end) {
            const newest = this.head.kept[1];
            this.end = end >= newest && this.head.live ? null : Math.round(Math.max(Math.min(end, newest), Math.min(newest, this.first() + this.length())));
            this.changed();
        }

        moveBy(seconds) { this.go(this.right() + seconds * this.rate()); }
        move(pages) { this.go(this.right() + pages * this.length()); }

        follow() {
            this.end = this.head.live ? null : this.head.kept[1];
            this.changed();
        }

        /* Shows the moment at two thirds of the page: what led to it is of interest. */
        show(sample) {
            this.end = Math.round(sample + this.length() / 3);
            this.changed();
        }

        jump(by) {
            const here = this.right() - this.length() / 3, starts = [...this.head.marks.filter((m) => m.kind !== 'alarm_off').map((m) => m.first), ...this.stops].sort((a, b) => a - b);
            const next = by > 0 ? starts.find((s) => s > here + 1) : starts.reverse().find((s) => s < here - 1);
            if (next === undefined) return;
            this.show(next);
            this.box.dispatchEvent(new CustomEvent('jumped', {detail: next}));
        }

        changed() {
            this.draw();
            this.fetchNext();
        }

        /* Time of day of a sample: by the clock of the recording, else by when it came. */
        wall(sample) {
            const h = this.head;
            return h.start_ms !== undefined ? h.start_ms && h.start_ms + sample / h.rate * 1000 : h.newest_ms && h.newest_ms - (h.kept[1] - sample) / h.rate * 1000;
        }

        clock(sample) {
            const ms = this.wall(sample), s = Math.max(0, sample / this.rate());
            if (!ms) return [s / 3600, s / 60 % 60, s % 60].map((x) => String(Math.floor(x)).padStart(2, '0')).join(':');
            return new Date(ms).toLocaleTimeString('en-GB', this.head.start_ms !== undefined ? {timeZone: 'UTC'} : {});
        }

        /* ---- samples ---- */
        block(number) {
            const size = Math.round(this.rate());
            let block = this.blocks.get(number);
            if (block) return block;
            block = {have: 0, held: [], uv: this.head.rows.map(() => new Float32Array(size).fill(NaN))};
            this.blocks.set(number, block);
            if (this.blocks.size > BLOCKS) this.blocks.delete(this.blocks.keys().next().value);
            return block;
        }

        /* The first sample of [from, to) that was never asked for; −1: none. */
        missing(from, to) {
            const size = Math.round(this.rate());
            for (let number = Math.floor(from / size); number * size < to; number++) {
                const block = this.blocks.get(number), have = number * size + (block ? block.have : 0);
                if (have < Math.min(to, (number + 1) * size)) return Math.max(have, Math.floor(from / size) * size);
            }
            return -1;
        }

        keep(asked, head, values) {
            const size = Math.round(head.rate), end = head.from + head.n;
            for (let number = Math.floor(asked / size); number * size < end; number++) {
                const block = this.block(number), base = number * size, first = Math.max(base, head.from), last = Math.min(base + size, end);
                for (let row = 0; row < head.rows.length; row++)
                    for (let i = first; i < last; i++) {
                        const v = values[row * head.n + i - head.from];
                        block.uv[row][i - base] = v === NONE ? NaN : v * head.scale;
                    }
                block.held.push(...head.held.filter(([from, to]) => from < last && to > first));
                block.have = Math.max(block.have, last - base);
            }
        }

        query() {
            if (!this.head) return {from: -1, n: 0, bin: 1};
            const h = this.head, to = this.right(), from = Math.max(0, to - this.length());
            if (this.binned()) {
                const bin = Math.max(2, Math.ceil(this.length() / this.width()));
                const key = [from - from % bin, to, bin].join();
                return this.bins && this.bins.key === key && !h.live ? null : {from: from - from % bin, n: Math.min(to - from, 3600 * h.rate), bin, key};
            }
            const missing = this.missing(Math.max(this.first(), from - LEAD_S * h.rate), Math.min(to, h.kept[1]));
            const at = missing >= 0 ? missing : h.live ? h.kept[1] : -1;
            return at < 0 ? null : {from: at, n: Math.floor(PIECE_S * h.rate), bin: 1};
        }

        async fetchNext() {
            clearTimeout(this.timer);
            if (this.fetching || document.hidden || !this.box.isConnected) return;
            const q = this.query();
            if (!q) return;
            const begun = Date.now();
            let again = TICK_MS;
            this.fetching = true;
            try {
                const answer = await fetch(this.url + '?from=' + q.from + '&n=' + q.n + '&bin=' + q.bin, {cache: 'no-store'});
                if (!answer.ok) throw new Error(await answer.text());
                this.take(q, await answer.arrayBuffer());
                this.problem = '';
                if (!this.binned() && this.query() && this.query().from < this.head.kept[1]) again = 0;
            } catch (problem) {
                this.problem = problem.message;
                again = 2000;
            }
            this.fetching = false;
            this.draw();
            if (!this.head || this.head.live || again === 0 || this.problem) this.timer = setTimeout(() => this.fetchNext(), Math.max(0, again - (Date.now() - begun)));
            else if (this.query()) this.fetchNext();
        }

        take(q, buffer) {
            const bytes = new Uint8Array(buffer), at = bytes.indexOf(10);
            const head = JSON.parse(new TextDecoder().decode(bytes.subarray(0, at)));
            const little = new Int16Array(buffer, at + 1);
            if (this.head && (head.rows.join() !== this.head.rows.join() || head.kept[1] < this.head.kept[1])) this.blocks.clear(); /* the stream began anew */
            const before = this.head;
            this.head = head;
            for (let i = 0; i < head.p.length; i++) if (head.p[i] >= 0) this.probabilities.set(head.p_first / head.p_step + i, head.p[i] / 1000);
            if (this.probabilities.size > 100000) this.probabilities.clear();
            if (q.bin > 1) this.bins = {key: q.key, from: head.from, n: head.n, bin: head.bin, held: head.held, values: little};
            else if (q.n) this.keep(q.from, head, little);
            if (before) return;
            this.begin();
            this.box.dispatchEvent(new Event('begun'));
        }

        /* The first answer: the montage that the rows allow, and the moment that the link asked for. */
        begin() {
            const names = new Set(this.head.rows.map(electrode)), pairs = CHAINS.join(' ').split(' ');
            const can = pairs.filter((pair) => pair.split('-').every((e) => names.has(e))).length >= 4;
            this.controls.montage.closest('label').hidden = !can;
            if (!can) this.view.montage = 'recorded';
            this.live.hidden = !this.head.live;
            this.controls.mode.closest('label').hidden = !this.head.live;
            if (!this.head.live) this.end = this.head.start_ms === undefined ? this.head.kept[1] : Math.min(this.head.kept[1], this.length());
            if (!this.asked) return;
            const mark = this.head.marks.find((m) => this.asked.ms && m.kind === 'alarm_on' && Math.abs(m.ms - this.asked.ms) < 3000);
            this.show(this.asked.s !== undefined ? this.asked.s * this.rate() : mark ? mark.first : this.head.kept[1] - (this.head.newest_ms - this.asked.ms) / 1000 * this.rate());
        }

        /* ---- the picture ---- */

        /* The traces of the montage: [name, row, row or 'average' or −1]. */
        traces() {
            const rows = this.head.rows.map(electrode), all = this.head.rows.map((name, row) => [name, row, -1]);
            if (this.view.montage === 'recorded' || this.binned()) return all;
            if (this.view.montage === 'average') return all.map(([name, row]) => ELECTRODE.test(name) ? [name + '-Av', row, 'average'] : [name, row, -1]);
            const chains = CHAINS.join(' ').split(' ').map((pair) => [pair, ...pair.split('-').map((e) => rows.indexOf(e))]).filter((t) => t[1] >= 0 && t[2] >= 0);
            return chains.concat(all.filter(([name]) => /E[CKOM]G/i.test(name)));
        }

        /* Samples [from, to) of all rows, NaN where there is none. */
        samples(from, to) {
            const size = Math.round(this.rate());
            return this.head.rows.map((name, row) => {
                const x = new Float32Array(to - from).fill(NaN);
                for (let number = Math.floor(from / size); number * size < to; number++) {
                    const block = this.blocks.get(number), base = number * size;
                    if (block) x.set(block.uv[row].subarray(Math.max(0, from - base), Math.min(size, to - base)), Math.max(0, base - from));
                }
                return x;
            });
        }

        derive(rows, [, plus, minus]) {
            const x = rows[plus].slice();
            if (minus === 'average') for (let i = 0; i < x.length; i++) x[i] -= this.mean[i];
            else if (minus >= 0) for (let i = 0; i < x.length; i++) x[i] -= rows[minus][i];
            return x;
        }

        average(rows) {
            const sum = new Float32Array(rows[0].length), n = new Float32Array(sum.length);
            for (const row of rows.filter((_, i) => ELECTRODE.test(this.head.rows[i]))) for (let i = 0; i < sum.length; i++) if (!isNaN(row[i])) sum[i] += row[i], n[i]++;
            return sum.map((x, i) => x / n[i]);
        }

        /* Spans within [from, to) that were held, not measured: [first, end, rows…], without rows those of all. */
        held(from, to) {
            const size = Math.round(this.rate()), spans = this.binned() ? this.bins ? this.bins.held : [] : [];
            if (!this.binned()) for (let number = Math.floor(from / size); number * size < to; number++) spans.push(...(this.blocks.get(number) || {held: []}).held);
            return spans.filter((span) => span[0] < to && span[1] > from);
        }

        /* What is drawn where: pages of [from, to) whose first sample stands at `left`. A sweep writes over the page before. */
        parts() {
            const n = this.length(), to = this.right();
            if (this.view.mode !== 'sweep' || this.end !== null || this.binned()) return [{from: to - n, to, left: to - n}];
            const page = to - to % n, blank = Math.round(n / 40);
            return [{from: page, to, left: page}, {from: Math.min(page, to - n + blank), to: page, left: page - n}];
        }

        draw() {
            if (!this.head || !this.box.isConnected) return;
            const style = getComputedStyle(this.box), colour = (name) => style.getPropertyValue(name).trim();
            this.colours = {ink: colour('--ink'), soft: colour('--soft'), line: colour('--line'), card: colour('--card'), left: colour('--curve'), right: colour('--c1'), alarm: colour('--alarm'), event: colour('--event'), accent: colour('--accent'), fine: colour('--fine'), middle: colour('--ink')};
            const traces = this.traces(), wide = this.canvas.clientWidth || 300, dense = Math.max(devicePixelRatio || 1, 1);
            const row = Math.max(wide < 600 ? 19 : 24, Math.min(36, Math.floor((innerHeight * 0.72 - AXIS - TRACK) / traces.length)));
            const high = traces.length * row + AXIS + TRACK;
            if (this.canvas.width !== Math.round(wide * dense) || this.canvas.height !== Math.round(high * dense)) {
                this.canvas.width = Math.round(wide * dense);
                this.canvas.height = Math.round(high * dense);
                this.canvas.style.height = high + 'px';
            }
            const c = this.canvas.getContext('2d');
            c.setTransform(dense, 0, 0, dense, 0, 0);
            c.fillStyle = this.colours.card;
            c.fillRect(0, 0, wide, high);
            c.font = '11px system-ui, "DejaVu Sans", sans-serif';
            c.textBaseline = 'middle';
            this.plan = {row, wide, high, body: traces.length * row, scale: this.width() / this.length(), holds: false};
            this.hatch = this.makeHatch(c, dense);
            for (const part of this.parts()) this.drawPart(c, part, traces);
            this.drawLabels(c, traces);
            this.say();
        }

        drawPart(c, part, traces) {
            const x = (sample) => LABEL + (sample - part.left) * this.plan.scale;
            c.save();
            c.beginPath();
            c.rect(x(part.from), 0, x(part.to) - x(part.from), this.plan.high);
            c.clip();
            this.drawGrid(c, part, x);
            this.drawMarks(c, part, x, (m, from, to) => {
                c.globalAlpha = .15;
                c.fillRect(from, 0, to - from, this.plan.body);
                c.globalAlpha = 1;
            });
            c.save();
            c.beginPath();
            c.rect(LABEL, 0, this.plan.wide, this.plan.body);
            c.clip();
            this.drawHeld(c, part, traces, x);
            if (this.binned()) this.drawBins(c, traces, x);
            else this.drawTraces(c, part, traces, x);
            c.restore();
            this.drawMarks(c, part, x, (m, from, to) => this.drawMark(c, m, from, to));
            this.drawProbability(c, part, x);
            for (const layer of this.layers) layer(c, {x, top: 0, bottom: this.plan.body, from: part.from, to: part.to});
            c.restore();
        }

        makeHatch(c, dense) {
            const size = Math.round(6 * dense), tile = make('canvas', {width: size, height: size}), t = tile.getContext('2d');
            t.fillStyle = this.colours.line;
            t.fillRect(0, 0, size, size);
            t.strokeStyle = this.colours.soft;
            t.lineWidth = dense;
            for (const at of [-size, 0, size]) t.moveTo(at - 1, size + 1), t.lineTo(at + size + 1, -1);
            t.stroke();
            const pattern = c.createPattern(tile, 'repeat');
            pattern.setTransform(new DOMMatrix().scale(1 / dense));
            return pattern;
        }

        /* Hatches each pixel of a trace that has held samples: those of the trace itself, or of what is taken from it. */
        drawHeld(c, part, traces, x) {
            const spans = this.held(part.from, part.to);
            c.beginPath();
            traces.forEach(([, plus, minus], k) => {
                for (const [first, end, ...rows] of spans) {
                    if (rows.length && !rows.includes(plus) && !rows.includes(minus)) continue;
                    const left = Math.floor(x(first));
                    c.rect(left, k * this.plan.row, Math.ceil(x(end)) - left, this.plan.row);
                    this.plan.holds = true;
                }
            });
            c.fillStyle = this.hatch;
            c.fill();
        }

        drawGrid(c, part, x) {
            const rate = this.rate(), seconds = this.view.seconds, fine = seconds <= 30 ? 1 : seconds <= 120 ? 5 : seconds / 20;
            const named = [1, 2, 5, 10, 30, 60, 120, 300, 600].find((s) => s * rate * this.plan.scale > 62 && s >= fine) || 600;
            const shift = this.wall(0) / 1000 % fine || 0;
            c.fillStyle = this.colours.soft;
            c.strokeStyle = this.colours.line;
            c.lineWidth = 1;
            for (let s = Math.ceil((part.from / rate + shift) / fine) * fine - shift; s * rate < part.to; s += fine) {
                const at = Math.round(x(s * rate)) + .5;
                c.beginPath();
                c.moveTo(at, 0);
                c.lineTo(at, this.plan.body);
                c.stroke();
                const text = Math.round(s + shift) % named === 0 && this.clock(Math.round(s * rate)); /* whole, or not at all */
                if (text && at + 2 + c.measureText(text).width <= this.plan.wide) c.fillText(text, at + 2, this.plan.body + AXIS / 2);
            }
        }

        /* paint(mark, from, to) in pixels, for each alarm and event of the part. */
        drawMarks(c, part, x, paint) {
            const marks = this.head.marks;
            for (const m of marks) {
                const alarm = m.kind === 'alarm_on';
                if (m.kind === 'alarm_off') continue;
                const off = alarm && marks.find((o) => o.kind === 'alarm_off' && o.first >= m.first), end = alarm ? off ? off.first : this.head.kept[1] : m.end;
                if (end < part.from || m.first > part.to) continue;
                c.fillStyle = alarm ? this.colours.alarm : this.colours.event;
                paint(m, x(m.first), x(end));
            }
        }

        drawMark(c, m, from, to) {
            const alarm = m.kind === 'alarm_on', text = alarm ? 'Alarm' : m.text || 'Event';
            if (alarm) c.fillRect(from - 1, 0, 2, this.plan.body);
            else c.fillRect(from, this.plan.body - 4, to - from, 4);
            const wide = c.measureText(text).width + 8, top = alarm ? 0 : this.plan.body - 20;
            c.fillRect(from, top, wide, 16);
            c.fillStyle = alarm ? '#fff' : '#1d1600';
            c.fillText(text, from + 4, top + 8);
        }

        /* Left of the head in one colour, right in another, the middle in ink, as chains are told apart on paper. */
        colourOf(name) {
            const digits = /(\d+)/.exec(name);
            return !digits ? this.colours.middle : Number(digits[1]) % 2 ? this.colours.left : this.colours.right;
        }

        drawTraces(c, part, traces, x) {
            const from = Math.max(0, Math.floor(part.from - LEAD_S * this.rate())), to = Math.ceil(part.to), chosen = sectionsOf(this.view, this.rate());
            if (to <= from) return;
            const rows = this.samples(from, to), per = 1 / this.plan.scale;
            this.mean = this.view.montage === 'average' ? this.average(rows) : null;
            c.lineWidth = 1;
            traces.forEach((trace, k) => {
                const uv = filter(this.derive(rows, trace), chosen), middle = (k + .5) * this.plan.row, scale = this.plan.row / this.view.gain;
                c.strokeStyle = this.colourOf(trace[0]);
                c.beginPath();
                let on = false;
                for (let i = Math.max(0, Math.floor(part.from) - from); i < uv.length;) {
                    const stop = per > 2 ? Math.min(uv.length, Math.ceil((Math.floor((i + from - part.left) / per) + 1) * per + part.left - from)) : i + 1;
                    let low = Infinity, high = -Infinity, last = Math.max(stop, i + 1), at = x(i + from);
                    for (; i < last; i++) low = Math.min(low, isNaN(uv[i]) ? low : uv[i]), high = Math.max(high, isNaN(uv[i]) ? high : uv[i]);
                    if (low > high) {
                        on = false;
                        continue;
                    }
                    if (on) c.lineTo(at, middle + low * scale);
                    else c.moveTo(at, middle + low * scale);
                    if (high > low) c.lineTo(at, middle + high * scale);
                    on = true;
                }
                c.stroke();
            });
        }

        drawBins(c, traces, x) {
            const b = this.bins;
            if (!b) return;
            c.lineWidth = 1;
            const n = b.n / b.bin, scale = this.plan.row / this.view.gain * this.head.scale;
            traces.forEach((trace, k) => {
                c.strokeStyle = this.colourOf(trace[0]);
                c.beginPath();
                for (let i = 0; i < n; i++) {
                    const low = b.values[(trace[1] * n + i) * 2], high = b.values[(trace[1] * n + i) * 2 + 1], at = x(b.from + i * b.bin);
                    if (high === NONE) continue;
                    c.moveTo(at, (k + .5) * this.plan.row + low * scale - .5);
                    c.lineTo(at, (k + .5) * this.plan.row + high * scale + .5);
                }
                c.stroke();
            });
        }

        drawProbability(c, part, x) {
            const top = this.plan.body + AXIS, high = TRACK - 6, y = (p) => top + high * (1 - p), step = this.head.p_step;
            if (!step) return;
            c.strokeStyle = this.colours.soft;
            if (this.head.on > 0) {
                c.setLineDash([4, 4]);
                c.beginPath();
                c.moveTo(x(part.from), y(this.head.on));
                c.lineTo(x(part.to), y(this.head.on));
                c.stroke();
                c.setLineDash([]);
            }
            c.strokeStyle = this.colours.ink;
            c.lineWidth = 1.5;
            c.beginPath();
            let on = false;
            for (let i = Math.floor(part.from / step); i * step < part.to; i++) {
                const p = this.probabilities.get(i);
                if (p === undefined) on = false;
                else if (on) c.lineTo(x(i * step), y(p)), c.lineTo(x((i + 1) * step), y(p));
                else c.moveTo(x(i * step), y(p)), c.lineTo(x((i + 1) * step), y(p)), on = true;
            }
            c.stroke();
        }

        drawLabels(c, traces) {
            c.fillStyle = this.colours.card;
            c.fillRect(0, 0, LABEL, this.plan.high);
            traces.forEach(([name], k) => {
                c.fillStyle = this.colourOf(name);
                c.fillText(name, 2, (k + .5) * this.plan.row, LABEL - 4);
            });
            c.fillStyle = this.colours.soft;
            c.fillText('probability', 2, this.plan.body + AXIS + TRACK / 2 - 3, LABEL - 4);
            if (this.plan.holds) {
                c.fillText('held', 16, this.plan.body + AXIS / 2, LABEL - 18);
                c.fillStyle = this.hatch;
                c.fillRect(2, this.plan.body + 4, 11, AXIS - 8);
            }
            c.strokeStyle = c.fillStyle = this.colours.ink; /* the scale: a row in height, a second in width where there is room */
            const right = this.plan.wide - 6, bottom = this.plan.body - 6, text = this.view.gain + ' µV';
            c.lineWidth = 2;
            c.beginPath();
            c.moveTo(right, bottom - this.plan.row);
            c.lineTo(right, bottom);
            c.stroke();
            const wide = c.measureText(text).width;
            c.fillStyle = this.colours.card;
            c.fillRect(right - 8 - wide, bottom - this.plan.row / 2 - 8, wide + 6, 16);
            c.fillStyle = this.colours.ink;
            c.fillText(text, right - 5 - wide, bottom - this.plan.row / 2);
        }

        say() {
            const h = this.head, from = this.right() - this.length(), gone = this.right() <= this.first() || (this.end !== null && !this.plan.holds && !this.binned() && this.missing(from, this.right()) < 0 && this.empty(from));
            const text = this.problem || (gone ? 'The EEG of this time is no longer kept.' : this.clock(Math.max(0, from)) + ' to ' + this.clock(this.right()) + (this.end === null && h.live ? ', live' : '') +
                (this.binned() ? '. Lowest and highest values, as recorded and without filters.' : '. Negative is up.') + (this.plan.holds ? ' Hatched: held, not measured.' : ''));
            if (this.said.textContent !== text) this.said.textContent = text;
            this.live.setAttribute('aria-pressed', this.end === null);
            this.box.dataset.newest = h.kept[1];
            this.canvas.setAttribute('aria-label', 'EEG traces of ' + this.traces().length + ' channels, ' + text);
        }

        empty(from) { return this.samples(Math.max(0, Math.floor(from)), Math.max(1, Math.ceil(this.right()))).every((row) => row.every(isNaN)); }
    }

    function start() {
        const box = document.querySelector('section[data-eeg]');
        if (box && !box.viewer) box.viewer = new Viewer(box);
    }
    start();
    document.addEventListener('exchanged', start);
})();

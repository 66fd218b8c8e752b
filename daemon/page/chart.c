#include "daemon/page/chart.h"

#include "daemon/page/words.h"
#include "eeg/quality.h"

/* ---- the last minute ---- */

static double height_of(double p) { return CHART_HEIGHT - 1 - (CHART_HEIGHT - 2) * (p < 0 ? 0 : p > 1 ? 1 : p); }

/* Digits of a number below 1000. Written by hand: an event of many streams has thousands of these numbers. */
static char *put_number(char *at, int value) {
    if (value >= 100)
        *at++ = (char)('0' + value / 100);
    if (value >= 10)
        *at++ = (char)('0' + value / 10 % 10);
    *at++ = (char)('0' + value % 10);
    return at;
}

static char *put_height(char *at, double p) {
    const int tenths = (int)lround(10 * height_of(p));
    at = put_number(at, tenths / 10);
    *at++ = '.';
    return put_number(at, tenths % 10);
}

const char *chart_height(double p, char text[CHART_HEIGHT_SIZE]) {
    *put_height(text, p) = '\0';
    return text;
}

/* "M21 1.0": a move or a line to second i, in tenths. */
static char *put_point(char *at, char move, int i, double p) {
    *at++ = move;
    at = put_number(at, 2 * i + 1);
    *at++ = ' ';
    return put_height(at, p);
}

const char *chart_minute(const float minute[STATUS_MINUTE], char path[CHART_PATH_SIZE]) {
    _Static_assert(STATUS_MINUTE * (sizeof "M119 31.0h1" - 1) < CHART_PATH_SIZE, "a minute of lone points fits");
    char *at = path;
    for (int i = 0, down = 0; i < STATUS_MINUTE; i++) {
        const bool is_value = isfinite(minute[i]);
        if (is_value)
            at = put_point(at, down ? 'L' : 'M', i, (double)minute[i]);
        if (is_value && !down && (i + 1 == STATUS_MINUTE || !isfinite(minute[i + 1]))) {
            memcpy(at, "h1", 2); /* a lone point is seen too */
            at += 2;
        }
        down = is_value;
    }
    *at = '\0';
    if (at == path)
        str_copy(path, CHART_PATH_SIZE, "M0 0");
    return path;
}

void chart_put_minute(struct html *h, const struct status_stream *s) {
    char path[CHART_PATH_SIZE];
    struct words w;
    html_put(h,
             "<svg class=\"minute\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"probability of "
             "the last 60 s, now %s\">",
             CHART_WIDTH, CHART_HEIGHT, words_p(&w, s->bed.probability));
    if (s->bed.threshold_on > 0)
        html_put(h, "<path class=\"on\" d=\"M0 %.1fH%d\"/>", height_of(s->bed.threshold_on), CHART_WIDTH);
    html_put(h, "<path class=\"p\" data-f=\"minute\" d=\"%s\"/></svg>", chart_minute(s->minute, path));
}

/* ---- the last hours ---- */

enum { WIDE = 1080, TALL = 200, BAND = 14 };

static void put_spans(struct html *h, const struct chart_hours *c, bool events) {
    for (int i = 0; i < c->n_spans; i++) {
        const struct chart_span *s = &c->spans[i];
        double x = fmax(s->from, 0) * WIDE, width = fmax((fmin(s->to, 1) - fmax(s->from, 0)) * WIDE, 2);
        if (s->event != events || s->to < 0 || s->from > 1)
            continue;
        html_put(h, "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>", events ? "event" : "alarm", x,
                 events ? TALL + 4 : 0, width, events ? BAND - 4 : TALL);
    }
}

static void put_time_lines(struct html *h, int seconds) {
    const int step = seconds > 2 * 3600 ? 3600 : seconds > 1800 ? 600 : 180, lines = seconds / step;
    for (int i = 0; i <= lines; i++) {
        double x = (double)WIDE * i / lines;
        int before = (lines - i) * step;
        html_put(h, "<path class=\"grid\" d=\"M%.1f 0V%d\"/>", x, TALL + BAND);
        if (before)
            html_put(h, "<text x=\"%.1f\" y=\"%d\">−%d %s</text>", x + 4, TALL + BAND + 16, before / (before < 3600 ? 60 : 3600),
                     before < 3600 ? "min" : "h");
    }
    html_put(h, "<text class=\"end\" x=\"%d\" y=\"%d\">now</text>", WIDE, TALL + BAND + 16);
    for (int i = 0; i <= 4; i++)
        html_put(h, "<path class=\"grid\" d=\"M0 %dH%d\"/>", TALL * i / 4, WIDE);
    html_put(h, "<text x=\"4\" y=\"14\">1</text><text x=\"4\" y=\"%d\">0</text>", TALL - 4);
}

void chart_put_hours(struct html *h, const struct chart_hours *c) {
    html_put(h, "<svg class=\"hours\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"probability, alarms and events over time\">",
             WIDE, TALL + BAND + 22);
    put_spans(h, c, false);
    put_time_lines(h, c->n * (PAST_STEP_MS / 1000));
    if (c->on > 0)
        html_put(h, "<path class=\"on\" d=\"M0 %.1fH%d\"/>", TALL * (1 - c->on), WIDE);
    html_put(h, "<path class=\"p\" d=\"");
    bool down = false;
    for (int i = 0; i < c->n; i++) {
        if (isfinite(c->points[i]))
            html_put(h, "%s%.1f %.1f", down ? "L" : "M", (double)WIDE * i / (c->n - 1), TALL * (1 - (double)c->points[i]));
        if (isfinite(c->points[i]) && !down && (i + 1 == c->n || !isfinite(c->points[i + 1])))
            html_put(h, "h1"); /* a lone point is seen too */
        down = isfinite(c->points[i]);
    }
    html_put(h, "%s\"/>", down ? "" : "M0 0");
    put_spans(h, c, true);
    html_put(h, "</svg>");
}

/* ---- curves ---- */

enum { CURVE_WIDE = 520, CURVE_TALL = 180, LEFT = 48, BELOW = 22 };

struct range {
    double x0, x1, y1;
};

static struct range range_of(const struct chart_series *series, int n, double top) {
    struct range r = {INFINITY, -INFINITY, top};
    for (int k = 0; k < n; k++)
        for (int i = 0; i < series[k].n; i++) {
            if (!isfinite(series[k].y[i]))
                continue;
            r.x0 = fmin(r.x0, series[k].x[i]);
            r.x1 = fmax(r.x1, series[k].x[i]);
            r.y1 = top > 0 ? top : fmax(r.y1, series[k].y[i]);
        }
    r.x1 = r.x1 > r.x0 ? r.x1 : r.x0 + 1;
    r.y1 = r.y1 > 0 ? r.y1 : 1;
    return r;
}

static void put_curve(struct html *h, const struct chart_series *s, const struct range *r, int number) {
    int points = 0;
    html_put(h, "<path class=\"curve c%d\" d=\"", number);
    for (int i = 0; i < s->n; i++) {
        if (!isfinite(s->y[i]))
            continue;
        html_put(h, "%s%.1f %.1f", points++ ? "L" : "M", LEFT + (s->x[i] - r->x0) / (r->x1 - r->x0) * (CURVE_WIDE - LEFT - 8),
                 CURVE_TALL - fmin(s->y[i] / r->y1, 1) * (CURVE_TALL - 8));
    }
    html_put(h, "%s\"/>", points > 1 ? "" : points ? "h3" : "M0 0"); /* a lone point is seen too */
}

void chart_put_curves(struct html *h, const struct chart_series *series, int n, double top) {
    struct words w;
    const struct range r = range_of(series, n, top);
    if (!isfinite(r.x0))
        return;
    html_put(h, "<figure><svg class=\"curves\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", CURVE_WIDE, CURVE_TALL + BELOW);
    for (int k = 0; k < n; k++)
        html_put(h, "%s%s", k ? ", " : "", series[k].name);
    html_put(h, " over steps\">");
    for (int i = 0; i <= 2; i++) {
        double y = CURVE_TALL - (CURVE_TALL - 8) * i / 2.0;
        html_put(h, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"end\" x=\"%d\" y=\"%.1f\">%s</text>", LEFT, y,
                 CURVE_WIDE, LEFT - 6, y + 4, words_number(&w, r.y1 * i / 2, ""));
    }
    html_put(h, "<text x=\"%d\" y=\"%d\">%s</text>", LEFT, CURVE_TALL + 17, words_number(&w, r.x0, ""));
    html_put(h, "<text class=\"end\" x=\"%d\" y=\"%d\">%s</text>", CURVE_WIDE, CURVE_TALL + 17, words_number(&w, r.x1, ""));
    for (int k = 0; k < n; k++)
        put_curve(h, &series[k], &r, k);
    html_put(h, "</svg><figcaption>");
    for (int k = 0; k < n; k++)
        html_put(h, "<span class=\"key c%d\">%s</span>", k, series[k].name);
    html_put(h, " over steps</figcaption></figure>");
}

void chart_put_spark(struct html *h, const float *values, int n, const char *what) {
    float top = 0;
    for (int i = 0; i < n; i++)
        top = values[i] > top ? values[i] : top;
    html_put(h, "<svg class=\"spark\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"%s\">",
             CHART_WIDTH, CHART_HEIGHT, what);
    html_put(h, "<path class=\"p\" d=\"");
    for (int i = 0; i < n; i++)
        html_put(h, "%s%.1f %.1f", i ? "L" : "M", 1 + (double)(CHART_WIDTH - 2) * i / (n > 1 ? n - 1 : 1),
                 height_of(top > 0 ? (double)(values[i] / top) : 0));
    html_put(h, "\"/></svg>");
}

/* ---- the head ---- */

enum { HEAD = 240, MIN_ELECTRODES = 4 };

/* Seen from above, nose up; -1..1. */
static const struct electrode {
    const char *name, *other; /* older name, or NULL */
    double x, y;
} electrodes[] = {{"Fp1", NULL, -.26, -.81}, {"Fp2", NULL, .26, -.81}, {"F7", NULL, -.69, -.50}, {"F3", NULL, -.38, -.44},
                  {"Fz", NULL, 0, -.42},     {"F4", NULL, .38, -.44},  {"F8", NULL, .69, -.50},  {"T7", "T3", -.85, 0},
                  {"C3", NULL, -.43, 0},     {"Cz", NULL, 0, 0},       {"C4", NULL, .43, 0},     {"T8", "T4", .85, 0},
                  {"P7", "T5", -.69, .50},   {"P3", NULL, -.38, .44},  {"Pz", NULL, 0, .42},     {"P4", NULL, .38, .44},
                  {"P8", "T6", .69, .50},    {"O1", NULL, -.26, .81},  {"O2", NULL, .26, .81}};
enum { ELECTRODES = sizeof electrodes / sizeof *electrodes };

/* "EEG Fp1-REF" is Fp1; "Fp1-F7" is none. */
static bool is_at(const char *label, const char *name) {
    static const char *const references[] = {"-REF", "-LE", "-AVG", "-AR", "-A1", "-A2", "."};
    label += strncasecmp(label, "EEG ", 4) ? 0 : 4;
    if (strncasecmp(label, name, strlen(name)) != 0)
        return false;
    const char *rest = label + strlen(name);
    bool plain = !*rest;
    for (size_t i = 0; i < sizeof references / sizeof *references; i++)
        plain = plain || !strncasecmp(rest, references[i], strlen(references[i]));
    return plain;
}

static const struct status_channel *channel_at(const struct electrode *e, const struct status_channel *c, int n) {
    for (int i = 0; i < n; i++)
        if (is_at(c[i].name, e->name) || (e->other && is_at(c[i].name, e->other)))
            return &c[i];
    return NULL;
}

bool chart_put_head(struct html *h, const struct status_channel *channels, int n) {
    const struct status_channel *at[ELECTRODES];
    int found = 0;
    for (int i = 0; i < ELECTRODES; i++)
        found += (at[i] = channel_at(&electrodes[i], channels, n)) != NULL;
    if (found < MIN_ELECTRODES)
        return false;
    html_put(h,
             "<svg class=\"head\" viewBox=\"-%d -%d %d %d\" role=\"img\" aria-label=\"electrodes on the head; the table lists "
             "their quality\"><path class=\"skull\" d=\"M-14 -111L0 -128L14 -111\"/><circle class=\"skull\" r=\"112\"/>",
             HEAD / 2 + 4, HEAD / 2 + 12, HEAD + 8, HEAD + 16);
    for (int i = 0; i < ELECTRODES; i++) {
        const struct electrode *e = &electrodes[i];
        const char *state = !at[i] ? "absent" : !at[i]->flaws ? "good" : at[i]->flaws & QUALITY_MISSING ? "missing" : "bad";
        html_put(h, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"14\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>", state,
                 e->x * 104, e->y * 104, e->x * 104, e->y * 104 + 4, e->name);
    }
    html_put(h, "</svg>");
    return true;
}

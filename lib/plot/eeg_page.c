#include "plot/eeg_page.h"

#include "base/order.h"
#include "plot/svg.h"

enum {
    PAGE_LEFT = 92,
    PAGE_WIDTH = 1440,
    PAGE_RIGHT = 78,
    PAGE_TOP = 72,
    PAGE_CHAIN_GAP = 14,
    PAGE_TRACK = 20,
    PAGE_BAR = 12,
    PAGE_DAY_S = 86400
};
#define PAGE_CLIP_ROWS 2.0 /* a trace goes no further than this many rows from its line */

static const char page_style[] =
    "<style>.left{stroke:#1d4ed8}.right{stroke:#b91c1c}.middle{stroke:#374151}.wave{fill:none;stroke-width:1;stroke-linejoin:round}"
    ".left-name{fill:#1d4ed8}.right-name{fill:#b91c1c}.middle-name{fill:#374151}.onset{stroke:#ea580c;stroke-width:1.4;stroke-"
    "dasharray:6 4}.true-onset{stroke:#0f766e;stroke-width:1.4;stroke-dasharray:2 "
    "4}.alarm-line{stroke:#be123c;stroke-width:1.6}.found{fill:#ea580c;fill-opacity:.07}text.label{font-size:13px}</style>\n";

static int channels_of(const struct eeg_page *p) { return p->channels < EEG_PAGE_CHANNELS ? p->channels : EEG_PAGE_CHANNELS; }
static double row_height(const struct eeg_page *p) { return p->channels <= 12 ? 46 : fmax(18, 600.0 / p->channels); }
static double x_of(const struct eeg_page *p, double time_s) {
    return PAGE_LEFT + PAGE_WIDTH * fmin(fmax((time_s - p->from_s) / p->seconds, 0), 1);
}

/* "left", "right" or "middle" by the number of the channel's first electrode. */
static const char *side_of(const char *name) {
    size_t end = strcspn(name, "-");
    if (!end || name[end - 1] < '0' || name[end - 1] > '9')
        return "middle";
    return (name[end - 1] - '0') % 2 ? "left" : "right";
}

/* A bipolar channel begins a chain unless its first electrode is the second one of the channel above it; channels with a common
 * reference are grouped by side. */
static bool begins_group(const struct eeg_page *p, int c) {
    if (!c)
        return false;
    const char *above = p->names[c - 1], *dash = strchr(above, '-'), *own = strchr(p->names[c], '-');
    if (!dash || !own || !strcmp(dash, own))
        return strcmp(side_of(above), side_of(p->names[c])) != 0;
    size_t len = (size_t)(own - p->names[c]);
    return strlen(dash + 1) != len || strncmp(dash + 1, p->names[c], len) != 0;
}

/* y of the line of channel c; of the end of the channels for their number. */
static double y_of(const struct eeg_page *p, int c) {
    double y = PAGE_TOP + (c + 0.5) * row_height(p);
    for (int i = 1; i <= c && i < channels_of(p); i++)
        y += begins_group(p, i) ? PAGE_CHAIN_GAP : 0;
    return y;
}

double eeg_page_spacing_uv(const struct eeg_page *p) {
    static const double steps[] = {10, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 2000, 5000, 10000};
    int64_t all = p->n * p->channels, n = 0;
    OWNED_MEMORY float *sizes = malloc((size_t)(all + 1) * sizeof *sizes);
    for (int64_t i = 0; sizes && i < all; i++)
        if (!isnan(p->uv[i]))
            sizes[n++] = fabsf(p->uv[i]);
    if (!n)
        return 100;
    SORT(sizes, n, order_f32s);
    double wanted = 1.3 * (double)sizes[(n - 1) * 97 / 100];
    size_t last = sizeof steps / sizeof *steps - 1, i = 0;
    while (i < last && steps[i] < wanted)
        i++;
    return steps[i];
}

/* Samples that share a column of the picture, in the order of their extremes. */
struct column {
    int64_t low_at, high_at;
    float low, high;
};

static void add_sample(struct column *k, int64_t at, float value) {
    if (k->low_at < 0 || value < k->low) {
        k->low = value;
        k->low_at = at;
    }
    if (k->high_at < 0 || value > k->high) {
        k->high = value;
        k->high_at = at;
    }
}

/* Where a trace is drawn: y = zero + value·scale (negative up). */
struct trace_line {
    struct svg_path path;
    double zero, scale, reach;
    bool started;
};

static void put_point(struct trace_line *t, const struct eeg_page *p, int64_t at, float value) {
    double x = PAGE_LEFT + PAGE_WIDTH * ((double)at + 0.5) / (p->rate_hz * p->seconds);
    double y = t->zero + fmin(fmax((double)value * t->scale, -t->reach), t->reach);
    (t->started ? svg_path_line : svg_path_move)(&t->path, x, y);
    t->started = true;
}

static void put_column(struct trace_line *t, const struct eeg_page *p, const struct column *k) {
    bool rises = k->low_at < k->high_at;
    if (k->low_at < 0)
        return;
    put_point(t, p, rises ? k->low_at : k->high_at, rises ? k->low : k->high);
    if (k->low_at != k->high_at)
        put_point(t, p, rises ? k->high_at : k->low_at, rises ? k->high : k->low);
}

static void draw_wave(struct svg *g, const struct eeg_page *p, int c, double spacing_uv) {
    char class[32];
    struct trace_line t = {.zero = y_of(p, c), .scale = row_height(p) / spacing_uv, .reach = PAGE_CLIP_ROWS * row_height(p)};
    struct column k = {-1, -1, 0, 0};
    int64_t in_column = -1;
    str_format(class, sizeof class, "wave %s", side_of(p->names[c]));
    svg_path_open(&t.path, g, class);
    for (int64_t i = 0; i < p->n; i++) {
        float value = p->uv[i * p->channels + c];
        int64_t column = (int64_t)(PAGE_WIDTH * (double)i / (p->rate_hz * p->seconds));
        if (column != in_column || isnan(value)) {
            put_column(&t, p, &k);
            k = (struct column){-1, -1, 0, 0};
            in_column = column;
        }
        if (isnan(value))
            t.started = false;
        else
            add_sample(&k, i, value);
    }
    put_column(&t, p, &k);
    svg_path_close(&t.path);
}

static void draw_names(struct svg *g, const struct eeg_page *p, double spacing_uv) {
    char class[48], text[32];
    for (int c = 0; c < channels_of(p); c++) {
        str_format(class, sizeof class, "label %s-name", side_of(p->names[c]));
        svg_text(g, PAGE_LEFT - 12, y_of(p, c) + 4, class, "end", p->names[c]);
    }
    double x = PAGE_LEFT + PAGE_WIDTH + 14, y = y_of(p, 0);
    svg_line(g, x, y - row_height(p) / 2, x, y + row_height(p) / 2, "middle");
    str_format(text, sizeof text, "%g µV", spacing_uv);
    svg_text(g, x + 6, y + 4, "label", "start", text);
}

static void draw_seconds(struct svg *g, const struct eeg_page *p, double bottom) {
    int64_t last = (int64_t)floor(p->from_s + p->seconds);
    for (int64_t s = (int64_t)ceil(p->from_s - 1e-9); s <= last; s++) {
        char text[32];
        double x = x_of(p, (double)s);
        int64_t clock = (int64_t)floor(p->clock_s + (double)s) % PAGE_DAY_S;
        svg_line(g, x, PAGE_TOP - 6, x, bottom, "grid");
        if (p->has_clock)
            str_format(text, sizeof text, "%02d:%02d:%02d", (int)(clock / 3600), (int)(clock / 60 % 60), (int)(clock % 60));
        else
            svg_time(text, sizeof text, (double)s, 1);
        svg_text(g, x, bottom + 18, "label", "middle", text);
    }
    svg_line(g, PAGE_LEFT, bottom, PAGE_LEFT + PAGE_WIDTH, bottom, "axis");
}

static bool is_inside(const struct eeg_page *p, double time_s) { return time_s >= p->from_s && time_s <= p->from_s + p->seconds; }

/* A row of bars below the EEG, and a line through it where one begins. */
struct track {
    const char *name, *bar, *onset;
    const struct plot_span *spans;
    int n;
};

static void draw_track(struct svg *g, const struct eeg_page *p, const struct track *t, double y, double bottom) {
    svg_text(g, PAGE_LEFT - 12, y + 11, "label", "end", t->name);
    svg_rect(g, &(struct svg_box){PAGE_LEFT, y, PAGE_WIDTH, PAGE_BAR}, "track", NULL);
    for (int i = 0; i < t->n; i++) {
        const struct plot_span *s = &t->spans[i];
        if (s->end_s < p->from_s || s->onset_s > p->from_s + p->seconds)
            continue;
        double x = x_of(p, s->onset_s);
        svg_rect(g, &(struct svg_box){x, y, x_of(p, s->end_s) - x, PAGE_BAR}, t->bar, NULL);
        if (is_inside(p, s->onset_s))
            svg_line(g, x, PAGE_TOP - 6, x, bottom, t->onset);
    }
}

static void draw_alarm_track(struct svg *g, const struct eeg_page *p, double y, double bottom) {
    svg_text(g, PAGE_LEFT - 12, y + 11, "label", "end", "alarms");
    svg_rect(g, &(struct svg_box){PAGE_LEFT, y, PAGE_WIDTH, PAGE_BAR}, "track", NULL);
    for (int i = 0; i < p->n_alarms; i++) {
        double x = x_of(p, p->alarms_s[i]);
        if (!is_inside(p, p->alarms_s[i]))
            continue;
        svg_line(g, x, PAGE_TOP - 6, x, bottom, "alarm-line");
        str_printf(&g->out, "<path class=\"alarm\" d=\"M%.1f %.1fl6 %dh-12z\"/>\n", x, y, PAGE_BAR);
    }
}

static void draw_found(struct svg *g, const struct eeg_page *p, double bottom) {
    for (int i = 0; i < p->n_detected; i++) {
        const struct plot_span *s = &p->detected[i];
        double x = x_of(p, s->onset_s);
        if (s->end_s >= p->from_s && s->onset_s <= p->from_s + p->seconds)
            svg_rect(g, &(struct svg_box){x, PAGE_TOP - 6, x_of(p, s->end_s) - x, bottom - PAGE_TOP + 6}, "found", NULL);
    }
}

int eeg_page_draw(const struct eeg_page *p, struct str *out, struct err *err) {
    struct svg g;
    if (p->channels < 1 || !(p->seconds > 0) || p->n < 1)
        return err_set(err, ERR_INVALID, "cannot draw %d channels of %g s; expected one of each at least", p->channels, p->seconds);
    double spacing = eeg_page_spacing_uv(p), end = y_of(p, channels_of(p) - 1) + row_height(p), y = end;
    double bottom = end + PAGE_TRACK * ((p->detected != NULL) + p->has_reference + p->has_alarms);
    svg_open(&g, PAGE_LEFT + PAGE_WIDTH + PAGE_RIGHT, bottom + 32, p->title);
    str_puts(&g.out, page_style);
    svg_text(&g, PAGE_LEFT, 26, "title", "start", p->title);
    svg_text(&g, PAGE_LEFT, 48, "muted", "start", p->subtitle);
    draw_seconds(&g, p, bottom);
    draw_found(&g, p, end);
    if (p->has_reference) {
        draw_track(&g, p, &(struct track){"true", "reference", "true-onset", p->reference, p->n_reference}, y, end);
        y += PAGE_TRACK;
    }
    if (p->detected) {
        draw_track(&g, p, &(struct track){"detected", "detected", "onset", p->detected, p->n_detected}, y, end);
        y += PAGE_TRACK;
    }
    if (p->has_alarms)
        draw_alarm_track(&g, p, y, end);
    for (int c = 0; c < channels_of(p); c++)
        draw_wave(&g, p, c, spacing);
    draw_names(&g, p, spacing);
    return svg_append(&g, out, err);
}
